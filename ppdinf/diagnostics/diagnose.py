"""`diagnose`: all checks of a posterior in one call, with remedies."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from ppdinf.diagnostics.convergence import convergence, format_rhat, limit
from ppdinf.diagnostics.missed_modes import MAX_PARAMETERS, missed_modes
from ppdinf.diagnostics.movement import acceptance_by_cell, coupling_bound, not_coupled
from ppdinf.diagnostics.parametrization import diverging
from ppdinf.diagnostics.problems import fiber_problems, independent, problems_of
from ppdinf.distributions.confidential_rv import ConfidentialRV
from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.models.posterior_tables import finished_draws
from ppdinf.noise.mcmc.tv_bound import TVBound

COUPLED = 32  # maximum number of cells of a table whose chains are coupled here: takes a second or two
LIMIT = 64  # draws within which its pairs must be equal


@dataclass(frozen=True)
class Diagnosis:
    """Result of `diagnose`.

    Attributes
    ----------
    cells : pandas.DataFrame
        One row per cell of every integer variable: ``moved``, ``changes`` and ``distinct`` (see `acceptance_by_cell`),
        ``r_hat``, ``ess_bulk``, and ``fixed``: whether the public sums determine the cell.
    parameters : pandas.DataFrame
        ``r_hat``, ``ess_bulk`` and ``ess_tail`` of every other variable.
    problems : list of str
        Sentences, each with a remedy; empty if no problem was detected.
    coupling : TVBound or None
        For a sampled table of up to 32 cells, given the parameters (see `coupling_bound` for larger tables).
    chains : int
    divergences : int
        Number of divergent transitions; more than one in 1,000 draws are a problem.

    See Also
    --------
    ppdinf.diagnose

    Examples
    --------
    >>> import pandas as pd
    >>> from ppdinf.diagnostics import Diagnosis
    >>> print(Diagnosis(pd.DataFrame(), pd.DataFrame(), []))
    No problem found.
    """

    cells: pd.DataFrame
    parameters: pd.DataFrame
    problems: list[str] = field(default_factory=list)
    coupling: TVBound | None = None
    chains: int = 4
    divergences: int = 0

    @property
    def ok(self) -> bool:
        """True if no problem was detected."""
        return not self.problems

    @property
    def rated(self) -> pd.DataFrame:
        """Rows of `parameters`, and rows of `cells` with more than one value."""
        cells = self.cells
        moving = cells[~cells["fixed"] & (cells["distinct"] > 1)] if len(cells) else cells
        return pd.concat([moving, self.parameters])

    def __str__(self) -> str:
        head = []
        if len(self.cells):
            free = self.cells[~self.cells["fixed"]]
            head.append(
                f"{len(free)} of {len(self.cells)} integer cells are free; each moved in "
                f"{free['moved'].min():.0%} to {free['moved'].max():.0%} of the draws."
            )
        both = pd.concat([self.cells, self.parameters])
        if len(both) and both["r_hat"].notna().any():
            largest, threshold = both["r_hat"].max(), limit(int(both["r_hat"].notna().sum()), self.chains)
            many = f" (of {len(both)}; limit {threshold:.3f})" if limit(1, self.chains) < largest <= threshold else ""
            head.append(
                f"Largest R-hat {format_rhat(largest, threshold)}{many}, smallest bulk ESS "
                f"{both['ess_bulk'].min():.0f}."
            )
        if self.divergences:
            head.append(f"Divergent transitions: {self.divergences}.")
        if self.coupling is not None:
            head.append(_coupling_sentence(self.coupling))
        body = [f"- {problem}" for problem in self.problems] or ["No problem found."]
        return "\n".join(head + body)


def diagnose(idata: xr.DataTree, model: pm.Model | None = None) -> Diagnosis:
    """Check movement, convergence and consistency of a posterior; nan counts as failure.

    Chains of a posterior of at most five parameters, all continuous, are also compared with importance sampling. This
    takes seconds and detects modes that no chain visited. For more parameters, or if one evaluation of the density
    takes more than 3 ms, nothing detects such a mode.

    Parameters
    ----------
    idata : xarray.DataTree
        Result of `pm.sample` for `model`.
    model : pymc.Model, optional
        The model, outside its context. Any model with integer variables is accepted, with or without
        `PartiallyPrivate`.

    Raises
    ------
    ModelError
        `idata` contains none of the model's variables.

    Warns
    -----
    DiagnosisWarning
        One warning per problem. If sampling was stopped and chains differ in length, the warning states how many
        draws of each chain are used.

    See Also
    --------
    ppdinf.diagnostics.Diagnosis, ppdinf.compare, ppdinf.diagnostics.coupling_bound

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> release = ppd.Release(np.array([3, 1, 2]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     x = ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), release=release, marginalize=False)
    ...     idata = pm.sample(500, tune=0, chains=4, cores=1, random_seed=1, progressbar=False, quiet=True)
    >>> ppd.diagnose(idata, model).ok
    True
    """
    model, idata = pm.modelcontext(model), finished_draws(idata)
    posterior = idata.posterior
    free = {rv.name: rv for rv in model.free_RVs if rv.name in posterior}
    if not free:
        raise ModelError("the posterior has none of the model's variables: pass the result of pm.sample() for it")
    integers, reals = [], []
    for name, rv in free.items():
        part = convergence(posterior[name]).assign(variable=name)
        if rv.dtype.startswith(("int", "uint", "bool")):
            moved = acceptance_by_cell(posterior[name]).set_axis(part.index)
            fixed = rv.owner.op.fiber.fixed if isinstance(rv.owner.op, ConfidentialRV) else False
            integers.append(part.assign(fixed=fixed).join(moved))
        else:
            reals.append(part)
    chains = posterior.sizes["chain"]
    tables = (_stack(integers), _stack(reals))
    diverged = int(diverging(idata).sum())
    diagnosis = Diagnosis(*tables, coupling=_couple(idata, model), chains=chains, divergences=diverged)
    diagnosis.problems.extend(problems_of(diagnosis.cells, diagnosis.rated, idata, model))
    complete = len(free) == len(model.free_RVs) and not integers
    if complete and diagnosis.ok and not independent(idata) and len(diagnosis.parameters) <= MAX_PARAMETERS:
        diagnosis.problems.extend(missed_modes(idata, model, diagnosis.parameters))
    for problem in diagnosis.problems:
        warnings.warn(problem, DiagnosisWarning, stacklevel=2)
    return diagnosis


def _couple(idata: xr.DataTree, model: pm.Model) -> TVBound | None:
    """Couple chains of the model's table if it is small and moved; a few pairs are tried first."""
    sampled = [rv for rv in model.free_RVs if isinstance(rv.owner.op, ConfidentialRV) and rv.name in idata.posterior]
    if len(sampled) != 1 or independent(idata):
        return None
    draws = idata.posterior[sampled[0].name].values
    cells = draws.reshape(-1, int(np.prod(draws.shape[2:])))
    if cells.shape[1] > COUPLED or (cells == cells[0]).all() or fiber_problems(idata, model):
        return None
    if not_coupled(sampled[0], model):
        return None
    scouts = coupling_bound(idata, model, pairs=16, limit=LIMIT)
    return scouts if scouts.unmet else coupling_bound(idata, model, limit=LIMIT)


def _coupling_sentence(bound: TVBound) -> str:
    if bound.unmet:
        return (
            f"Given the parameters, {bound.unmet} of {bound.meetings.size} pairs of coupled tables were not equal "
            f"after {bound.limit} draws: check the table by R-hat and ESS (usual where many sums cross)."
        )
    steps = int(bound.meetings.max()) - bound.lag
    return (
        f"Given the parameters, {bound.meetings.size} pairs of coupled tables became equal: {steps} draws after any "
        f"draw, the table is within {float(bound.upper(steps)):.2g} of its posterior in total variation."
    )


def _stack(parts: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(parts) if parts else pd.DataFrame()
