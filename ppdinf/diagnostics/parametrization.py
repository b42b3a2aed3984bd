"""Variables whose parametrization makes NUTS take short steps or diverge.

Normal effects with an unknown scale are centered, ``eta ~ Normal(mu, tau)``, or non-centered, ``z ~ Normal(0, 1)``,
``eta = mu + tau z``. With little information on the effects, the centered form has a funnel: transitions diverge where
tau is small. With thousands of effects they do not diverge, but the size of all effects restricts the steps of tau:
``log tau`` and the log size of the effects are then almost perfectly correlated. With much information on the effects,
the non-centered form is worse: eta stays nearly constant, so z must move against tau, and ``log tau`` and the size of
z are negatively correlated.

References
----------
M. Betancourt, M. Girolami, "Hamiltonian Monte Carlo for hierarchical models" (2015), section 3. O. Papaspiliopoulos,
G. O. Roberts, M. Skoeld, "A general framework for the parametrization of hierarchical models", Statistical Science 22
(2007), 59-73, section 2, for the effect of the information on either form.
"""

from __future__ import annotations

import math

import numpy as np
import pymc as pm
import xarray as xr
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
    compile_interpreted,
    toposort,
)
from ppdinf._internal.values import Array, Flags

SMALL = 0.25  # share of draws with the smallest scales
CROWDED = 0.6  # share of divergences among these draws above which the scale is considered the cause
CHANCE = 0.01  # false-alarm probability of a sentence about divergences without a location
AGAINST = -0.5  # correlation of log scale and log size below which effects move against their scale
WITH = 0.9  # correlation above which the scale moves only with its effects
EVALUATED = 200  # draws for which means and scales of effects are computed

LINEAR = DimShuffle, Subtensor, AdvancedSubtensor, Reshape, ViewOp, Sum, Add, Sub, Neg, Mul, TrueDiv


def parametrisations(idata: xr.DataTree, model: pm.Model, low: list[str]) -> list[str]:
    """Return which normal effects need another parametrization; empty if none."""
    draws, diverged, sentences = _Draws(idata.posterior, model), diverging(idata), []
    if diverged.size != draws.count:  # the divergences cannot be assigned to draws
        diverged = np.zeros(draws.count, dtype=bool)
    for effects in draws.free:
        moves_itself = model.rvs_to_transforms[effects] is None
        if not (
            isinstance(effects.owner.op, NormalRV) and moves_itself and math.prod(draws.all(effects.name).shape[1:]) > 1
        ):
            continue
        mean, sd = effects.owner.op.dist_params(effects.owner)
        if draws.above([mean, sd]):
            sentences.append(_as_they_are(effects, mean, sd, draws, low, diverged))
        elif not np.any(mean.eval(mode="FAST_COMPILE")):  # otherwise the effects are not multiples of a scale only
            factors = _factors(effects, model)
            sentences.append(next(filter(None, (_in_units(effects, x, draws, low, diverged) for x in factors)), None))
    return [problem for problem in sentences if problem]


def _as_they_are(
    effects: TensorVariable, mean: TensorVariable, sd: TensorVariable, draws: _Draws, low: list[str], diverged: Flags
) -> str | None:
    """Return a sentence if centered effects have little information."""
    tau, name = draws.alone_above(sd), effects.name
    looked = None if tau is None else draws.of(effects, mean, sd)
    if tau is None or looked is None:
        return None
    values, means, sds = looked
    if any(m not in (1, n) for x in (means, sds) for n, m in zip(values.shape, x.shape, strict=True)):
        return None  # the model's data differ from the data of the draws
    with np.errstate(all="ignore"):
        log_sd, units = _log(sds), (values - means) / sds
        size = log_sd + _log_size(units)
    if _where_small(draws.all(tau), draws.subset(tau), log_sd, diverged):
        fault = f"Transitions diverge where the scale of {name!r}, which depends on {tau!r}, is small: a funnel."
    elif tau in low and _related(log_sd, size) > WITH:
        fault = f"The steps of {tau!r} are restricted by {name!r}, whose scale depends on {tau!r}."
    else:
        return None
    return (
        f"{fault} The data have little information on {name!r}: use the non-centered form, mean + scale * "
        "pm.Normal(..., 0, 1), or ppdinf.models.log_rates, which chooses the form."
    )


def _in_units(
    effects: TensorVariable, scale: TensorVariable, draws: _Draws, low: list[str], diverged: Flags
) -> str | None:
    """Return a sentence if non-centered effects have much information."""
    tau, name = draws.alone_above(scale), effects.name
    looked = None if tau is None or not (tau in low or diverged.any()) else draws.of(effects, scale)
    if looked is None or _related(_log(looked[1]), _log_size(looked[0])) >= AGAINST:
        return None
    return (
        f"{name!r} moves against its scale {tau!r}: the larger {tau!r}, the smaller {name!r}. The data have much "
        f"information on the effects: use the centered form, pm.Normal(..., mean, scale), instead of {name!r}, or "
        "ppdinf.models.log_rates, which chooses the form."
    )


def diverging(idata: xr.DataTree) -> Flags:
    """Return which draws diverged, chain by chain; False where the sampler reports no divergences."""
    stats = idata.get("sample_stats")
    if stats is None or "diverging" not in stats:
        return np.zeros(1, dtype=bool)
    flags, posterior = stats["diverging"], idata.posterior
    for dim in {"chain", "draw"} & set(flags.indexes) & set(posterior.indexes):  # users may drop chains or draws
        flags = flags.reindex({dim: posterior[dim]}, fill_value=False)
    return np.asarray(flags.values, bool).ravel()


class _Draws:
    """Draws of a model's real variables, and of expressions of them."""

    def __init__(self, posterior: xr.DataTree, model: pm.Model) -> None:
        self._posterior, self._basic = posterior, set(model.basic_RVs)
        self.free = {rv: rv.name for rv in model.free_RVs if rv.name in posterior and rv.dtype.startswith("float")}
        self.count = posterior.sizes["chain"] * posterior.sizes["draw"]
        self._subset = np.unique(np.linspace(0, self.count - 1, EVALUATED).astype(int))

    def above(self, expressions: list[TensorVariable]) -> set[TensorVariable]:
        """Return variables of the model on which expressions depend directly."""
        return set(ancestors(expressions, blockers=self._basic)) & self._basic

    def alone_above(self, expression: TensorVariable) -> str | None:
        """Return the name of the scalar variable on which alone an expression depends, or None."""
        above = self.above([expression])
        return next((self.free[x] for x in above if len(above) == 1 and x in self.free and x.ndim == 0), None)

    def all(self, name: str) -> Array:
        """Return draws of a variable, chain by chain."""
        values = np.asarray(self._posterior[name], dtype=float)
        return values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])

    def subset(self, name: str) -> Array:
        """Return the subset of draws that is evaluated."""
        return self.all(name)[self._subset]

    def of(self, effects: TensorVariable, *expressions: TensorVariable) -> list[Array] | None:
        """Return draws of effects and of expressions, or None if the draws of their inputs are missing."""
        above = self.above(list(expressions))
        if not above <= set(self.free):
            return None
        inputs = list(above)
        values = [self.subset(self.free[x]) for x in inputs]
        function = compile_interpreted(inputs, list(expressions), on_unused_input="ignore")
        drawn = [np.array(x) for x in zip(*(function(*point) for point in zip(*values, strict=True)), strict=True)]
        axes = [x.reshape(len(x), *[1] * (effects.ndim + 1 - x.ndim), *x.shape[1:]) for x in drawn]
        return [self.subset(self.free[effects]), *axes]


def _factors(effects: TensorVariable, model: pm.Model) -> list[TensorVariable]:
    """Return the factors of effects, or of effects minus their mean; empty if the effects are not multiplied."""
    multiples, factors, varying = {effects}, [], set(model.basic_RVs)
    for node in toposort([*model.basic_RVs, *model.deterministics, *model.potentials]):
        if isinstance(node.op, Shape | Shape_i):
            continue
        varying.update(node.outputs if any(x in varying for x in node.inputs) else ())
        kind = node.op.scalar_op if isinstance(node.op, Elemwise) else node.op
        of_effects = [x in multiples for x in node.inputs]
        others = [x for x, is_of in zip(node.inputs, of_effects, strict=True) if not is_of and x in varying]
        if not any(of_effects):
            continue
        if isinstance(kind, Mul) and sum(of_effects) == 1 and others:
            factors += others
        elif isinstance(kind, LINEAR) and not (isinstance(kind, Mul | TrueDiv) and others):
            multiples.add(node.outputs[0])
        else:
            return []
    return factors


def _log(scale: Array) -> Array:
    """Return logarithms of positive scales, their mean if each effect has its own scale, and nan otherwise."""
    with np.errstate(all="ignore"):
        return np.asarray(np.log(scale).reshape(len(scale), -1).mean(axis=1))


def _log_size(units: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(0.5 * np.log(np.mean(units.reshape(len(units), -1) ** 2, axis=1)))


def _related(first: Array, second: Array) -> float:
    """Return the correlation, or 0 if an array is constant or not finite."""
    if not (np.isfinite(first).all() and np.isfinite(second).all() and np.ptp(first) > 0 and np.ptp(second) > 0):
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _where_small(tau: Array, subset: Array, log_sd: Array, diverged: Flags) -> bool:
    """Return whether divergences concentrate on draws with the smallest scales, at a 1 % significance level."""
    order = tau if _related(subset, log_sd) >= 0 else -tau
    small, of = np.count_nonzero(order[diverged] <= np.quantile(order, SMALL)), np.count_nonzero(diverged)
    return bool(small > CROWDED * of and binom.sf(small - 1, of, SMALL) < CHANCE)
