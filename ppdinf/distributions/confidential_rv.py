"""`ConfidentialRV`: the random variable of a confidential table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc import logp

from ppdinf._internal.pymc_compat import (
    CheckAndRaise,
    Op,
    RandomType,
    RandomVariable,
    SymbolicRandomVariable,
    TensorVariable,
    Variable,
    _logprob,
    _support_point,
)
from ppdinf.distributions.data_models import constant, elementwise, log_density
from ppdinf.distributions.factors import CHANGED, CellFactor
from ppdinf.distributions.marginal_logp import fixed
from ppdinf.distributions.observed import Observed
from ppdinf.distributions.ops import stop_gradient
from ppdinf.distributions.tied_cells import Lines, TiedCells
from ppdinf.distributions.weight_forms import GammaForm, gamma_form, natural_dependent, natural_form
from ppdinf.errors import ModelError
from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.fiber.nested_sums.nested_sums import NestedSums
from ppdinf.fiber.sums_given_totals import totals
from ppdinf.lattice.rows import LISTED, Rows, kinds


def identical_cells(
    dist: TensorVariable, shape: tuple[int, ...], key: NDArray[np.int64]
) -> tuple[TensorVariable, NDArray[np.int64], NDArray[np.int64]] | None:
    """Group cells with identical distributions."""
    op = dist.owner.op
    if not isinstance(op, RandomVariable) or any(op.ndims_params):
        return None
    parameters, keys = op.dist_params(dist.owner), [key]
    known = [None if all(p.type.broadcastable) else constant(p) for p in parameters]
    for parameter, values in zip(parameters, known, strict=True):
        if values is not None:
            keys.append(np.broadcast_to(values, shape).ravel())
        elif not all(parameter.type.broadcastable):
            return None
    first, kind = kinds(keys)
    if first.size == kind.size:
        return None
    of_kinds = [
        parameter.ravel() if values is None else pt.constant(np.broadcast_to(values, shape).ravel()[first])
        for parameter, values in zip(parameters, known, strict=True)
    ]
    rng, size = dist.owner.inputs[0], pt.constant([first.size])
    return op.make_node(rng, size, *of_kinds).default_output(), first, kind


# nanoseconds for the density of a count and its share in sums, and for a cell evaluated at nodes
OF_DENSITY, OF_SUM, OF_NODES = 85, 20, 4000

# natural parameters, log normalizers, and log weights of counts without both
type Natural = tuple[TensorVariable, TensorVariable, Rows[np.float64]]


def window_logp(
    dist: TensorVariable,
    shape: tuple[int, ...],
    counts: NDArray[np.int64] | TensorVariable,
    *,
    values_only: bool = False,
) -> TensorVariable:
    """Return the log density of every count of every window, symbolic, shape (d, width)."""
    width = counts.shape[1]
    counts = pt.as_tensor(counts.T).reshape((width, *shape))
    tried = stop_gradient(log_density(dist, counts))
    outside = _is_impossible(tried)
    log_p = pt.switch(outside, -np.inf, tried)
    if not values_only:
        inside = pt.switch(outside, counts[0] + pt.argmax(log_p, axis=0, keepdims=True), counts)
        log_p = pt.switch(outside, -np.inf, log_density(dist, inside))
    return log_p.reshape((width, -1)).T


class ConfidentialRV(SymbolicRandomVariable):
    """A table of counts with an elementwise distribution, restricted to a fiber."""

    default_output = 0
    _print_name = ("Confidential", "\\operatorname{Confidential}")

    def __init__(
        self,
        *args: list[Variable],
        base_op: Op,
        observed: Observed,
        fiber: Fiber,
        start: NDArray[np.int64],
        **kwargs: object,
    ) -> None:
        self.base_op, self.observed, self.fiber, self.start = base_op, observed, fiber, start
        self.dims: Sequence[str] | None = None
        self.is_kept_out = False
        self.data_digest, self.unchanged = b"", list[TensorVariable]()
        self.fitted_data = set[bytes]()
        super().__init__(*args, **kwargs)

    @cached_property
    def lines(self) -> Lines | None:
        """One integer for each group of cells that exact sums tie to each other, if other sums cross."""
        if (ties := TiedCells.of(self.observed)) is None:
            return None
        return Lines(ties, self.start.ravel(), self.fiber.lower, self.fiber.width)

    @property
    def largest(self) -> NDArray[np.int64]:
        """Last count of each window, in the shape of the table."""
        return (self.fiber.lower + self.fiber.width - 1).reshape(self.start.shape)

    @property
    def lower(self) -> NDArray[np.int64]:
        """First count of each window, or first integer of each group of tied cells."""
        return self.fiber.lower if self.lines is None else self.lines.lower

    @cached_property
    def groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the group of each cell, shape (d,), -1 for cells in no public sum, and the sum of each group."""
        if self.lines is not None:
            return self.lines.groups
        structure = self.observed.system.structure
        grouped = structure.partition[structure.blocks]
        _, numbers = np.unique(structure.classes[grouped], return_inverse=True)
        block = np.full(self.fiber.lower.size, -1)
        block[grouped] = numbers
        return block, np.bincount(numbers, weights=self.start.ravel()[grouped]).astype(np.int64)

    @cached_property
    def nested(self) -> NestedSums | None:
        """Forest of all exact and noisy sums, if groups are not sufficient."""
        return self.observed.nested(self.fiber.lower, self.fiber.width) if self.lines is None else self.lines.nested

    def of_dist(self, inputs: Sequence[Variable]) -> Sequence[Variable]:
        """Return the inputs of the analyst's distribution among the inputs of a node."""
        return inputs if self.observed.likelihood.auxiliary is None else inputs[:-1]

    def dist(self, inputs: Sequence[Variable]) -> TensorVariable:
        """Rebuild the analyst's distribution on the inputs of a node."""
        return self.base_op.make_node(*self.of_dist(inputs)).default_output()

    def base(self, inputs: Sequence[Variable]) -> tuple[TensorVariable, TensorVariable | float]:
        """Return the cells of the analyst's distribution, and the log density to subtract."""
        return elementwise(self.dist(inputs), self.start.shape)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Every count of every window, shape (d, width)."""
        return self.fiber.lower[:, None] + np.arange(self.fiber.width)

    def log_given(
        self, inputs: Sequence[Variable], counts: NDArray[np.int64] | TensorVariable
    ) -> TensorVariable | float:
        """Return log weights of the noise given the auxiliary variable, shape (d, width), or 0 without one."""
        likelihood = self.observed.likelihood
        if likelihood.norm is not None or likelihood.auxiliary is None:
            return 0.0
        return self.observed.log_counts(counts, inputs[-1])

    def exponential_family(
        self,
        inputs: Sequence[Variable],
        table: Variable | None = None,
        drawn: Sequence[TensorVariable] = (),
        values: Sequence[TensorVariable] = (),
    ) -> Natural | None:
        """Return weights with noise and dependents at values as ``exp(log_h + eta x - log_normaliser)``, or None."""
        form = None if self.observed.likelihood.auxiliary is not None else self._natural(inputs, table, drawn, values)
        if form is None:
            return form
        eta, log_normaliser, log_h = form
        if self.fiber.uninformed.any():
            eta, log_normaliser = (pt.switch(self.fiber.uninformed, 0.0, part) for part in form[:2])
            log_h = Rows.each(np.where(self.fiber.uninformed[:, None], self.fiber.log_noise, log_h.whole))
        if self.lines is not None:
            eta, log_normaliser, log_h = self.lines.natural(eta, log_normaliser, log_h)
        return self._if_unchanged(eta), log_normaliser, log_h

    def summed_weights(self, inputs: Sequence[Variable], factors: Sequence[CellFactor]) -> TensorVariable:
        """Return log weights of all counts of cells, or of all integers of groups of tied cells."""
        weights = self.weights(inputs, factors)
        return weights if self.lines is None else self.lines.weights(weights)

    def log_total(self, weights: NDArray[np.float64]) -> float:
        """Return the log weight of all tables from log weights of all counts, shape (d, width)."""
        weights = weights if self.lines is None else self.lines.added(weights)
        if self.nested is not None:
            return float(self.nested.evaluate(weights.ravel()).value.sum())
        block, total = self.groups
        return float(totals.log_coefficient(weights, lo=self.lower, total=total, block=block).sum())

    def _if_unchanged(self, weights: TensorVariable) -> TensorVariable:
        """Return weights whose evaluation raises an error if the data have changed."""
        return CheckAndRaise(ModelError, CHANGED)(weights, *self.unchanged) if self.unchanged else weights

    def _natural(
        self, inputs: Sequence[Variable], table: Variable | None = None, drawn: Sequence[TensorVariable] = (),
        values: Sequence[TensorVariable] = (),
    ) -> Natural | None:  # fmt: skip
        """Return the exponential-family form without the noise given an auxiliary variable."""
        shape, fiber = self.start.shape, self.fiber
        found = [natural_form(self.base(inputs)[0], shape)]
        found += [natural_dependent(rv, value, table, shape) for rv, value in zip(drawn, values, strict=True)]
        forms = [form for form in found if form is not None]
        if len(forms) < len(found):
            return None
        first, of = kinds([fiber.noise.of, *(column for form in forms for column in form.columns)])
        counts = fiber.lower[first, None] + np.arange(fiber.width)
        log_h = fiber.noise.values[fiber.noise.of[first]]
        log_h = log_h + np.sum([form.of_cells(first, counts) for form in forms], axis=0)
        eta = pt.add(*(form.eta.ravel() for form in forms), 0.0)
        return eta, pt.add(*(form.log_normaliser.ravel() for form in forms), 0.0), Rows(log_h, of)

    def gamma_form(
        self, table: TensorVariable, dependents: Sequence[TensorVariable], values: Sequence[TensorVariable]
    ) -> GammaForm | None:
        """Return weights of the informed cells, with noise and dependents, as ratios of gamma functions, or None."""
        likelihood, joint = self.observed.likelihood, self.nested is not None or self.lines is not None
        if likelihood.auxiliary is not None or self.fiber.coupling is not None or joint:
            return None
        dist, kept, size = self.base(table.owner.inputs)[0], ~self.fiber.uninformed, self.start.size
        same = None if dependents else identical_cells(dist, self.start.shape, self.fiber.lower)

        def by_integers(rows: int) -> bool:
            return self.fiber.width * (OF_DENSITY * rows + OF_SUM * size) < OF_NODES * size

        if size * self.fiber.width <= LISTED and by_integers(size if same is None else same[1].size):
            return None
        form = gamma_form(dist, self.start.shape, self.fiber.noise, self.fiber.lower, kept, table, dependents, values)
        if form is None:
            return None
        if form.rows * self.fiber.width > LISTED:  # all integers, if nodes are inaccurate
            _ = self.fiber.log_noise  # raises the error about too many weights
        ends = None if by_integers(form.rows) else form.ends
        return form._replace(parameters=self._if_unchanged(form.parameters), ends=ends)

    def weights(
        self, inputs: Sequence[Variable], factors: Sequence[CellFactor] = (), counts: TensorVariable | None = None
    ) -> TensorVariable:
        """Return log weights of all counts given everything else, shape (d, width): data model, noise, dependents."""
        form, log_noise = self._natural(inputs), self.fiber.log_noise  # refused here if there are too many weights
        at = self.counts if counts is None else counts
        if form is None:
            weights = self.log_data_model(inputs, counts) + self._at(log_noise, "log_noise", counts)
        else:
            eta, log_normaliser, log_h = form
            ends = (pt.constant(end, dtype="float64") for end in (-1e100, 1e100))  # a rate of 0 gives the count 0
            natural = pt.clip(eta, *ends)[:, None] * at - log_normaliser[:, None]
            weights = self._at(log_h.whole, "log_h", counts) + natural
        weights += self.log_given(inputs, at)
        if self.fiber.uninformed.any():  # weight 1 at the first count of the window, which represents all counts
            alone = pt.switch(pt.eq(at, self.fiber.lower[:, None]), 0.0, -np.inf)
            weights = pt.switch(self.fiber.uninformed[:, None], alone, weights)
        weights = self._if_unchanged(weights)
        if not factors:
            return weights
        with_factors = weights + sum(factor.by_cell(self.possible(weights, at)) for factor in factors)
        if not any(factor.excludes for factor in factors):
            return with_factors
        # gradients are not finite at counts at which a parameter is impossible
        inside, impossible = self.possible(with_factors, at), _is_impossible(with_factors)
        return pt.switch(impossible, -np.inf, weights + sum(factor.by_cell(inside) for factor in factors))

    def possible(self, weights: TensorVariable, counts: NDArray[np.int64] | TensorVariable) -> TensorVariable:
        """Return counts at which dependents are evaluated, shape (width, *table shape)."""
        outside = _is_impossible(weights)
        known = pt.switch(outside, -np.inf, stop_gradient(weights))
        likeliest = (counts[:, 0] + pt.argmax(known, axis=1))[:, None]
        return pt.switch(outside, likeliest, counts).T.reshape((counts.shape[1], *self.start.shape))

    def log_data_model(self, inputs: Sequence[Variable], counts: TensorVariable | None) -> TensorVariable:
        """Return log densities by the data model alone, shape (d, width); of given counts without gradients."""
        (dist, _), shape = self.base(inputs), self.start.shape
        same = identical_cells(dist, shape, self.fiber.lower) if counts is None else None
        if same is None:
            at = self.counts if counts is None else counts
            return window_logp(dist, shape, at, values_only=counts is not None)
        of_kinds, first, kind = same
        return window_logp(of_kinds, first.shape, self.counts[first])[kind]

    def _at(self, table: NDArray[np.float64], name: str, counts: TensorVariable | None) -> TensorVariable:
        """Return constant log weights, shape (d, width of the windows), at counts; -inf outside the windows."""
        known = fixed(table, name)
        if counts is None:
            return known
        column = counts - self.fiber.lower[:, None]
        inside = (column >= 0) & (column < self.fiber.width)
        rows = np.arange(self.start.size)[:, None]
        return pt.switch(inside, known[rows, pt.clip(column, 0, self.fiber.width - 1)], -np.inf)

    def conditional(
        self, table: TensorVariable, factors: Sequence[CellFactor] = (), counts: TensorVariable | None = None
    ) -> list[TensorVariable]:
        """Return the distribution of the table given the parameters, symbolic, for Gibbs steps along lines."""
        inputs, likelihood = table.owner.inputs, self.observed.likelihood
        weights = self.weights(inputs, factors, counts)
        if likelihood.norm is None:
            return [weights]
        given = () if likelihood.auxiliary is None else inputs[-1:]
        y = likelihood.shifted(self.observed.y, *given)
        return [weights, pt.as_tensor(likelihood.norm.image(y))]


def _is_impossible(log_weights: TensorVariable) -> TensorVariable:
    """Return whether log weights are -inf or undefined, without gradients."""
    known = stop_gradient(log_weights)
    return pt.or_(pt.isnan(known), pt.eq(known, -np.inf))


def confidential(
    dist: TensorVariable,
    observed: Observed,
    fiber: Fiber,
    start: NDArray[np.int64],
    auxiliary: TensorVariable | None = None,
) -> TensorVariable:
    """Wrap an unnamed distribution that has the shape of the table."""
    inputs = [pt.random.shared_rng(seed=None) if isinstance(inp.type, RandomType) else inp for inp in dist.owner.inputs]
    inner = [inp if isinstance(inp.type, RandomType) else inp.type() for inp in inputs]
    node = dist.owner.op.make_node(*inner)
    outputs = [node.default_output(), *(out for out in node.outputs if isinstance(out.type, RandomType))]
    given = [] if auxiliary is None else [auxiliary]
    return ConfidentialRV(
        [*inner, *(v.type() for v in given)], outputs, base_op=node.op, observed=observed, fiber=fiber, start=start,
        ndim_supp=0, on_unused_input="ignore",
    )(*inputs, *given)  # fmt: skip


@_logprob.register(ConfidentialRV)
def _confidential_logp(
    op: ConfidentialRV, values: Sequence[TensorVariable], *inputs: Variable, **kwargs: object
) -> TensorVariable:
    (value,) = values
    cells, log_sums = op.base(inputs)
    return logp(cells, value) - log_sums / op.start.size


@_support_point.register(ConfidentialRV)
def _confidential_support_point(op: ConfidentialRV, rv: TensorVariable, *inputs: Variable) -> TensorVariable:
    return pt.constant(op.start)
