"""Problems of a posterior, each a sentence with a remedy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from ppdinf._internal.values import some_of
from ppdinf.diagnostics.convergence import MIN_DRAWS, NO_OVERLAP, format_rhat, limit
from ppdinf.diagnostics.movement import mobile_cells
from ppdinf.diagnostics.parametrization import diverging, parametrisations
from ppdinf.distributions.confidential_rv import ConfidentialRV
from ppdinf.distributions.marginalization import why_sampled
from ppdinf.distributions.renewed_windows import follow_data
from ppdinf.distributions.tables import tables_of
from ppdinf.errors import ModelError
from ppdinf.models.model_order import in_model_order
from ppdinf.models.posterior_tables import outside_windows, window_problem


def window_problems(idata: xr.DataTree, model: pm.Model) -> list[str]:
    """Name the cells whose posterior exceeds their windows, one sentence per table."""
    follow_data(model)
    problems = []
    posterior = idata.posterior
    for table in tables_of(model):
        if not table.is_marginalized and table.name not in posterior:
            continue
        try:
            problems.append(window_problem(table.name, table.law, outside_windows(table, posterior, model)))
        except ModelError as error:  # draws of a required variable are missing
            problems.append(f"The windows of {table.name!r} cannot be checked against the posterior: {error}.")
    return list(filter(None, problems))


ESS = 400
K_HAT = 0.7
DIVERGENT = 1e-3  # largest share of divergent transitions without a sentence, unless small scales cause them
CHANCE = 0.01  # false-alarm probability of a sentence about cells that are constant in one chain


def problems_of(cells: pd.DataFrame, rated: pd.DataFrame, idata: xr.DataTree, model: pm.Model) -> list[str]:
    """Check weights, movement, public sums, agreement of chains, and truncation windows."""
    problems = window_problems(idata, model) + _weight_problems(idata)  # first, since no draws remedy truncation
    chains = idata.posterior.sizes["chain"]
    if chains < 2 and not independent(idata):
        problems.append("There is only one chain: run at least four with pm.sample(chains=4) to compare chains.")
    problems += _movement_problems(cells, idata, model)
    problems += fiber_problems(idata, model)
    if idata.posterior.sizes["draw"] < MIN_DRAWS:
        problems.append(
            f"There are fewer than {MIN_DRAWS} draws per chain, too few for diagnostics: draw more (draws=)."
        )
    elif len(rated):
        problems += _rhat_problems(rated["r_hat"], chains)
    low = rated[rated["ess_bulk"] < ESS]
    if len(low):
        factor = ESS / low["ess_bulk"].min()
        times = "twice" if factor <= 2 else f"{int(np.ceil(factor))} times" if np.isfinite(factor) else "many times"
        problems.append(
            f"The effective sample size is {low['ess_bulk'].min():.0f} (below {ESS}) for {some_of(low.index)}: "
            f"draw about {times} as many (draws=) before using intervals.{_why_sampled(model)}"
        )
    if (flags := diverging(idata)).mean() > DIVERGENT:
        diverged, plural = int(flags.sum()), "" if flags.sum() == 1 else "s"
        problems.append(
            f"{diverged} transition{plural} diverged: raise target_accept to 0.95, then 0.99, or reparametrize."
        )
    if not independent(idata):
        problems += parametrisations(idata, model, list(low["variable"]))
    return problems


def _why_sampled(model: pm.Model) -> str:
    """Return one sentence for each table that is sampled because it cannot be marginalized."""
    sampled = [
        (table.name, why_sampled(table.variable, model)) for table in tables_of(model) if not table.is_marginalized
    ]
    return "".join(f" {name!r} is sampled instead of marginalized, {reason}." for name, reason in sampled if reason)


def _rhat_problems(rhat: pd.Series, chains: int) -> list[str]:
    problems = []
    unknown = rhat[rhat.isna()]
    if len(unknown) and chains > 1:
        problems.append(
            f"R-hat is not a number for {some_of(unknown.index)}: the values are constant or nan. Check the step that "
            "draws these variables and their initial values."
        )
    disjoint = rhat[rhat > NO_OVERLAP]
    if len(disjoint):
        problems.append(
            f"The chains do not overlap for {some_of(disjoint.index)}: each chain stays near its start. Longer chains "
            "do not help: set initval=, or check whether the step can move these variables."
        )
    threshold = limit(len(rhat) - len(unknown), chains)
    high = rhat[(rhat > threshold) & (rhat <= NO_OVERLAP)]
    if len(high):
        many = f" among {len(rhat)} numbers," if len(rhat) > 1 else ""
        problems.append(
            f"R-hat is up to {format_rhat(high.max(), threshold)}{many} for {some_of(high.index)}: the chains have not "
            "mixed. Draw longer (draws=, tune=) or reparametrize (centered or non-centered effects)."
        )
    return problems


def independent(idata: xr.DataTree) -> bool:
    """Return whether draws are from rejection or importance sampling, which need a single chain only."""
    return bool({"acceptance_rate", "pareto_k"} & set(_attrs(idata)))


def _attrs(idata: xr.DataTree) -> dict[str, float]:
    return getattr(idata.get("sample_stats"), "attrs", {})


def _weight_problems(idata: xr.DataTree) -> list[str]:
    attrs = _attrs(idata)
    problems = []
    if not attrs.get("pareto_k", 0.0) <= K_HAT:
        problems.append(
            f"k-hat is {attrs['pareto_k']:.2f} (above {K_HAT}): a few weighted draws carry nearly all the weight. "
            "Use pm.sample() instead."
        )
    if not attrs.get("halves_agree", 1):
        problems.append(
            "Two searches for the modes of the posterior gave different evidence: a mode may be missing. Compare with "
            "pm.sample() or ppdinf.samplers.rejection."
        )
    if attrs.get("ess", ESS) < ESS:
        problems.append(
            f"The weighted draws have an effective sample size of {attrs['ess']:.0f} (below {ESS}): request more draws "
            "before using intervals."
        )
    return problems


def _movement_problems(cells: pd.DataFrame, idata: xr.DataTree, model: pm.Model) -> list[str]:
    problems, chains = [], idata.posterior.sizes["chain"]
    for name, part in cells.groupby("variable", sort=False) if len(cells) else ():
        free = part[~part["fixed"]]
        frozen = free[free["distinct"] == 1]
        rv = model[str(name)]
        if len(frozen) and isinstance(rv.owner.op, ConfidentialRV):  # others have no move
            frozen = frozen[mobile_cells(rv, idata, model)[~part["fixed"]][free["distinct"] == 1]]
        stuck = free[(free["distinct"] > 1) & (free["moved"] == 0) & ~_by_chance(free["changes"], chains)]
        if len(frozen) and len(frozen) == len(free):
            problems.append(
                f"{name!r} never moved: all {len(free)} free cells are constant over all draws and chains. Every "
                "summary of this posterior is wrong. Constrained integers need PartiallyPrivate, whose step "
                "moves along the fiber; PyMC's own steps change one cell at a time and are always rejected."
            )
        elif len(frozen):
            problems.append(
                f"{len(frozen)} free cells of {name!r} are constant ({some_of(frozen.index)}): their spread "
                "is unknown. Draw longer; if they stay constant, the model may determine their values."
            )
        if len(stuck):
            problems.append(
                f"{len(stuck)} cells of {name!r} are constant within a chain but differ within or between other chains "
                f"({some_of(stuck.index)}): the chains do not connect the possible tables."
            )
    return problems


def _by_chance(changes: pd.Series, chains: int) -> pd.Series:
    """Return whether a cell that mixes may be constant in a chain, given the changes of all chains."""
    none = chains * len(changes) * (1 - 1 / chains) ** (changes / 2)
    return (changes > 0) & (none > CHANCE)


def fiber_problems(idata: xr.DataTree, model: pm.Model) -> list[str]:
    """Name tables whose draws violate a public sum."""
    problems = []
    for rv in model.free_RVs:
        if isinstance(rv.owner.op, ConfidentialRV) and rv.name in idata.posterior:
            fiber = rv.owner.op.fiber
            draws = in_model_order(idata.posterior[rv.name], rv.name, model).values.reshape(-1, fiber.lower.size)
            violations = np.count_nonzero(np.any(fiber.system.values[:, None] != fiber.system.A @ draws.T, axis=0))
            if violations:
                problems.append(
                    f"{violations} draws of {rv.name!r} violate a public sum: LatticeGibbs did not draw them for this "
                    "release; pass the matching model and idata."
                )
    return problems
