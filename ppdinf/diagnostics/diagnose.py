"""One call that says whether a posterior can be trusted, and what to do when it cannot."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf.diagnostics.acceptance_by_cell import acceptance_by_cell
from ppdinf.diagnostics.convergence import convergence
from ppdinf.diagnostics.coupling_bound import coupling_bound, not_coupled
from ppdinf.diagnostics.problems import fiber_problems, independent, problems_of
from ppdinf.diagnostics.rhat import limit, shown
from ppdinf.distributions.densities.confidential_rv import ConfidentialRV
from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.models.posterior_tables import finished_draws
from ppdinf.noise.mcmc.tv_bound import TVBound

__all__ = ["Diagnosis", "diagnose"]

COUPLED = 32  # cells of a table whose walk is coupled here: a second or two
LIMIT = 64  # draws within which its pairs must agree


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found.

    Attributes
    ----------
    cells : pandas.DataFrame
        One row per cell of every integer variable: ``moved``, ``distinct`` (see `movement`), ``r_hat``,
        ``ess_bulk``, and ``fixed``: whether the public sums leave the cell no freedom.
    parameters : pandas.DataFrame
        ``r_hat``, ``ess_bulk`` and ``ess_tail`` of every other variable.
    problems : list of str
        One sentence each, with what to do next. Empty when all is well.
    forgets : TVBound or None
        Of a table of up to 32 cells that was walked, given the parameters (`forgetting`, for larger ones too).
    chains : int

    Examples
    --------
    >>> print(Diagnosis(pd.DataFrame(), pd.DataFrame(), []))
    No problem found.
    """

    cells: pd.DataFrame
    parameters: pd.DataFrame
    problems: list[str] = field(default_factory=list)
    forgets: TVBound | None = None
    chains: int = 4

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    @property
    def rated(self) -> pd.DataFrame:
        """Rows of `parameters`, and of those `cells` that took more values than one."""
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
            largest, most = both["r_hat"].max(), limit(int(both["r_hat"].notna().sum()), self.chains)
            many = f" (of {len(both)}; up to {most:.3f} is chance)" if limit(1, self.chains) < largest <= most else ""
            head.append(f"Largest R-hat {shown(largest, most)}{many}, smallest bulk ESS {both['ess_bulk'].min():.0f}.")
        if self.forgets is not None:
            head.append(_of_forgetting(self.forgets))
        body = [f"- {problem}" for problem in self.problems] or ["No problem found."]
        return "\n".join(head + body)


def diagnose(idata: xr.DataTree, model: pm.Model | None = None) -> Diagnosis:
    """Check movement, convergence and consistency of a posterior; nan counts as failure.

    Parameters
    ----------
    idata : xarray.DataTree
        What `pm.sample` returned for `model`.
    model : pymc.Model, optional
        The model, when not in its context. Any model with integer variables will do, with or
        without `PartiallyPrivate`.

    Returns
    -------
    Diagnosis

    Raises
    ------
    ModelError
        `idata` holds none of the model's variables.

    Warns
    -----
    DiagnosisWarning
        For each problem, so that none passes in silence; and where sampling was stopped, so that chains differ in
        length, saying how many draws of each are looked at.

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> release = ppd.Release(np.array([3, 1, 2]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     x = ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), release=release, marginalize=False)
    ...     idata = pm.sample(500, tune=0, chains=4, cores=1, random_seed=1, progressbar=False, quiet=True)
    >>> diagnose(idata, model).ok
    True
    """
    model, idata = pm.modelcontext(model), finished_draws(idata)
    posterior = idata.posterior
    free = {rv.name: rv for rv in model.free_RVs if rv.name in posterior}
    if not free:
        raise ModelError("the posterior holds none of the model's variables: pass the result of pm.sample() for it")
    integers, reals = [], []
    for name, rv in free.items():
        part = convergence(posterior[name]).assign(variable=name)
        if rv.dtype.startswith(("int", "uint", "bool")):
            moved = acceptance_by_cell(posterior[name]).set_axis(part.index)
            integers.append(part.assign(fixed=_fixed(rv, len(part))).join(moved))
        else:
            reals.append(part)
    chains = posterior.sizes["chain"]
    found = Diagnosis(_stack(integers), _stack(reals), forgets=_forgets(idata, model), chains=chains)
    found.problems.extend(problems_of(found.cells, found.rated, idata, model))
    for problem in found.problems:
        warnings.warn(problem, DiagnosisWarning, stacklevel=2)
    return found


def _forgets(idata: xr.DataTree, model: pm.Model) -> TVBound | None:
    """Couple the walk of the model's table, where it has one that is small and moved; a few pairs go first."""
    walked = [rv for rv in model.free_RVs if isinstance(rv.owner.op, ConfidentialRV) and rv.name in idata.posterior]
    if len(walked) != 1 or independent(idata):
        return None
    draws = idata.posterior[walked[0].name].values
    cells = draws.reshape(-1, int(np.prod(draws.shape[2:])))
    if cells.shape[1] > COUPLED or (cells == cells[0]).all() or fiber_problems(idata, model):
        return None
    if not_coupled(walked[0], model):
        return None
    scouts = coupling_bound(idata, model, pairs=16, limit=LIMIT)
    return scouts if scouts.unmet else coupling_bound(idata, model, limit=LIMIT)


def _of_forgetting(bound: TVBound) -> str:
    if bound.unmet:
        return (
            f"Given the parameters, {bound.unmet} of {bound.meetings.size} pairs of coupled tables had not agreed "
            f"after {bound.limit} draws: R-hat and ESS alone speak for the table (usual where many sums cross)."
        )
    steps = int(bound.meetings.max()) - bound.lag
    return (
        f"Given the parameters, {bound.meetings.size} pairs of coupled tables agreed: the table is within "
        f"{float(bound.upper(steps)):.2g} of its law, in total variation, {steps} draws after another of the posterior."
    )


def _fixed(rv: TensorVariable, size: int) -> np.ndarray:
    if isinstance(rv.owner.op, ConfidentialRV):
        return rv.owner.op.fiber.fixed
    return np.zeros(size, dtype=bool)


def _stack(parts: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(parts) if parts else pd.DataFrame()
