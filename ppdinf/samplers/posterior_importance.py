"""Posterior draws by importance sampling, with the confidential table marginalized.

Target: pi(theta) L(theta), L(theta) = p(y, Z | theta) the marginal likelihood, in the unconstrained space
of the model, u. Weights: w(u) = pi(u) L(u) / g(u), self-normalized and Pareto-smoothed. The shape k-hat of
their tail indicates whether the weighted means are reliable.

The weights are the Rao-Blackwellized form of the weights of pairs (theta, table) in Algorithm 2 of Seeman, Reimherr and
Slavkovic, "Formal privacy for partially private data", which does not increase the variance.

Proposal g: two mixtures of multivariate t distributions (`ppdinf.samplers.posterior_proposal`), one per search. Each
search starts with Gaussian approximations at all modes that an optimizer reaches from several starts, including draws
of the prior. Rounds of draws follow: each round weights all draws by the mixture of all proposals, with tempered
weights while few draws carry all the weight, and refits. Every proposal includes a share for the modes and a share for
a distribution similar to the prior (a defensive mixture).

Half of the draws are from the proposal of each search, and all draws are weighted by the mixture of the two. The
evidence estimates of the two halves are compared: a mode that only one search reached shows as a difference. No
diagnostic of the weights detects a mode that every proposal misses.

References
----------
A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry, "Pareto smoothed importance sampling", JMLR 25 (2024).
J.-M. Cornuet, J.-M. Marin, A. Mira and C. P. Robert, "Adaptive multiple importance sampling", Scandinavian Journal of
Statistics 39 (2012).
T. Hesterberg, "Weighted average importance sampling and defensive mixture distributions", Technometrics 37 (1995).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from arviz_stats.base import array_stats
from scipy.special import logsumexp

from ppdinf._internal.progress import progress
from ppdinf._internal.values import Integers, Reals
from ppdinf.distributions.tables import tables_of
from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.samplers.posterior_proposal import (
    DefensiveMixture,
    Distribution,
    Mode,
    TMixture,
    dispersed,
    find_modes,
    fit,
)
from ppdinf.samplers.posterior_target import PosteriorTarget, as_tree, require_parameters, target_of

K_HAT = 0.7  # upper limit for reliable weighted means (Vehtari et al. 2024)
PROPOSALS_PER_DRAW = 10  # weighted draws per returned draw
ROUNDS = 12  # maximum number of refits of the proposal
SUFFICIENT = 0.5  # share of effective draws at which refitting stops
FITTED_DRAWS = 4000  # maximum number of draws to which a proposal is fitted
PRIOR = 400  # draws of the prior from which each search starts
WIDE = 5.0  # standard deviations of the first approximation that replace an improper prior
FIRST = (0.8, 0.2)  # shares of the modes and of the prior in the first proposal
SHARES = (0.8, 0.1, 0.1)  # shares of the fit, of the modes and of the prior in later proposals
COMPARED_DRAWS = 500  # weighted draws per search above which the evidences are compared
DIFFERENCE = 0.02  # negligible difference of two log evidences
DEVIATIONS = 4.0  # standard errors above the difference: exceeded by chance once in 16,000 runs


class WeightedDraws(NamedTuple):
    """Weighted draws, indices of the resampled draws, and diagnostics of the weights."""

    points: Reals
    log_weight: Reals
    chosen: Integers
    k: float
    ess: float
    log_evidence: float
    halves: tuple[float, float]
    agree: bool


def importance(
    model: pm.Model, draws: int, *, rng: int | np.random.Generator | None = None, progressbar: bool = True
) -> xr.DataTree:
    """Draw the parameters of a model from their posterior by Pareto-smoothed importance sampling.

    Parameters
    ----------
    model : pymc.Model
        Continuous parameters and any likelihood, including marginalized `PartiallyPrivate` tables.
    draws : int
        Number of draws, resampled from 10 times as many weighted draws.
    rng : int or numpy.random.Generator, optional
    progressbar : bool, default True

    Returns
    -------
    xarray.DataTree
        Same layout as the result of `pm.sample`. ``posterior``: one chain of resampled draws, for plots and
        `sample_confidential`. ``sample_stats``: ``proposal``, the index of the weighted draw of each resampled draw.
        Attributes of ``sample_stats``: ``pareto_k``; ``ess``, the effective number of weighted draws (1 / sum of
        squared weights); ``log_evidence``, log p(y, Z), or nan if the constant of the noise is not known;
        ``log_evidence_halves``, the same from each search alone, without an unknown constant; ``halves_agree`` (1 or
        0). ``weighted``: all weighted draws and their normalized ``log_weight``, for expectations without resampling
        noise. ``observed_data``.

    Raises
    ------
    ModelError
        The model has an integer unknown, or no point of positive posterior density or no mode was found.

    Warns
    -----
    DiagnosisWarning
        ``pareto_k`` is above 0.7: few draws carry most of the weight, and the draws are not reliable. Or the evidences
        of the two searches differ by more than their sampling error.

    See Also
    --------
    ppdinf.samplers.rejection, ppdinf.diagnose

    Notes
    -----
    Modes are searched from the initial point and from draws of the prior, in two independent searches. A mode that
    neither search reaches is missing without a warning. This can happen to modes that are narrow compared with the
    prior in several dimensions. ``initval=`` of the parameters adds a start.

    The method is suitable for tens of parameters; use pm.sample() for more. Times: docs/speed.md.

    References
    ----------
    Seeman, Reimherr and Slavkovic, "Formal privacy for partially private data", Algorithm 2.

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> release = ppd.Release(np.array([3, -1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     rate = pm.Gamma("rate", 2, 1)
    ...     counts = ppd.PartiallyPrivate("counts", pm.Poisson.dist(rate), release=release)
    >>> idata = ppd.samplers.importance(model, 2000, rng=1)
    >>> idata.sample_stats.attrs["pareto_k"] < 0.7, round(float(idata.posterior["rate"].mean()), 1)
    (True, 2.0)
    """
    model = pm.modelcontext(model)
    require_parameters(model, draws)
    rng = np.random.default_rng(rng)
    with progress("Importance sampling", 2 * ROUNDS + 1, disable=not progressbar) as advance:
        target = target_of(model, int(rng.integers(2**31)))
        result = weighted_draws(target, draws, rng, advance)
    if not result.k <= K_HAT:
        warnings.warn(
            f"k-hat is {result.k:.2f} (above {K_HAT}): a few of the {len(result.points)} weighted draws carry nearly "
            "all the weight. Do not use these draws; use pm.sample(), or fewer or better scaled parameters.",
            DiagnosisWarning,
            stacklevel=2,
        )
    if not result.agree:
        first, second = result.halves
        warnings.warn(
            f"two searches from different starts give the log evidence {first:.2f} and {second:.2f}: at least one of "
            "them missed a mode of the posterior. The draws combine both searches, but further modes may be missing: "
            "compare with pm.sample() or ppdinf.samplers.rejection.",
            DiagnosisWarning,
            stacklevel=2,
        )
    weighted = target.draws(result.points)
    is_known = all(table.law.observed.log_constant is not None for table in tables_of(model))
    return as_tree(
        model,
        {name: values[result.chosen] for name, values in weighted.items()},
        {"proposal": result.chosen},
        {
            "pareto_k": result.k,
            "ess": result.ess,
            "log_evidence": result.log_evidence if is_known else np.nan,
            "log_evidence_halves": list(result.halves),
            "halves_agree": int(result.agree),
        },
        weighted={**weighted, "log_weight": result.log_weight},
    )


def weighted_draws(
    target: PosteriorTarget, draws: int, rng: np.random.Generator, advance: Callable[[int], None] = lambda rounds: None
) -> WeightedDraws:
    """Draw from the proposals of both searches, weight all draws, and resample."""
    proposals = [_adapt(target, *search, rng, advance) for search in _searches(target, rng)]
    each = PROPOSALS_PER_DRAW * draws // 2
    points = np.concatenate([proposal.draw(each, rng) for proposal in proposals])
    log_p = target.log_p(points)
    log_g = np.stack([proposal.log_density(points) for proposal in proposals])
    log_ratios = [log_p[:each] - log_g[0, :each], log_p[each:] - log_g[1, each:]]
    log_ratio = log_p - (logsumexp(log_g, axis=0) - np.log(2))
    log_weight, k = _smoothed(log_ratio)
    chosen = _resample(np.exp(log_weight), draws, rng)
    first, second = (float(logsumexp(part) - np.log(each)) for part in log_ratios)
    error = np.sqrt(sum(1 / _effective(part) - 1 / each for part in log_ratios))
    agree = each < COMPARED_DRAWS or abs(first - second) <= DIFFERENCE + DEVIATIONS * error
    log_evidence = float(logsumexp(log_ratio) - np.log(log_ratio.size))
    return WeightedDraws(
        points, log_weight, chosen, k, _effective(log_weight), log_evidence, (first, second), bool(agree)
    )


def _searches(target: PosteriorTarget, rng: np.random.Generator) -> list[tuple[Distribution, Distribution]]:
    """Return approximations of the modes and of the prior, from two searches with different starts."""
    first = find_modes([target.start], target.log_p, target.value_and_gradient, rng)
    searches = []
    for known in (first, []):
        points, wide = _dispersed(target, first, rng)
        starts = [*(mode.mean for mode in known), *dispersed(points, target.log_p, rng)]
        searches.append((find_modes(starts, target.log_p, target.value_and_gradient, rng), wide))
    if not any(modes for modes, _ in searches):
        if np.isfinite(target.log_p(np.vstack([target.start, points]))).any():
            raise ModelError(
                "the posterior density has no mode with a Gaussian approximation on the path of an optimizer, for "
                "example because it is flat or has kinks: use pm.sample()"
            )
        raise ModelError("no point of positive posterior density found: set initval= of the parameters near the data")
    either = max((modes for modes, _ in searches), key=len)
    near = [[TMixture.single(m.mean, m.covariance) for m in modes or either] for modes, _ in searches]
    return [(DefensiveMixture(x, [1 / len(x)] * len(x)), wide) for x, (_, wide) in zip(near, searches, strict=True)]


def _dispersed(target: PosteriorTarget, modes: list[Mode], rng: np.random.Generator) -> tuple[Reals, Distribution]:
    """Return points as dispersed as the prior, and the prior or a distribution similar to it."""
    points = np.empty((0, target.start.size)) if target.prior is None else target.prior.draw(PRIOR)
    finite = points[np.isfinite(points).all(axis=1)]
    if len(finite) <= PRIOR / 2:  # improper prior, or a transform that excludes a part of the support
        root = np.linalg.cholesky(modes[0].covariance) if modes else np.eye(target.start.size)
        centre = modes[0].mean if modes else target.start
        finite = centre + WIDE * rng.standard_normal((PRIOR, centre.size)) @ root.T
    elif target.prior is not None and target.prior.log_densities is not None and len(finite) == PRIOR:
        return points, target.prior
    return finite, fit(finite, float(len(finite)), rng)


def _adapt(
    target: PosteriorTarget,
    modes: Distribution,
    prior: Distribution,
    rng: np.random.Generator,
    advance: Callable[[int], None],
) -> DefensiveMixture:
    """Refit the proposal to all weighted draws until the effective sample size is sufficient."""
    d = target.start.size
    proposal = DefensiveMixture([modes, prior], FIRST)
    size = 500 + 100 * d
    proposals, points, log_p = [proposal], np.empty((0, d)), np.empty(0)
    for done in range(ROUNDS):
        drawn = proposal.draw(size, rng)
        points, log_p = np.concatenate([points, drawn]), np.concatenate([log_p, target.log_p(drawn)])
        if not np.isfinite(log_p).any():
            raise ModelError("every proposal has posterior density zero: set initval= of the parameters near the data")
        log_g = np.stack([each.log_density(points) for each in proposals])
        if _effective(log_p[-size:] - log_g[-1, -size:]) > SUFFICIENT * size:
            advance(ROUNDS - done)
            break
        log_weight, _ = _smoothed(log_p - logsumexp(log_g, axis=0))
        power = 1.0
        while power > 1e-3 and _effective(power * log_weight) < 5.0 * d + 20:
            power *= 0.8
        log_weight = power * log_weight - logsumexp(power * log_weight)
        chosen = _resample(np.exp(log_weight), min(FITTED_DRAWS, len(points)), rng)
        proposal = DefensiveMixture([fit(points[chosen], _effective(log_weight), rng), modes, prior], SHARES)
        proposals.append(proposal)
        advance(1)
    return proposal


def _effective(log_weight: Reals) -> float:
    """Return the effective number of weighted draws, 1 / sum of squared normalized weights."""
    return float(np.exp(2 * logsumexp(log_weight) - logsumexp(2 * log_weight)))


def _smoothed(log_ratio: Reals) -> tuple[Reals, float]:
    """Return normalized Pareto-smoothed log weights, and the shape of their tail."""
    log_weight, k = array_stats.psislw(-np.maximum(log_ratio, log_ratio.max() - 700))
    return log_weight - logsumexp(log_weight), float(k)


def _resample(weight: Reals, draws: int, rng: np.random.Generator) -> Integers:
    """Return indices by systematic resampling, in random order."""
    ends = np.cumsum(weight)
    places = np.searchsorted(ends / ends[-1], (np.arange(draws) + rng.random()) / draws)
    return rng.permutation(np.minimum(places, weight.size - 1))
