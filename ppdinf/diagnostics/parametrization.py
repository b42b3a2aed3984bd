"""Which variable makes NUTS take short steps or diverge, and which way of writing it would suit what is told.

Normal effects with a scale of their own to learn are written centred, ``eta ~ Normal(mu, tau)``, or in units of the
scale, ``z ~ Normal(0, 1)``, ``eta = mu + tau z``. Where little is told of the effects, the first makes a funnel: the
smaller tau, the less room for eta, and transitions diverge where tau is small. Of thousands of effects none diverges,
but tau moves no further than the size of all of them lets it: that follows tau, ``log tau`` and its logarithm are
nearly the same. Where much is told, the second way does harm: the effects stay where they are when tau moves, so that z
has to move against it, and ``log tau`` and the size of z are negatively related.

References
----------
M. Betancourt, M. Girolami, "Hamiltonian Monte Carlo for hierarchical models" (2015), section 3. O. Papaspiliopoulos,
G. O. Roberts, M. Skoeld, "A general framework for the parametrization of hierarchical models", Statistical Science 22
(2007), 59-73, section 2, for what the share of a scale that effects determine does to either.
"""

from __future__ import annotations

import math

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import binom

from ppdinf._internal.pymc_compat import (
    Add,
    AdvancedSubtensor,
    DimShuffle,
    Elemwise,
    Mul,
    Neg,
    NormalRV,
    Reshape,
    Shape,
    Shape_i,
    Sub,
    Subtensor,
    Sum,
    TensorVariable,
    TrueDiv,
    ViewOp,
    ancestors,
    compile_pymc,
    toposort,
)
from ppdinf._internal.types import Array

__all__ = ["parametrisations"]

SMALL = 0.25  # share of draws with the smallest scales
CROWDED = 0.6  # share of divergences among these, from which on they are where the scale is small
CHANCE = 0.01  # of a sentence about divergences that are anywhere
AGAINST = -0.5  # correlation of log scale and log size, from which on effects move against their scale
WITH = 0.9  # that from which on they move with it alone
LOOKED_AT = 200  # draws for which means and scales of effects are worked out

LINEAR = DimShuffle, Subtensor, AdvancedSubtensor, Reshape, ViewOp, Sum, Add, Sub, Neg, Mul, TrueDiv

type Flags = NDArray[np.bool_]


def parametrisations(idata: xr.DataTree, model: pm.Model, low: list[str]) -> list[str]:
    """Say which normal effects to write otherwise; empty where none is at fault.

    Parameters
    ----------
    idata : xarray.DataTree
    model : pymc.Model
    low : list of str
        Variables with too small an effective sample size.

    Returns
    -------
    list of str
        One sentence for each variable, naming it.
    """
    draws, diverged, found = _Draws(idata.posterior, model), diverging(idata), []
    if diverged.size != draws.count:  # which draw is which is not known
        diverged = np.zeros(draws.count, dtype=bool)
    for effects in draws.free:
        moves_itself = model.rvs_to_transforms[effects] is None
        if not (
            isinstance(effects.owner.op, NormalRV) and moves_itself and math.prod(draws.all(effects.name).shape[1:]) > 1
        ):
            continue
        mean, sd = effects.owner.op.dist_params(effects.owner)
        if draws.above([mean, sd]):
            found.append(_as_they_are(effects, mean, sd, draws, low, diverged))
        elif not np.any(mean.eval(mode="FAST_COMPILE")):  # else what they are in units of is no spread alone
            factors = _factors(effects, model)
            found.append(next(filter(None, (_in_units(effects, x, draws, low, diverged) for x in factors)), None))
    return [problem for problem in found if problem]


def _as_they_are(
    effects: TensorVariable, mean: TensorVariable, sd: TensorVariable, draws: _Draws, low: list[str], diverged: Flags
) -> str | None:
    """Say that little is told of effects."""
    tau, name = draws.alone_above(sd), effects.name
    looked = None if tau is None else draws.of(effects, mean, sd)
    if tau is None or looked is None:
        return None
    values, means, sds = looked
    if any(m not in (1, n) for x in (means, sds) for n, m in zip(values.shape, x.shape, strict=True)):
        return None  # data of the model are others than those that were drawn by
    with np.errstate(all="ignore"):
        log_sd, units = _log(sds), (values - means) / sds
        size = log_sd + _log_size(units)
    if _where_small(draws.all(tau), draws.some(tau), log_sd, diverged):
        fault = f"Transitions diverge where the scale of {name!r} is small, on which {tau!r} decides: a funnel."
    elif tau in low and _related(log_sd, size) > WITH:
        fault = f"{tau!r} moves no further than {name!r}, on whose scale it decides, lets it."
    else:
        return None
    return (
        f"{fault} Little is told of {name!r}: write it in units of its scale, mean + scale * pm.Normal(..., 0, 1), or "
        "have ppdinf.models.ready.log_rates choose."
    )


def _in_units(
    effects: TensorVariable, scale: TensorVariable, draws: _Draws, low: list[str], diverged: Flags
) -> str | None:
    """Say that much is told of what effects are in units of a scale."""
    tau, name = draws.alone_above(scale), effects.name
    looked = None if tau is None or not (tau in low or diverged.any()) else draws.of(effects, scale)
    if looked is None or _related(_log(looked[1]), _log_size(looked[0])) >= AGAINST:
        return None
    return (
        f"{name!r} moves against {tau!r}, on whose scale it is: the larger that, the smaller {name!r}. Much is told of "
        f"the effects of which {name!r} is in units of a scale: write them centred, pm.Normal(..., mean, scale), or "
        "have ppdinf.models.ready.log_rates choose."
    )


def diverging(idata: xr.DataTree) -> Flags:
    """Which draws diverged, chain after chain; one that did not where no sampler says."""
    stats = idata.get("sample_stats")
    if stats is None or "diverging" not in stats:
        return np.zeros(1, dtype=bool)
    flags, posterior = stats["diverging"], idata.posterior
    for dim in {"chain", "draw"} & set(flags.indexes) & set(posterior.indexes):  # users leave out chains, and draws
        flags = flags.reindex({dim: posterior[dim]}, fill_value=False)
    return np.asarray(flags.values, dtype=bool).ravel()


class _Draws:
    """Draws of a model's real variables, and of what depends on them.

    Attributes
    ----------
    free : dict of TensorVariable to str
        Those that there are draws of.
    count : int
        Of draws, in all chains.
    """

    def __init__(self, posterior: xr.DataTree, model: pm.Model) -> None:
        self._posterior, self._basic = posterior, set(model.basic_RVs)
        self.free = {rv: rv.name for rv in model.free_RVs if rv.name in posterior and rv.dtype.startswith("float")}
        self.count = posterior.sizes["chain"] * posterior.sizes["draw"]
        self._some = np.unique(np.linspace(0, self.count - 1, LOOKED_AT).astype(int))

    def above(self, expressions: list[TensorVariable]) -> set[TensorVariable]:
        """Variables of the model that expressions depend on directly."""
        return set(ancestors(expressions, blockers=self._basic)) & self._basic

    def alone_above(self, expression: TensorVariable) -> str | None:
        """Name of the one number of the model that an expression depends on; None where it is not one."""
        above = self.above([expression])
        return next((self.free[x] for x in above if len(above) == 1 and x in self.free and x.ndim == 0), None)

    def all(self, name: str) -> Array:
        """Draws of a variable, chain after chain."""
        values = np.asarray(self._posterior[name], dtype=float)
        draws: Array = values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])
        return draws

    def some(self, name: str) -> Array:
        """Those that are looked at."""
        draws: Array = self.all(name)[self._some]
        return draws

    def of(self, effects: TensorVariable, *expressions: TensorVariable) -> list[Array] | None:
        """Draws of effects and of expressions beside them; None where nothing is known of what these depend on."""
        above = self.above(list(expressions))
        if not above <= set(self.free):
            return None
        inputs = list(above)
        values = [self.some(self.free[x]) for x in inputs]
        function = compile_pymc(inputs, list(expressions), mode="FAST_COMPILE", on_unused_input="ignore")
        drawn = [np.array(x) for x in zip(*(function(*point) for point in zip(*values, strict=True)), strict=True)]
        axes = [x.reshape(len(x), *[1] * (effects.ndim + 1 - x.ndim), *x.shape[1:]) for x in drawn]
        return [self.some(self.free[effects]), *axes]


def _factors(effects: TensorVariable, model: pm.Model) -> list[TensorVariable]:
    """Find what effects are multiplied by, whole or less their mean; nothing where they are used as they are."""
    alone, found, varying = {effects}, [], set(model.basic_RVs)
    for node in toposort([*model.basic_RVs, *model.deterministics, *model.potentials]):
        if isinstance(node.op, Shape | Shape_i):
            continue
        varying.update(node.outputs if any(x in varying for x in node.inputs) else ())
        kind = node.op.scalar_op if isinstance(node.op, Elemwise) else node.op
        of_effects = [x in alone for x in node.inputs]
        others = [x for x, is_of in zip(node.inputs, of_effects, strict=True) if not is_of and x in varying]
        if not any(of_effects):
            continue
        if isinstance(kind, Mul) and sum(of_effects) == 1 and others:
            found += others
        elif isinstance(kind, LINEAR) and not (isinstance(kind, Mul | TrueDiv) and others):
            alone.add(node.outputs[0])
        else:
            return []
    return found


def _log(scale: Array) -> Array:
    """Logarithms of positive scales, their mean where each effect has its own; nan of others."""
    with np.errstate(all="ignore"):
        return np.asarray(np.log(scale).reshape(len(scale), -1).mean(axis=1))


def _log_size(units: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(0.5 * np.log(np.mean(units.reshape(len(units), -1) ** 2, axis=1)))


def _related(one: Array, other: Array) -> float:
    """Correlation; 0 where either does not move, or is not a number."""
    if not (np.isfinite(one).all() and np.isfinite(other).all() and np.ptp(one) > 0 and np.ptp(other) > 0):
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def _where_small(tau: Array, some: Array, log_sd: Array, diverged: Flags) -> bool:
    """Whether divergences crowd among the draws with the smallest scales, more than once in a hundred by chance."""
    order = tau if _related(some, log_sd) >= 0 else -tau
    among, of = np.count_nonzero(order[diverged] <= np.quantile(order, SMALL)), np.count_nonzero(diverged)
    return bool(among > CROWDED * of and binom.sf(among - 1, of, SMALL) < CHANCE)
