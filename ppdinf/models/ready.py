"""Log rates with effects of labels, in coordinates that suit NUTS, however much a release tells.

For counts of areas and months, say, with log rates

    intercept + effect of the area + effect of the month,    effects ~ Normal(0, spread of the label),

what decides whether NUTS takes long steps or short ones that diverge is what it moves. Were noisy counts normal around
log rates, the posterior of a label's level given its spread would be normal,

    level = mean + L z,    L L' = (information + 1 / spread**2)**-1,

and z standard normal whatever the spread: that is what moves, with the information from a rough fit. Effects of which
little is told so move in units of their spread, others as they are, and no spread against them. The law of the effects
is the one above in any case; L and the mean are a change of variables.

Levels are effects on top of what is fitted beforehand, so that no others have to move along: that of a county holds its
state's and the intercept. That of a state also holds half the variance that is left to its counties, by which they
raise the expected sum: sums are what is told best. Labels that cross these (months) come first. Of them only contrasts
are told, since what all have in common is undone by the levels of counties: their information has a direction of size
0, and their average over its cells is part of a county's level.

References
----------
O. Papaspiliopoulos, G. O. Roberts, M. Skoeld, "A general framework for the parametrization of hierarchical models",
Statistical Science 22 (2007), 59-73, section 3, for normal models. P. McCullagh, J. A. Nelder, "Generalized Linear
Models", 2nd ed. (1989), section 2.5, for working responses and their weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._pymc_internals import Transform
from ppdinf.errors import ModelError
from ppdinf.models.rates import REACH, USUAL
from ppdinf.releases import Release
from ppdinf.releases.rates import exposures

__all__ = ["log_rates"]

PRIOR_SD = 2.5  # of the intercept
SWEEPS = 4  # over effects, of the rough fit
LEAST = 0.1  # of what is expected, in the rough fit, where noise says less


def log_rates(release: Release, effects: list[str], *, exposure: str | None = None) -> Any:
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
        An effect named twice; a bad exposure.
    LabelError
        The release has no such coordinate, or one of decimals.

    Notes
    -----
    Adds to the model ``intercept`` ~ Normal(log of the overall rate, 2.5), ``{label}_spread`` ~ HalfNormal(1) and
    ``{label}_effect`` ~ Normal(0, spread), one for each label in order of appearance. What chains move are levels,
    ``level`` and ``{label}_level``: effects with those before them. Forward draws know all of it.

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.margin("dim_1"), epsilon=1)
    >>> release = ppd.Release(np.array([[3, 1], [4, 2], [0, 5]]), mechanism)
    >>> with pm.Model(coords=release.coords) as model:
    ...     rate = pm.math.exp(log_rates(release, ["dim_0", "dim_1"]))
    ...     x = ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
    >>> [variable.name for variable in model.free_RVs]
    ['dim_1_spread', 'dim_1_level', 'dim_0_spread', 'level', 'dim_0_level']
    """
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
        base = base.of(_parents(codes, above))
        known = fit.told(name)
        effect = _add(name, base, _spread(name, known), known, contrasts=True)
        crossing = crossing.plus(effect.of(codes))
        ends.append((codes, base.plus(effect)))
    told = {name: fit.told(name) for name in line}
    spreads = {name: _spread(name, told[name]) for name in line}
    lifted = fit.average(top, crossing).plus(fit.lift(top, told, spreads))
    start = fit.overall + float(lifted.fitted[0])
    unit = _Unit(start, USUAL / np.sqrt(fit.codes[line[0]].max() + 1) if line else 1.0)
    level = pm.Normal("level", fit.overall + lifted.drawn[0], PRIOR_SD, initval=start, transform=unit)
    intercept = pm.Deterministic("intercept", level - lifted.drawn[0])
    above, total = top, _Sum(pt.atleast_1d(intercept), np.array([fit.overall]))
    for name in line:
        codes, base, spread = fit.codes[name], total.of(_parents(fit.codes[name], above)), spreads.pop(name)
        lifted = base.plus(fit.average(codes, crossing)).plus(fit.lift(codes, told, spreads))
        above, total = codes, base.plus(_add(name, lifted, spread, told[name], contrasts=False))
    return (crossing.drawn + total.drawn[above]).reshape(release.shape)


class _Sum(NamedTuple):
    """Effects added up, as variables and as they are fitted."""

    drawn: Any
    fitted: NDArray[np.float64]

    def of(self, codes: NDArray[np.int64]) -> _Sum:
        return _Sum(self.drawn[codes], self.fitted[codes])

    def plus(self, other: _Sum) -> _Sum:
        return _Sum(self.drawn + other.drawn, self.fitted + other.fitted)


class _Told(NamedTuple):
    """What noisy counts tell of the effects of a label, were they normal."""

    fitted: NDArray[np.float64]
    near: NDArray[np.float64]
    information: NDArray[np.float64]


class _Fit(NamedTuple):
    """Expected counts of cells and effects of labels, fitted roughly."""

    noisy: NDArray[np.float64]
    expected: NDArray[np.float64]
    noise: float  # its variance in a cell
    overall: float
    codes: dict[str, NDArray[np.int64]]
    public: dict[str, bool]
    effects: dict[str, NDArray[np.float64]]

    def told(self, name: str) -> _Told:
        """Working responses of the effects of a label and their information, less what the finest labels in it vary."""
        codes, expected, effect = self.codes[name], self.expected, self.effects[name]
        weight = expected if self.public[name] else expected**2 / np.maximum(expected + self.noise, 1e-300)
        share = weight / np.where(expected > 0, expected, 1)
        information = np.bincount(codes, weight)
        off = np.bincount(codes, share * (self.noisy - expected)) / np.where(information > 0, information, 1)
        finest = max((c for c in self.codes.values() if _nested(c, codes)), key=np.max)
        if finest.max() > codes.max():
            size, within = np.bincount(finest, expected), _parents(finest, codes)
            uneven = np.bincount(within, size**2) / np.maximum(np.bincount(within, size), 1e-300) ** 2
            information = information / (1 + information * USUAL**2 * uneven)
        return _Told(effect, effect + off, information)

    def average(self, codes: NDArray[np.int64], crossing: _Sum) -> _Sum:
        """Average of what crosses labels over their cells, as expected counts weigh it."""
        size = np.bincount(codes, self.expected)
        share = self.expected / np.where(size > 0, size, 1)[codes]
        fitted = np.bincount(codes, share * crossing.fitted)
        if isinstance(crossing.drawn, np.ndarray):  # nothing does
            return _Sum(fitted, fitted)
        return _Sum(pt.inc_subtensor(pt.zeros(size.size)[codes], share * crossing.drawn), fitted)

    def lift(self, codes: NDArray[np.int64], told: dict[str, _Told], spreads: dict[str, Any]) -> _Sum:
        """Half the variance that is left to finer effects: by so much they raise the logarithm of an expected sum."""
        lift = _Sum(np.zeros(codes.max() + 1), np.zeros(codes.max() + 1))
        for name, spread in spreads.items():
            size, within = np.bincount(self.codes[name], self.expected), _parents(self.codes[name], codes)
            whole = np.bincount(within, size)
            half, information = size / np.where(whole > 0, whole, 1)[within] / 2, told[name].information
            left = half * spread**2 / (1 + information * spread**2)
            drawn = pt.inc_subtensor(pt.zeros(lift.fitted.size)[within], left)
            lift = lift.plus(_Sum(drawn, np.bincount(within, half / (information + USUAL**-2))))
        return lift


def _fit(release: Release, at_risk: NDArray[np.float64], codes: dict[str, NDArray[np.int64]]) -> _Fit:
    """Fit effects by turns, each shrunk as far as noise and a usual spread say."""
    noisy, noise = release.table.values.ravel().astype(float), (release.likelihood.half_width / REACH) ** 2
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


def _spread(name: str, told: _Told) -> Any:
    """Add the spread of effects of labels to the model."""
    share = told.information * USUAL**2 / (1 + told.information * USUAL**2)
    unit = _Unit(np.log(USUAL), 1 / np.sqrt(2 * (share**2).sum() + 1))
    return pm.HalfNormal(f"{name}_spread", 1, initval=USUAL, transform=unit)


def _add(name: str, base: _Sum, spread: Any, told: _Told, contrasts: bool) -> _Sum:
    """Add effects of labels to the model; each is drawn on top of a base."""
    transform = _Standardised(base.fitted + told.near, told.information, contrasts)
    start = base.fitted + told.fitted
    level = pm.Normal(f"{name}_level", base.drawn, spread, shape=start.size, initval=start, transform=transform)
    return _Sum(pm.Deterministic(f"{name}_effect", level - base.drawn), told.fitted)


class _Unit(Transform):
    """Move a number around a centre in units of about its posterior standard deviation."""

    name = "unit"
    ndim_supp = 0

    def __init__(self, center: float, sd: float) -> None:
        self.center, self.sd = center, sd

    def backward(self, value: Any, *inputs: Any) -> Any:
        return self.center + self.sd * value

    def forward(self, value: Any, *inputs: Any) -> Any:
        return (value - self.center) / self.sd

    def log_jac_det(self, value: Any, *inputs: Any) -> Any:
        return pt.full_like(value, np.log(self.sd))


class _Standardised(Transform):
    """Move independent normal variables as what is standard normal once something is told of them, for any spread.

    Parameters
    ----------
    near : array, shape (n,)
        What each is told to be near to.
    information : array, shape (n,)
        Inverse variance of that.
    contrasts : bool
        Whether it is told only relative to their average, weighted by information.
    """

    name = "told"
    ndim_supp = 1

    def __init__(self, near: NDArray[np.float64], information: NDArray[np.float64], contrasts: bool) -> None:
        self.near, self.information, self.contrasts = near, information, contrasts

    def _factor(self, spread: Any) -> tuple[Any, Any, Any]:
        """Return L = diag(a) (I + (b - 1) u u') as a, u and b."""
        precise = self.information * spread**2
        a = spread / pt.sqrt(1 + precise)
        if not self.contrasts or not self.information.any():
            return a, np.zeros(self.information.size), 1.0
        u = a * self.information
        b = pt.sqrt(self.information.sum() / (self.information / (1 + precise)).sum())
        return a, u / pt.sqrt((u**2).sum()), b

    def _mean(self, mean: Any, spread: Any) -> Any:
        a, u, b = self._factor(spread)
        off = self.near - mean
        if self.contrasts:
            off = off - (self.information * off).sum() / max(self.information.sum(), 1e-300)
        right = a * self.information * off
        return mean + a * (right + (b**2 - 1) * u * (u * right).sum())

    def backward(self, value: Any, *inputs: Any) -> Any:
        a, u, b = self._factor(inputs[-1])
        return self._mean(*inputs[-2:]) + a * (value + (b - 1) * u * (u * value).sum())

    def forward(self, value: Any, *inputs: Any) -> Any:
        a, u, b = self._factor(inputs[-1])
        moved = (value - self._mean(*inputs[-2:])) / a
        return moved + (1 / b - 1) * u * (u * moved).sum()

    def log_jac_det(self, value: Any, *inputs: Any) -> Any:
        a, _, b = self._factor(inputs[-1])
        return pt.log(a).sum() + pt.log(b)
