"""Log rates with effects of labels, parametrized for NUTS at any amount of noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf._internal.values import Integers, Reals, Symbolic
from ppdinf.errors import ModelError
from ppdinf.models.effect_coordinates import (
    GroupLikelihood,
    NormalLikelihood,
    Rescaled,
    StandardNormal,
    StandardSpectral,
)
from ppdinf.models.neighbours import Adjacency, Spectrum, adjacency_edges, path_edges, scaled_icar
from ppdinf.models.rates import RADIUS_IN_SD, TYPICAL_SPREAD
from ppdinf.models.starts import add_with_start
from ppdinf.releases import Release
from ppdinf.releases.rate_inputs import exposures

SWEEPS = 4  # iterations over effects in the rough fit
LOWEST_RATIO = 0.1  # lower bound on fitted over expected sums in the rough fit


class RoughFit(NamedTuple):
    """Rough fit of expected counts of cells and of effects of labels."""

    noisy: Reals
    expected: Reals
    noise: float  # variance of the noise of a cell
    overall: float
    codes: dict[str, Integers]
    public: dict[str, bool]
    effects: dict[str, Reals]

    def likelihood(self, name: str, held: bool = False) -> NormalLikelihood:
        """Return working responses of the effects of a label and their information."""
        codes, expected, effect = self.codes[name], self.expected, self.effects[name]
        weight = expected if self.public[name] else expected**2 / np.maximum(expected + self.noise, 1e-300)
        share = weight / np.where(expected > 0, expected, 1)
        information = np.bincount(codes, weight)
        gap = np.bincount(codes, share * (self.noisy - expected)) / np.where(information > 0, information, 1)
        finest, alone = max((c for c in self.codes.values() if is_nested(c, codes)), key=np.max), information
        if finest.max() > codes.max():  # information of one label if the finest labels in it vary
            within = parents(finest, codes)
            uneven = np.bincount(within, shares(within, np.bincount(finest, expected)) ** 2)
            alone = information / (1 + information * TYPICAL_SPREAD**2 * uneven)
        known = alone * TYPICAL_SPREAD**2 / (1 + alone * TYPICAL_SPREAD**2)
        return NormalLikelihood(
            effect, effect + gap, alone if held else information, 1 / np.sqrt(2 * (known**2).sum() + 1)
        )

    def group_likelihood(
        self, codes: Integers, above: Integers, likelihood: NormalLikelihood, coarser: NormalLikelihood | None
    ) -> GroupLikelihood:
        """Return the likelihood of averages within coarser labels, informed by the sums of the coarser labels."""
        group, size = parents(codes, above), np.bincount(codes, self.expected)
        share = shares(group, size)
        if coarser is None:
            return GroupLikelihood(group, share, np.zeros(1), np.zeros(1))
        return GroupLikelihood(
            group, share, coarser.response, coarser.information / (1 + coarser.information * TYPICAL_SPREAD**2)
        )


def shares(group: Integers, size: Reals) -> Reals:
    """Return the share of each element in its group; equal shares if all elements of a group are 0."""
    log_total = np.bincount(group, size)[group]
    return np.where(log_total > 0, size / np.where(log_total > 0, log_total, 1), 1 / np.bincount(group)[group])


def rough_fit(release: Release, at_risk: Reals, codes: dict[str, Integers]) -> RoughFit:
    """Fit effects by coordinate-wise iteration, each shrunk according to noise and a typical spread."""
    noisy, noise = release.table.values.ravel().astype(float), (release.likelihood.support_radius / RADIUS_IN_SD) ** 2
    overall = float(np.log(max(noisy.sum(), 1) / at_risk.sum()))
    expected, public = at_risk * np.exp(overall), {name: _all_public(release, codes[name]) for name in codes}
    effects = {name: np.zeros(codes[name].max() + 1) for name in codes}
    for _ in range(SWEEPS):
        for name, label in codes.items():
            without = expected * np.exp(-effects[name])[label]
            typical = np.bincount(label, without)
            spread = (TYPICAL_SPREAD * typical) ** 2
            gap = typical + (0 if public[name] else noise) * np.bincount(label)
            moved = spread / np.maximum(spread + gap, 1e-300) * (np.bincount(label, noisy) - typical)
            effects[name] = np.log(np.maximum(1 + moved / np.where(typical > 0, typical, 1), LOWEST_RATIO))
            expected = without * np.exp(effects[name])[label]
    return RoughFit(noisy, expected, noise, overall, codes, public, effects)


def _all_public(release: Release, codes: Integers) -> bool:
    """Return whether the sum over the cells of every label is public."""
    A = release.public.A.tocsr()
    rows = {
        tuple(np.sort(A.indices[a:b])) for a, b in zip(A.indptr, A.indptr[1:], strict=False) if (A.data[a:b] == 1).all()
    }
    return all(tuple(np.flatnonzero(codes == label)) in rows for label in range(codes.max() + 1))


def is_nested(codes: Integers, coarser: Integers) -> bool:
    """Return whether every label lies within a single coarser label."""
    return np.array_equal(parents(codes, coarser)[codes], coarser)


def parents(codes: Integers, coarser: Integers) -> Integers:
    """Return the coarser label in which each label lies."""
    return coarser[np.unique(codes, return_index=True)[1]]


PRIOR_SD = 2.5  # of the intercept
LOGISTIC_SD = np.pi / np.sqrt(3)  # prior standard deviation of the log odds of a mixing parameter


def log_rates(
    release: Release,
    effects: list[str],
    *,
    exposure: str | Reals | None = None,
    spatial: Mapping[str, Adjacency] | None = None,
    temporal: str | None = None,
) -> TensorVariable:
    """Return log rates of the cells of a table, with an effect for every label of the given coordinates.

    Parameters
    ----------
    release : Release
        Release of a table. The parametrization depends on it.
    effects : list of str
        Dimensions of the table, or coordinates along them (the state of a county), published with the table.
    exposure : str or array, optional
        Persons at risk in each cell: a covariate of the release, or an array in the shape of the table. By default,
        rates are expected counts.
    spatial : mapping of str to adjacency, optional
        Neighbours of the labels of an effect: ``{"county": adjacency}``. An adjacency is a mapping from every label to
        its neighbours, a DataFrame of edges with two columns, a square DataFrame of 0 and 1 with labels, or a SciPy
        sparse matrix in the order of the labels.
    temporal : str, optional
        Effect whose labels are equidistant times in order of appearance.

    Returns
    -------
    TensorVariable, shape of the table
        Log rate per unit of exposure: ``pm.Poisson.dist(pm.math.exp(log_rates) * exposure)``.

    Raises
    ------
    ModelError
        An effect occurs twice, an exposure is invalid, a dimension has the name of a variable listed below, an
        adjacency is not symmetric, or a label is its own neighbour.
    LabelError
        The release has no such coordinate, the coordinate has real values, or an adjacency has other labels.

    See Also
    --------
    ppdinf.PartiallyPrivate, ppdinf.samplers.FixedLengthHMC

    Notes
    -----
    The function adds these variables to the model: ``intercept`` ~ Normal(log of the overall rate, 2.5),
    ``{label}_spread`` ~ HalfNormal(1) and ``{label}_effect`` ~ Normal(0, spread), one element per label in order of
    appearance. The sampled variables are ``level`` and ``{label}_level``: effects plus log sums over finer labels.
    Effects of spatial and temporal labels have a BYM2 prior with ``{label}_mixing`` ~ Uniform(0, 1);
    their levels are in the eigenvectors of the prior covariance. Prior predictive draws include all variables.
    docs/inference.md has a spatial and temporal example.

    Examples
    --------
    >>> from ppdinf.models import log_rates
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
        raise ModelError(f"effects must be a list of names, such as [{effects!r}]")
    model, spectra = pm.modelcontext(None), _spectra(release, effects, spatial, temporal)
    added = ["intercept", "level", *(f"{name}_{kind}" for name in effects for kind in ("effect", "level", "spread"))]
    added += [f"{name}_mixing" for name in spectra]
    for name in map(model.name_for, added):
        if name in model.coords or name in model.named_vars:
            raise ModelError(
                f"log_rates adds a variable {name!r}, but the model has a variable or dimension of that name: rename it"
            )
    if len(set(effects)) < len(effects):
        raise ModelError(f"effects must be distinct, found {', '.join(effects)}")
    at_risk = exposures(release, exposure).ravel()
    fit = rough_fit(release, at_risk, {name: release.frame.codes(name)[0] for name in effects})
    finer, top = sorted(effects, key=lambda name: fit.codes[name].max()), np.zeros(at_risk.size, dtype=np.int64)
    # a chain of coordinates from the finest, each within the next; counties can be in states or in regions that cross
    line: list[str] = []
    for name in reversed(finer):
        if not line or is_nested(fit.codes[line[0]], fit.codes[name]):
            line.insert(0, name)
    crossing = _Sum(np.zeros(at_risk.size), np.zeros(at_risk.size))  # one element per cell
    # effects of crossing labels, relative to the finest labels added before that contain them
    ends: list[tuple[Integers, _Sum]] = [(top, _Sum(np.zeros(1), np.zeros(1)))]
    for name in [name for name in finer if name not in line]:
        codes = fit.codes[name]
        above, base = next(end for end in reversed(ends) if is_nested(codes, end[0]))
        base, known = base.of(parents(codes, above)), fit.likelihood(name, held=True)
        effect = _add(name, base, known, fit.group_likelihood(codes, top, known, None), spectra.get(name))
        crossing = crossing.plus(effect.of(codes))
        ends.append((codes, base.plus(effect)))
    # effects of nested labels from the finest, each plus the log sum over finer labels
    likelihood, total, below = {name: fit.likelihood(name) for name in line}, crossing.drawn, crossing
    items, weight = np.arange(at_risk.size), fit.expected
    for name, coarser in zip(line[::-1], [*line[-2::-1], None], strict=False):
        codes, above = fit.codes[name], top if coarser is None else fit.codes[coarser]
        sums = _log_sums(parents(items, codes), weight, below)
        group_likelihood = fit.group_likelihood(
            codes, above, likelihood[name], None if coarser is None else likelihood[coarser]
        )
        effect = _add(name, sums, likelihood[name], group_likelihood, spectra.get(name))
        total = total + effect.drawn[codes]
        items, weight, below = codes, np.bincount(codes, fit.expected), sums.plus(effect)
    # overall level: intercept plus the log sum over all cells
    log_total = _log_sums(parents(items, top), weight, below).drawn[0]
    unit = Rescaled(fit.overall, TYPICAL_SPREAD / np.sqrt(fit.codes[line[0]].max() + 1) if line else 1.0)
    level = add_with_start("level", pm.Normal.dist(fit.overall + log_total, PRIOR_SD), fit.overall, transform=unit)
    return (total + pm.Deterministic("intercept", level - log_total)).reshape(release.shape)


class _Sum(NamedTuple):
    """Sum of effects, as symbolic variables and as fitted values."""

    drawn: Symbolic
    fitted: Reals

    def of(self, codes: Integers) -> _Sum:
        return _Sum(self.drawn[codes], self.fitted[codes])

    def plus(self, other: _Sum) -> _Sum:
        return _Sum(self.drawn + other.drawn, self.fitted + other.fitted)


def _log_sums(group: Integers, size: Reals, terms: _Sum) -> _Sum:
    """Return logarithms of expected sums over groups, relative to the fitted sums."""
    none = np.zeros(group.max() + 1)
    if isinstance(terms.drawn, np.ndarray):  # equal to the fitted values
        return _Sum(none, none)
    scaled = shares(group, size) * pt.exp(terms.drawn - terms.fitted)
    return _Sum(pt.log(pt.inc_subtensor(pt.zeros(none.size)[group], scaled)), none)


def _add(
    name: str, base: _Sum, likelihood: NormalLikelihood, group_likelihood: GroupLikelihood, spectrum: Spectrum | None
) -> _Sum:
    """Add effects of labels and their spread to the model, parametrized by the sum of effects and base."""
    unit = Rescaled(np.log(TYPICAL_SPREAD), likelihood.spread)
    spread = add_with_start(f"{name}_spread", pm.HalfNormal.dist(1), TYPICAL_SPREAD, transform=unit)
    start = base.fitted + likelihood.fitted
    if spectrum is None:
        transform = StandardNormal(base.fitted, likelihood, group_likelihood)
        level = add_with_start(
            f"{name}_level", pm.Normal.dist(base.drawn, spread, shape=start.size), start, transform=transform
        )
        effect = level - base.drawn
    else:  # level in the eigenvectors of the prior covariance
        mixing = pm.Uniform(f"{name}_mixing", 0, 1, transform=Rescaled(0, LOGISTIC_SD))
        V, variances = spectrum
        in_eigenvectors = StandardSpectral(base.fitted, likelihood, group_likelihood, spectrum)
        vectors = in_eigenvectors.bases[0]
        mean, sd = pt.dot(vectors.T, base.drawn), spread * pt.sqrt(mixing * variances + 1 - mixing)
        level = add_with_start(f"{name}_level", pm.Normal.dist(mean, sd), V.T @ start, transform=in_eigenvectors)
        effect = pt.dot(vectors, level - mean)
    return _Sum(pm.Deterministic(f"{name}_effect", effect), likelihood.fitted)


def _spectra(
    release: Release, effects: list[str], spatial: Mapping[str, Adjacency] | None, temporal: str | None
) -> dict[str, Spectrum]:
    """Return the spectra of the priors of spatial and temporal effects."""
    spatial = {} if spatial is None else spatial
    if not isinstance(spatial, Mapping) or not set(spatial) <= set(effects):
        raise ModelError(f"spatial must map one of the effects to its adjacency: {{{effects[0]!r}: adjacency}}")
    if temporal is not None and (temporal not in effects or temporal in spatial):
        raise ModelError(f"temporal must be one of the effects without an adjacency, found {temporal!r}")
    labels = {name: release.frame.codes(name)[1] for name in [*spatial, *([] if temporal is None else [temporal])]}
    edges = {
        name: path_edges(labels[name].size) if name == temporal else adjacency_edges(spatial[name], labels[name], name)
        for name in labels
    }
    return {name: scaled_icar(edges[name], labels[name].size) for name in edges}


def intercept_given_total(name: str, prior: TensorVariable, log_weights: TensorVariable, total: int) -> TensorVariable:
    """Give an intercept its prior, parametrized by the log of the expected total.

    The posterior is that of ``intercept ~ prior``: the change of variables has a constant Jacobian. The level has a
    flat prior, so `pm.sample_prior_predictive` cannot draw it.

    Parameters
    ----------
    name : str
        Name of the intercept in the posterior. ``{name}_level`` is the log of the expected total minus the log of the
        total, in units of the standard error ``1 / sqrt(total)``.
    prior : unnamed PyMC distribution
        Prior of the intercept, a scalar, such as ``pm.Normal.dist(-5, 2)``.
    log_weights : TensorVariable
        Log rates without the intercept, of all cells under the total: effects plus log exposures.
    total : int
        The public total, a positive integer, at which chains start.

    Returns
    -------
    TensorVariable
        The intercept; the log rates are ``log_weights + intercept``.

    Raises
    ------
    ModelError
        The total is not positive.

    See Also
    --------
    ppdinf.models.log_rates : Log rates with effects of labels, for any amount of noise.

    Examples
    --------
    >>> import pymc as pm, ppdinf as ppd
    >>> with pm.Model() as model:
    ...     effect = pm.Normal("effect", 0, 1, shape=3)
    ...     mu = ppd.models.intercept_given_total("mu", pm.Normal.dist(0, 2), effect, total=30)
    >>> [variable.name for variable in model.free_RVs]
    ['effect', 'mu_level']
    """
    if not total > 0:
        raise ModelError(f"the total of {name!r} must be positive: an expected total of 0 has no finite logarithm")
    level = np.log(total) + pm.Flat(f"{name}_level") / np.sqrt(total)
    intercept = pm.Deterministic(name, level - pm.math.logsumexp(log_weights))
    pm.Potential(f"{name}_prior", pm.logp(prior, intercept))
    return intercept
