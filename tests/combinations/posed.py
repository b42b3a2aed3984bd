"""A posterior for the enumerator."""

from dataclasses import dataclass, field

import numpy as np

from combinations import data_models, frames
from combinations.enumerator import Listed, System, Term
from combinations.formulas import normal


@dataclass
class Posed:
    """A posterior: tables, noise, data model and dependents of the table."""

    frame: frames.Frame
    system: System
    published: list[Term]
    law: data_models.Counts | None = None  # None: flat on all non-negative counts
    unknown: data_models.Parameters | None = None
    dependents: list = field(default_factory=list)
    data: dict = field(default_factory=dict)
    fixed: dict = field(default_factory=dict)  # by pm.do: without a density
    given: dict = field(default_factory=dict)  # by pm.observe: with a density
    second: "Posed | None" = None  # another table with the same unknowns
    table: str = "x"  # its name in the model
    exchange: bool = False  # whether a normalizer is left to the sampler, and missing in the density of a table

    @property
    def priors(self):
        return {name: size for name, size in self.unknown.priors.items() if name not in self.fixed}

    def values(self, point):
        return {**point, **self.fixed, **self.given}

    def log_prior(self, point):
        return sum(float(normal(np.asarray(point[name]), 0, 1).sum()) for name in self.priors)

    def terms(self, point):
        """Return all log weights of tables at a point."""
        if self.law is None:
            return list(self.published)
        values = self.values(point)
        eta = np.broadcast_to(self.unknown.eta(values, self.data), self.frame.shape)
        found = [*self.published, *data_models.terms(self.law, self.frame, eta)]
        for one in self.dependents:
            found += one.terms(values, self.data)
        return found

    def listed(self, point):
        """Return all tables with their weights, and the sum of the terms without cells."""
        terms = self.terms(point)
        constant = sum(float(term.weigh(None)) for term in terms if not term.cells)
        return Listed.of(self.system, [term for term in terms if term.cells]), constant

    def log_density(self, point, table=None):
        """Return the log density of a point with the table marginalized, or of a point and a table."""
        listed, constant = self.listed(point)
        found = self.log_prior(point) + constant
        found += listed.log_total if table is None else listed.log_weight_of(table)
        if self.second is not None:
            found += self.second.listed(point)[0].log_total
        return found

    def free(self):
        """Return labels of the cells that nothing depends on but the data model."""
        if self.law is None or self.law.rows is not None or self.dependents:
            return []
        linked = [np.flatnonzero(row) for row, _, _ in self.system.rows()] + [term.cells for term in self.published]
        kept = set(range(self.frame.size)) - set().union(*map(tuple, linked))
        names = [zip(self.frame.dims, position, self.frame.labels, strict=True) for position in self.frame.positions]
        return [", ".join(f"{dim}={labels[k]}" for dim, k, labels in names[cell]) for cell in sorted(kept)]

    def latent(self):
        """Return free latent variables of dependents, and functions that draw their values."""
        found = {}
        for one in self.dependents:
            found |= {name: draw for name, draw in one.latent.items() if name not in {**self.fixed, **self.given}}
        return found

    def point(self, rng, table):
        """Draw random values of everything except the table."""
        point = {}
        for name, size in self.priors.items():
            value = np.clip(rng.normal(0, 0.9, size), -2, 2).round(3)
            point[name] = value[0] if size == 1 and name != "effect" else value
        for name, draw in self.latent().items():
            point[name] = np.asarray(draw(rng, np.asarray(table).reshape(self.frame.shape)))
        return point
