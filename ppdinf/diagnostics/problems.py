"""What is wrong with a posterior, a sentence each, with what to do next."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from ppdinf.diagnostics.parametrization import diverging, parametrisations
from ppdinf.diagnostics.rhat import APART, FEWEST, limit, shown
from ppdinf.diagnostics.truncation_check import window_problems
from ppdinf.distributions.densities.confidential_rv import ConfidentialRV

__all__ = ["ESS", "fiber_problems", "independent", "problems_of"]

ESS = 400
K_HAT = 0.7


def problems_of(cells: pd.DataFrame, rated: pd.DataFrame, idata: xr.DataTree, model: pm.Model) -> list[str]:
    """Check weights, movement, public sums, agreement of chains and windows.

    Parameters
    ----------
    cells : pandas.DataFrame
        One row per integer cell: ``moved``, ``distinct``, ``fixed``, ``variable``.
    rated : pandas.DataFrame
        What R-hat and effective sample sizes are judged of.
    idata : xarray.DataTree
    model : pymc.Model
    """
    problems = _weight_problems(idata)
    chains = idata.posterior.sizes["chain"]
    if chains < 2 and not independent(idata):
        problems.append("There is one chain: run at least four with pm.sample(chains=4) so that they can disagree.")
    problems += _movement_problems(cells)
    problems += fiber_problems(idata, model)
    if idata.posterior.sizes["draw"] < FEWEST:
        problems.append(f"There are fewer than {FEWEST} draws of each chain, too few to judge: draw more (draws=).")
    elif len(rated):
        problems += _rhat_problems(rated["r_hat"], chains)
    low = rated[rated["ess_bulk"] < ESS]
    if len(low):
        problems.append(
            f"The effective sample size is {low['ess_bulk'].min():.0f} (under {ESS}) for {_some(low.index)}: "
            f"draw about {_times(ESS / low['ess_bulk'].min())} as many (draws=) before reading intervals."
        )
    if diverged := int(diverging(idata).sum()):
        problems.append(f"{diverged} transitions diverged: raise target_accept to 0.95 or reparametrise.")
    if not independent(idata):
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
            "longer (draws=, tune=) or reparametrise (effects in units of their scale, or as they are)."
        )
    return problems


def _times(factor: float) -> str:
    """Say how many times as much, in words that promise no precision."""
    return "twice" if factor <= 2 else f"{int(np.ceil(factor))} times" if np.isfinite(factor) else "many times"


def independent(idata: xr.DataTree) -> bool:
    """Tell draws by rejection or importance sampling, which need no second chain to disagree with."""
    return bool({"acceptance_rate", "pareto_k"} & set(_attrs(idata)))


def _attrs(idata: xr.DataTree) -> dict[str, float]:
    return getattr(idata.get("sample_stats"), "attrs", {})


def _weight_problems(idata: xr.DataTree) -> list[str]:
    attrs = _attrs(idata)
    problems = []
    if not attrs.get("pareto_k", 0.0) <= K_HAT:
        problems.append(
            f"k-hat is {attrs['pareto_k']:.2f} (over {K_HAT}): a few weighted draws carry nearly all the weight. "
            "Use pm.sample() instead."
        )
    if not attrs.get("halves_agree", 1):
        problems.append(
            "Two searches for the modes of the posterior gave different evidence: a mode may be missing. Compare with "
            "pm.sample() or ppdinf.samplers.rejection."
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


def fiber_problems(idata: xr.DataTree, model: pm.Model) -> list[str]:
    """Name tables of which draws break a public sum."""
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
