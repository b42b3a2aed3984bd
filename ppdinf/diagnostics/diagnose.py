"""One call that says whether a posterior can be trusted, and what to do when it cannot."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

from ppdinf.diagnostics.convergence import convergence
from ppdinf.diagnostics.forgetting import forgetting, not_coupled
from ppdinf.diagnostics.movement import movement
from ppdinf.diagnostics.parametrisation import parametrisations
from ppdinf.diagnostics.rhat import APART, limit, shown
from ppdinf.diagnostics.windows import window_problems
from ppdinf.distributions.confidential import ConfidentialRV
from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.models.posterior_tables import finished_draws
from ppdinf.noise.chains.tv_bound import TVBound

__all__ = ["Diagnosis", "diagnose"]

ESS = 400
K_HAT = 0.7
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


def diagnose(idata: Any, model: pm.Model | None = None) -> Diagnosis:
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
            moved = movement(posterior[name]).set_axis(part.index)
            integers.append(part.assign(fixed=_fixed(rv, len(part))).join(moved))
        else:
            reals.append(part)
    chains = posterior.sizes["chain"]
    found = Diagnosis(_stack(integers), _stack(reals), forgets=_forgets(idata, model), chains=chains)
    found.problems.extend(_problems(found, idata, model))
    for problem in found.problems:
        warnings.warn(problem, DiagnosisWarning, stacklevel=2)
    return found


def _forgets(idata: Any, model: pm.Model) -> TVBound | None:
    """Couple the walk of the model's table, where it has one that is small and moved; a few pairs go first."""
    walked = [rv for rv in model.free_RVs if isinstance(rv.owner.op, ConfidentialRV) and rv.name in idata.posterior]
    if len(walked) != 1 or _independent(idata):
        return None
    draws = idata.posterior[walked[0].name].values
    cells = draws.reshape(-1, int(np.prod(draws.shape[2:])))
    if cells.shape[1] > COUPLED or (cells == cells[0]).all() or _fiber_problems(idata, model):
        return None
    if not_coupled(walked[0], model):
        return None
    scouts = forgetting(idata, model, pairs=16, limit=LIMIT)
    return scouts if scouts.unmet else forgetting(idata, model, limit=LIMIT)


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


def _fixed(rv: Any, size: int) -> np.ndarray:
    if isinstance(rv.owner.op, ConfidentialRV):
        return rv.owner.op.fiber.fixed
    return np.zeros(size, dtype=bool)


def _stack(parts: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(parts) if parts else pd.DataFrame()


def _problems(found: Diagnosis, idata: Any, model: pm.Model) -> list[str]:
    problems = _weight_problems(idata)
    chains = idata.posterior.sizes["chain"]
    if chains < 2 and not _independent(idata):
        problems.append("There is one chain: run at least four with pm.sample(chains=4) so that they can disagree.")
    problems += _movement_problems(found.cells)
    problems += _fiber_problems(idata, model)
    rated = found.rated
    problems += _rhat_problems(rated["r_hat"], chains) if len(rated) else []
    low = rated[rated["ess_bulk"] < ESS]
    if len(low):
        problems.append(
            f"The effective sample size is {low['ess_bulk'].min():.0f} (under {ESS}) for {_some(low.index)}: "
            f"draw about {_times(ESS / low['ess_bulk'].min())} as many (draws=) before reading intervals."
        )
    stats = idata.get("sample_stats", {})
    if "diverging" in stats and int(stats["diverging"].sum()):
        problems.append(
            f"{int(stats['diverging'].sum())} transitions diverged: raise target_accept to 0.95 or reparametrise."
        )
    if not _independent(idata):
        problems += parametrisations(idata, model, list(low["variable"]))
    return problems + window_problems(idata, model)


def _rhat_problems(rhat: pd.Series, chains: int) -> list[str]:
    problems = []
    unknown = rhat[rhat.isna()]
    if len(unknown) and chains > 1:
        problems.append(
            f"R-hat is not a number for {_some(unknown.index)}: these never changed, or hold nan. Look first at "
            "the step that draws them and at their initial values."
        )
    apart = rhat[rhat > APART]
    if len(apart):
        problems.append(
            f"The chains do not overlap at all for {_some(apart.index)}: each stays where it started. Longer chains "
            "will not mend that: set initval=, or look for a step that cannot move them."
        )
    most = limit(len(rhat) - len(unknown), chains)
    high = rhat[(rhat > most) & (rhat <= APART)]
    if len(high):
        many = f", which the largest of {len(rhat)} should not be" if len(rhat) > 1 else ""
        problems.append(
            f"R-hat is up to {shown(high.max(), most)}{many} for {_some(high.index)}: the chains have not mixed. Draw "
            "longer (draws=, tune=) or reparametrise (non-centred effects)."
        )
    return problems


def _times(factor: float) -> str:
    """Say how many times as much, in words that promise no precision."""
    return "twice" if factor <= 2 else f"{int(np.ceil(factor))} times" if np.isfinite(factor) else "many times"


def _independent(idata: Any) -> bool:
    """Tell draws by rejection or importance sampling, which need no second chain to disagree with."""
    return bool({"acceptance_rate", "pareto_k"} & set(_attrs(idata)))


def _attrs(idata: Any) -> dict[str, Any]:
    return getattr(idata.get("sample_stats"), "attrs", {})


def _weight_problems(idata: Any) -> list[str]:
    attrs = _attrs(idata)
    problems = []
    if not attrs.get("pareto_k", 0.0) <= K_HAT:
        problems.append(
            f"k-hat is {attrs['pareto_k']:.2f} (over {K_HAT}): a few weighted draws carry nearly all the weight. "
            "Use pm.sample() instead."
        )
    if attrs.get("ess", ESS) < ESS:
        problems.append(
            f"The weights leave an effective sample size of {attrs['ess']:.0f} (under {ESS}): ask for more draws "
            "before reading intervals."
        )
    return problems


def _movement_problems(cells: pd.DataFrame) -> list[str]:
    problems = []
    for name, part in cells.groupby("variable", sort=False) if len(cells) else ():
        free = part[~part["fixed"]]
        frozen = free[free["distinct"] == 1]
        stuck = free[(free["distinct"] > 1) & (free["moved"] == 0)]
        if len(free) and len(frozen) == len(free):
            problems.append(
                f"{name!r} never moved: all {len(free)} free cells kept one value in every draw of every chain. Every "
                "summary of this posterior is wrong. Constrained integers need PartiallyPrivate, whose step "
                "moves along the fiber; PyMC's own steps change one cell at a time and are always refused."
            )
        elif len(frozen):
            problems.append(
                f"{len(frozen)} free cells of {name!r} kept one value throughout ({_some(frozen.index)}): their spread "
                "is not known. Draw longer; if they stay, the model leaves them no other value."
            )
        if len(stuck):
            problems.append(
                f"{len(stuck)} cells of {name!r} are stuck within a chain but differ between chains "
                f"({_some(stuck.index)}): the chains cannot reach each other."
            )
    return problems


def _fiber_problems(idata: Any, model: pm.Model) -> list[str]:
    problems = []
    for rv in model.free_RVs:
        if isinstance(rv.owner.op, ConfidentialRV) and rv.name in idata.posterior:
            fiber = rv.owner.op.fiber
            draws = idata.posterior[rv.name].values.reshape(-1, fiber.lower.size)
            off = np.count_nonzero(np.any(fiber.system.values[:, None] != fiber.system.A @ draws.T, axis=0))
            if off:
                problems.append(
                    f"{off} draws of {rv.name!r} break a public sum: they were not drawn by LatticeGibbs for this "
                    "release; pass the matching model and idata."
                )
    return problems


def _some(names: pd.Index, shown: int = 3) -> str:
    listed = ", ".join(map(str, names[:shown]))
    return listed if len(names) <= shown else f"{listed} and {len(names) - shown} more"
