"""Log rates with effects of labels, in coordinates that suit NUTS, however much a release tells.

For counts of areas and months, say, with log rates

    intercept + effect of the area + effect of the month,    effects ~ Normal(0, spread of the label),

what decides whether NUTS takes long steps or short ones that diverge is what it moves. Were noisy counts normal around
log rates, the posterior of the effects of a label given their spread would be normal,

    effects = mean + L z,    L L' = (H + I / spread**2)**-1,    H what is told of them,

and z standard normal whatever the spread: that is what moves, with H from a rough fit. Effects of which little is told
so move in units of their spread, others as they are, and no spread against them. The law of the effects is the one
above in any case; L and the mean are a change of variables.

Poisson counts given their total are multinomial, and the total is Poisson: so counties are told relative to their
state, and the logarithm of the expected sum of the state apart from them, by its own total. What moves are these two. A
state's level is its effect on top of the logarithm of the sum over its counties, relative to the rough fit; the level
of all is the intercept on top of the logarithm of the sum over everything. Since sums depend on counties, whose average
is so told a little, H is K - k k' / sum(k) + w w' / v in a state: k the information of single counties, w their shares
and v the variance of the state's effect and of what tells of its sum.

Labels that cross these (months) come first, and are part of the sums of counties. Of them only contrasts are told.

References
----------
O. Papaspiliopoulos, G. O. Roberts, M. Skoeld, "A general framework for the parametrization of hierarchical models",
Statistical Science 22 (2007), 59-73, section 3, for normal models. P. McCullagh, J. A. Nelder, "Generalized Linear
Models", 2nd ed. (1989), section 2.5, for working responses and their weights. S. E. Fienberg, "The Analysis of
Cross-Classified Categorical Data", 2nd ed. (1980), section 2.4, for total and shares.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf._internal.types import Symbolic
from ppdinf.errors import ModelError
from ppdinf.models.coordinates import Among, Standardised, Told, Unit
from ppdinf.models.rates import REACH, USUAL
from ppdinf.models.starts import started
from ppdinf.releases import Release
from ppdinf.releases.rate_inputs import exposures

__all__ = ["log_rates"]

PRIOR_SD = 2.5  # of the intercept
SWEEPS = 4  # over effects, of the rough fit
LEAST = 0.1  # of what is expected, in the rough fit, where noise says less


def log_rates(release: Release, effects: list[str], *, exposure: str | None = None) -> TensorVariable:
    """Log rates of the cells of a table, with an effect for every label of some of its coordinates.

    Parameters
    ----------
    release : Release
        Of a table; chains move in coordinates that suit what it tells.
    effects : list of str
        Dimensions of the table, or coordinates of labels along them (the state of a county), published with it.
    exposure : str, optional
        Covariate of the release with the persons at risk in each cell. Without it rates are expected counts.

    Returns
    -------
    TensorVariable, shape of the table
        Log rate per unit of exposure: ``pm.Poisson.dist(pm.math.exp(log_rates) * exposure)``.

    Raises
    ------
    ModelError
        An effect named twice; a bad exposure; a dimension called as a variable of those below.
    LabelError
        The release has no such coordinate, or one of decimals.

    Notes
    -----
    Adds to the model ``intercept`` ~ Normal(log of the overall rate, 2.5), ``{label}_spread`` ~ HalfNormal(1) and
    ``{label}_effect`` ~ Normal(0, spread), one for each label in order of appearance. What chains move are levels,
    ``level`` and ``{label}_level``: effects on top of log sums over finer labels. Forward draws know all of it.
    Where labels are many, `ppdinf.samplers.FixedLengthHMC` draws from it in half the gradients of NUTS.

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.margin("dim_1"), epsilon=1)
    >>> release = ppd.Release(np.array([[3, 1], [4, 2], [0, 5]]), mechanism)
    >>> with pm.Model(coords=release.coords) as model:
    ...     rate = pm.math.exp(log_rates(release, ["dim_0", "dim_1"]))
    ...     x = ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
    >>> [variable.name for variable in model.free_RVs]
    ['dim_1_spread', 'dim_1_level', 'dim_0_spread', 'dim_0_level', 'level']
    """
    if isinstance(effects, str):
        raise ModelError(f"effects is a list of names: [{effects!r}]")
    model = pm.modelcontext(None)
    added = ["intercept", "level", *(f"{name}_{what}" for name in effects for what in ("effect", "level", "spread"))]
    for name in map(model.name_for, added):
        if name in model.coords or name in model.named_vars:
            raise ModelError(
                f"log_rates adds a variable {name!r}, but the model has that or such a dimension: rename it"
            )
    if len(set(effects)) < len(effects):
        raise ModelError(f"an effect is named twice among {', '.join(effects)}")
    at_risk = exposures(release, exposure).ravel()
    fit = _fit(release, at_risk, {name: release.frame.codes(name)[0] for name in effects})
    finer, top = sorted(effects, key=lambda name: fit.codes[name].max()), np.zeros(at_risk.size, dtype=np.int64)
    line = [name for name in finer if _nested(fit.codes[finer[-1]], fit.codes[name])]  # the finest, and all it lies in
    crossing = _Sum(np.zeros(at_risk.size), np.zeros(at_risk.size))  # cell by cell
    ends: list[tuple[NDArray[np.int64], _Sum]] = [(top, _Sum(np.zeros(1), np.zeros(1)))]
    for name in [name for name in finer if name not in line]:
        codes = fit.codes[name]
        above, base = next(end for end in reversed(ends) if _nested(codes, end[0]))
        base, known = base.of(_parents(codes, above)), fit.told(name, held=True)
        effect = _add(name, base, known, fit.among(codes, top, known, None))
        crossing = crossing.plus(effect.of(codes))
        ends.append((codes, base.plus(effect)))
    told, total, below = {name: fit.told(name) for name in line}, crossing.drawn, crossing
    items, weight = np.arange(at_risk.size), fit.expected
    for name, coarser in zip(line[::-1], [*line[-2::-1], None], strict=False):
        codes, above = fit.codes[name], top if coarser is None else fit.codes[coarser]
        sums = _log_sums(_parents(items, codes), weight, below)
        among = fit.among(codes, above, told[name], None if coarser is None else told[coarser])
        effect = _add(name, sums, told[name], among)
        total = total + effect.drawn[codes]
        items, weight, below = codes, np.bincount(codes, fit.expected), sums.plus(effect)
    whole = _log_sums(_parents(items, top), weight, below).drawn[0]
    unit = Unit(fit.overall, USUAL / np.sqrt(fit.codes[line[0]].max() + 1) if line else 1.0)
    level = started("level", pm.Normal.dist(fit.overall + whole, PRIOR_SD), fit.overall, transform=unit)
    return (total + pm.Deterministic("intercept", level - whole)).reshape(release.shape)


class _Sum(NamedTuple):
    """Effects added up, as variables and as they are fitted."""

    drawn: Symbolic
    fitted: NDArray[np.float64]

    def of(self, codes: NDArray[np.int64]) -> _Sum:
        return _Sum(self.drawn[codes], self.fitted[codes])

    def plus(self, other: _Sum) -> _Sum:
        return _Sum(self.drawn + other.drawn, self.fitted + other.fitted)


class _Fit(NamedTuple):
    """Expected counts of cells and effects of labels, fitted roughly."""

    noisy: NDArray[np.float64]
    expected: NDArray[np.float64]
    noise: float  # its variance in a cell
    overall: float
    codes: dict[str, NDArray[np.int64]]
    public: dict[str, bool]
    effects: dict[str, NDArray[np.float64]]

    def told(self, name: str, held: bool = False) -> Told:
        """Working responses of the effects of a label and their information; alone, where finer levels hold them."""
        codes, expected, effect = self.codes[name], self.expected, self.effects[name]
        weight = expected if self.public[name] else expected**2 / np.maximum(expected + self.noise, 1e-300)
        share = weight / np.where(expected > 0, expected, 1)
        information = np.bincount(codes, weight)
        off = np.bincount(codes, share * (self.noisy - expected)) / np.where(information > 0, information, 1)
        finest, alone = max((c for c in self.codes.values() if _nested(c, codes)), key=np.max), information
        if finest.max() > codes.max():  # of one label, as the finest labels in it vary
            within = _parents(finest, codes)
            uneven = np.bincount(within, _shares(within, np.bincount(finest, expected)) ** 2)
            alone = information / (1 + information * USUAL**2 * uneven)
        known = alone * USUAL**2 / (1 + alone * USUAL**2)
        return Told(effect, effect + off, alone if held else information, 1 / np.sqrt(2 * (known**2).sum() + 1))

    def among(self, codes: NDArray[np.int64], above: NDArray[np.int64], told: Told, coarser: Told | None) -> Among:
        """Say what is told of labels together: by the sums of coarser ones."""
        group, size = _parents(codes, above), np.bincount(codes, self.expected)
        share = _shares(group, size)
        if coarser is None:
            return Among(group, share, np.zeros(1), np.zeros(1))
        return Among(group, share, coarser.near, coarser.information / (1 + coarser.information * USUAL**2))


def _shares(group: NDArray[np.int64], size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of each in its group; the same where all are nothing."""
    whole = np.bincount(group, size)[group]
    return np.where(whole > 0, size / np.where(whole > 0, whole, 1), 1 / np.bincount(group)[group])


def _log_sums(group: NDArray[np.int64], size: NDArray[np.float64], terms: _Sum) -> _Sum:
    """Logarithms of expected sums over groups, relative to those fitted."""
    none = np.zeros(group.max() + 1)
    if isinstance(terms.drawn, np.ndarray):  # as fitted
        return _Sum(none, none)
    raised = _shares(group, size) * pt.exp(terms.drawn - terms.fitted)
    return _Sum(pt.log(pt.inc_subtensor(pt.zeros(none.size)[group], raised)), none)


def _fit(release: Release, at_risk: NDArray[np.float64], codes: dict[str, NDArray[np.int64]]) -> _Fit:
    """Fit effects by turns, each shrunk as far as noise and a usual spread say."""
    noisy, noise = release.table.values.ravel().astype(float), (release.likelihood.support_radius / REACH) ** 2
    overall = float(np.log(max(noisy.sum(), 1) / at_risk.sum()))
    expected, public = at_risk * np.exp(overall), {name: _public(release, codes[name]) for name in codes}
    effects = {name: np.zeros(codes[name].max() + 1) for name in codes}
    for _ in range(SWEEPS):
        for name, label in codes.items():
            without = expected * np.exp(-effects[name])[label]
            usual = np.bincount(label, without)
            spread = (USUAL * usual) ** 2
            off = usual + (0 if public[name] else noise) * np.bincount(label)
            moved = spread / np.maximum(spread + off, 1e-300) * (np.bincount(label, noisy) - usual)
            effects[name] = np.log(np.maximum(1 + moved / np.where(usual > 0, usual, 1), LEAST))
            expected = without * np.exp(effects[name])[label]
    return _Fit(noisy, expected, noise, overall, codes, public, effects)


def _public(release: Release, codes: NDArray[np.int64]) -> bool:
    """Whether the sum over the cells of every label is public."""
    A = release.public.A.tocsr()
    rows = {
        tuple(np.sort(A.indices[a:b])) for a, b in zip(A.indptr, A.indptr[1:], strict=False) if (A.data[a:b] == 1).all()
    }
    return all(tuple(np.flatnonzero(codes == label)) in rows for label in range(codes.max() + 1))


def _nested(codes: NDArray[np.int64], coarser: NDArray[np.int64]) -> bool:
    """Whether every label lies within one of the coarser ones."""
    return np.array_equal(_parents(codes, coarser)[codes], coarser)


def _parents(codes: NDArray[np.int64], coarser: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the coarser label in which each label lies."""
    return coarser[np.unique(codes, return_index=True)[1]]


def _add(name: str, base: _Sum, told: Told, among: Among) -> _Sum:
    """Add effects of labels and their spread to the model; each is drawn on top of a base."""
    unit = Unit(np.log(USUAL), told.spread)
    spread = started(f"{name}_spread", pm.HalfNormal.dist(1), USUAL, transform=unit)
    transform = Standardised(base.fitted, told, among)
    start = base.fitted + told.fitted
    level = started(f"{name}_level", pm.Normal.dist(base.drawn, spread, shape=start.size), start, transform=transform)
    return _Sum(pm.Deterministic(f"{name}_effect", level - base.drawn), told.fitted)
