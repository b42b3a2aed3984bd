"""Posterior draws by importance sampling, with the confidential table summed out.

Target: pi(theta) L(theta), L(theta) = p(y, Z | theta) the marginal likelihood, in the unconstrained space
of the model, u. Weights: w(u) = pi(u) L(u) / g(u), self-normalised and Pareto-smoothed; the shape k-hat of
their tail says whether they can be trusted.

Seeman, Reimherr and Slavkovic, "Formal privacy for partially private data", Algorithm 2, weighs pairs of
theta and a table x drawn from p(x | theta, Z) by p(y | x, Z). The mean of those weights over x given theta,
times P(Z | theta), is L(theta): these are their Rao-Blackwellised form, whose variance is no larger.

Proposal g: two mixtures of multivariate t laws (`ppdinf.samplers.posterior_proposal`), each from a search of its own:

1. Gaussian approximations at all modes that are found from several starts, among them draws of the prior
   (`ppdinf.samplers.posterior_modes`). A mode that no proposal reaches is seen by no diagnostic of the weights.
2. Rounds of draws: each weighs all draws so far against the mixture of all proposals so far, and refits to them, the
   weights tempered while few carry all. Every proposal keeps a share for the modes and a share for a law that resembles
   the prior, so that a mode that a fit lost is still drawn from (a defensive mixture).

Half of the draws are from the proposal of each search, and all are weighed against the mixture of the two. The evidence
that each half gives alone is compared: a mode that only one search found shows as a difference.

References
----------
A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry, "Pareto smoothed importance sampling", JMLR 25 (2024).
J.-M. Cornuet, J.-M. Marin, A. Mira and C. P. Robert, "Adaptive multiple importance sampling", Scandinavian Journal of
Statistics 39 (2012).
T. Hesterberg, "Weighted average importance sampling and defensive mixture distributions", Technometrics 37 (1995).
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from arviz_stats.base import array_stats
from numpy.typing import NDArray
from scipy.special import logsumexp

from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.samplers.parameters import as_tree, require_parameters
from ppdinf.samplers.posterior_modes import Mode, dispersed, find_modes
from ppdinf.samplers.posterior_proposal import Law, Mixture, Proposal, fit
from ppdinf.samplers.posterior_target import Target, target_of

__all__ = ["importance"]

K_HAT = 0.7  # above it weighted means cannot be trusted (Vehtari et al. 2024)
WEIGHED = 10  # proposals for each draw that is returned
ROUNDS = 12  # refits of the proposal at most
ENOUGH = 0.5  # share of effective draws at which the proposal needs no further refit
FITTED = 4000  # draws that a proposal is fitted to, at most
PRIOR = 400  # draws of the prior that each search starts from
WIDE = 5.0  # standard deviations of the first approximation that stand for an improper prior
FIRST = (0.8, 0.2)  # shares of the modes and of the prior in the first proposal
SHARES = (0.8, 0.1, 0.1)  # shares of the fit, of the modes and of the prior in the others
COMPARED = 500  # weighted draws of a search from which on its evidence is compared
DIFFERENCE = 0.02  # of two log evidences that does not matter
DEVIATIONS = 4.0  # standard errors beyond that: exceeded by chance once in 16,000 runs

Matrix = NDArray[np.float64]


class _Weighted(NamedTuple):
    """Weighted draws, the ones that were resampled, and what is said of the weights."""

    points: Matrix
    log_weight: NDArray[np.float64]
    chosen: NDArray[np.int64]
    k: float
    ess: float
    log_evidence: float
    halves: tuple[float, float]
    agree: bool


def importance(model: pm.Model, draws: int, *, rng: int | np.random.Generator | None = None) -> xr.DataTree:
    """Draw the parameters of a model from their posterior by Pareto-smoothed importance sampling.

    Parameters
    ----------
    model : pymc.Model
        Continuous parameters and any likelihood: a `PartiallyPrivate` table that is summed out, beside
        others or none.
    draws : int
        Number of draws, resampled from ten times as many weighted ones.
    rng : int or numpy.random.Generator, optional

    Returns
    -------
    xarray.DataTree
        As `pm.sample`: ``posterior`` with one chain of resampled draws, for plots and `sample_confidential`;
        ``sample_stats`` with ``proposal``, the number of the weighted draw that each was resampled from,
        and attributes ``pareto_k``, ``ess`` (effective number of weighted draws, 1 / sum of squared
        weights), ``log_evidence`` (log p(y, Z), the mechanism's normaliser dropped), ``log_evidence_halves`` (the same
        from each of two searches alone) and ``halves_agree`` (1 or 0); ``weighted`` with all weighted draws and their
        ``log_weight``, normalised, for expectations without resampling noise; ``observed_data``.

    Raises
    ------
    ModelError
        An unknown of whole numbers; no point of positive posterior density found, or no peak.

    Warns
    -----
    DiagnosisWarning
        ``pareto_k`` is above 0.7: some weights carry nearly everything, and the draws should not be read. Or two
        searches for modes disagree on the evidence by more than their sampling error.

    Notes
    -----
    Modes are searched from the initial point and from draws of the prior, in two independent searches. A mode that
    neither search reaches is missing without a warning: one that is narrow against the prior in several dimensions.
    ``initval=`` of the parameters adds a start.

    Compiling takes seconds; then each weighted draw costs one marginal likelihood (20 us for 20 cells). Good
    for some tens of parameters; pm.sample() goes further. Of 40,000 weighted draws of 22 parameters of 20 areas
    (`benchmarks/posterior.py`, p1), 5,400 to 9,200 were effective, after 7 CPU seconds besides compiling. In the
    one setting that was tried (low, epsilon = 0.02; 1,000 particles, six runs compared), ``pm.sample_smc`` was slower
    than NUTS, and is no route of its own here.

    References
    ----------
    Seeman, Reimherr and Slavkovic, "Formal privacy for partially private data", Algorithm 2.

    Examples
    --------
    >>> import ppdinf as ppd
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
    target = target_of(model, int(rng.integers(2**31)))
    found = _draw(target, draws, rng)
    if not found.k <= K_HAT:
        warnings.warn(
            f"k-hat is {found.k:.2f} (over {K_HAT}): a few of the {len(found.points)} weighted draws carry nearly all "
            "the weight. Do not read this posterior; use pm.sample(), or fewer or better scaled parameters.",
            DiagnosisWarning,
            stacklevel=2,
        )
    if not found.agree:
        first, second = found.halves
        warnings.warn(
            f"two searches from different starts give the log evidence {first:.2f} and {second:.2f}: at least one of "
            "them missed a mode of the posterior. The draws combine both searches, but further modes may be missing: "
            "compare with pm.sample() or ppdinf.samplers.rejection.",
            DiagnosisWarning,
            stacklevel=2,
        )
    weighted = target.draws(found.points)
    return as_tree(
        model,
        {name: values[found.chosen] for name, values in weighted.items()},
        {"proposal": found.chosen},
        {
            "pareto_k": found.k,
            "ess": found.ess,
            "log_evidence": found.log_evidence,
            "log_evidence_halves": list(found.halves),
            "halves_agree": int(found.agree),
        },
        weighted={**weighted, "log_weight": found.log_weight},
    )


def _draw(target: Target, draws: int, rng: np.random.Generator) -> _Weighted:
    proposals = [_adapt(target, *found, rng) for found in _searches(target, rng)]
    each = WEIGHED * draws // 2
    points = np.concatenate([proposal.draw(each, rng) for proposal in proposals])
    log_p = target.log_p(points)
    log_g = np.stack([proposal.log_density(points) for proposal in proposals])
    own = [log_p[:each] - log_g[0, :each], log_p[each:] - log_g[1, each:]]
    log_ratio = log_p - (logsumexp(log_g, axis=0) - np.log(2))
    log_weight, k = _smoothed(log_ratio)
    chosen = _resample(np.exp(log_weight), draws, rng)
    first, second = (float(logsumexp(part) - np.log(each)) for part in own)
    error = np.sqrt(sum(1 / _effective(part) - 1 / each for part in own))
    agree = each < COMPARED or abs(first - second) <= DIFFERENCE + DEVIATIONS * error
    log_evidence = float(logsumexp(log_ratio) - np.log(log_ratio.size))
    return _Weighted(points, log_weight, chosen, k, _effective(log_weight), log_evidence, (first, second), bool(agree))


def _searches(target: Target, rng: np.random.Generator) -> list[tuple[Law, Law]]:
    """Laws that resemble the modes and the prior, of two searches from different starts."""
    first = find_modes([target.start], target.log_p, target.value_and_gradient, rng)
    found = []
    for known in (first, []):
        points, wide = _dispersed(target, first, rng)
        starts = [*(mode.mean for mode in known), *dispersed(points, target.log_p, rng)]
        found.append((find_modes(starts, target.log_p, target.value_and_gradient, rng), wide))
    if not any(modes for modes, _ in found):
        raise _nothing_found(target, points)
    either = max((modes for modes, _ in found), key=len)
    return [(_of_modes(modes or either), wide) for modes, wide in found]


def _of_modes(modes: list[Mode]) -> Law:
    return Mixture([Proposal.single(m.mean, m.covariance) for m in modes], [1 / len(modes)] * len(modes))


def _dispersed(target: Target, modes: list[Mode], rng: np.random.Generator) -> tuple[Matrix, Law]:
    """Points as widely spread as the prior, and the prior itself or a law that resembles it."""
    points = np.empty((0, target.start.size)) if target.prior is None else target.prior.draw(PRIOR)
    finite = points[np.isfinite(points).all(axis=1)]
    if len(finite) <= PRIOR / 2:  # improper, or of a distribution whose transform cuts off a part of its support
        root = np.linalg.cholesky(modes[0].covariance) if modes else np.eye(target.start.size)
        centre = modes[0].mean if modes else target.start
        finite = centre + WIDE * rng.standard_normal((PRIOR, centre.size)) @ root.T
    elif target.prior is not None and target.prior.log_densities is not None and len(finite) == PRIOR:
        return points, target.prior
    return finite, fit(finite, float(len(finite)), rng)


def _nothing_found(target: Target, points: Matrix) -> ModelError:
    if np.isfinite(target.log_p(np.vstack([target.start, points]))).any():
        return ModelError(
            "the posterior density has no peak that a Gaussian law resembles anywhere on the way of an optimiser, as "
            "where it is flat or has kinks: use pm.sample()"
        )
    return ModelError("no point of positive posterior density found: set initval= of the parameters near the data")


def _adapt(target: Target, modes: Law, prior: Law, rng: np.random.Generator) -> Mixture:
    """Refit the proposal to all weighted draws so far, until it needs no refit."""
    d = target.start.size
    proposal = Mixture([modes, prior], FIRST)
    size = 500 + 100 * d
    proposals, points, log_p = [proposal], np.empty((0, d)), np.empty(0)
    for _ in range(ROUNDS):
        drawn = proposal.draw(size, rng)
        points, log_p = np.concatenate([points, drawn]), np.concatenate([log_p, target.log_p(drawn)])
        if not np.isfinite(log_p).any():
            raise ModelError("every proposal has posterior density zero: set initval= of the parameters near the data")
        log_g = np.stack([each.log_density(points) for each in proposals])
        if _effective(log_p[-size:] - log_g[-1, -size:]) > ENOUGH * size:
            break
        log_weight, _ = _smoothed(log_p - logsumexp(log_g, axis=0))
        log_weight = _tempered(log_weight, wanted=5.0 * d + 20)
        chosen = _resample(np.exp(log_weight), min(FITTED, len(points)), rng)
        proposal = Mixture([fit(points[chosen], _effective(log_weight), rng), modes, prior], SHARES)
        proposals.append(proposal)
    return proposal


def _effective(log_weight: NDArray[np.float64]) -> float:
    """Effective number of weighted draws, 1 / sum of squared normalised weights."""
    return float(np.exp(2 * logsumexp(log_weight) - logsumexp(2 * log_weight)))


def _tempered(log_weight: NDArray[np.float64], wanted: float) -> NDArray[np.float64]:
    """Raise to the largest power up to 1 at which weights have the effective size that a covariance needs."""
    power = 1.0
    while power > 1e-3 and _effective(power * log_weight) < wanted:
        power *= 0.8
    return power * log_weight - logsumexp(power * log_weight)


def _smoothed(log_ratio: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Pareto-smoothed log weights, normalised, and the shape of their tail."""
    log_weight, k = array_stats.psislw(-np.maximum(log_ratio, log_ratio.max() - 700))
    return log_weight - logsumexp(log_weight), float(k)


def _resample(weight: NDArray[np.float64], draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Systematic resampling, in random order."""
    ends = np.cumsum(weight)
    places = np.searchsorted(ends / ends[-1], (np.arange(draws) + rng.random()) / draws)
    return rng.permutation(np.minimum(places, weight.size - 1))
