"""Posterior draws by importance sampling, with the confidential table summed out.

Target: pi(theta) L(theta), L(theta) = p(y, Z | theta) the marginal likelihood, in the unconstrained space
of the model, u. Weights: w(u) = pi(u) L(u) / g(u), self-normalised and Pareto-smoothed; the shape k-hat of
their tail says whether they can be trusted.

Seeman, Reimherr and Slavkovic, "Formal privacy for partially private data", Algorithm 2, weighs pairs of
theta and a table x drawn from p(x | theta, Z) by p(y | x, Z). The mean of those weights over x given theta,
times P(Z | theta), is L(theta): these are their Rao-Blackwellised form, whose variance is no larger.

Proposal g: a mixture of multivariate t laws (`ppdinf.samplers.posterior_proposal`). Start: Gaussian approximations at
points along the path of an optimiser from the initial point; the one with the largest evidence lower bound is kept,
since the path of a hierarchical model may run off to a spike at its end. Then rounds of draws: each weighs all
draws so far against the mixture of all proposals so far, and refits to them, the weights tempered while few carry
all. The weights of the result are those of new draws from the last proposal alone.

References
----------
A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry, "Pareto smoothed importance sampling", JMLR 25 (2024).
L. Zhang, B. Carpenter, A. Gelman and A. Vehtari, "Pathfinder: parallel quasi-Newton variational inference",
JMLR 23 (2022), for the choice along the path.
J.-M. Cornuet, J.-M. Marin, A. Mira and C. P. Robert, "Adaptive multiple importance sampling", Scandinavian Journal of
Statistics 39 (2012).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from arviz_stats.base import array_stats
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from ppdinf._pymc_internals import compile_pymc, join_nonshared_inputs, vectorize_graph
from ppdinf._types import Array
from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.samplers.parameters import as_tree, require_parameters
from ppdinf.samplers.posterior_proposal import Proposal, fit

__all__ = ["importance"]

K_HAT = 0.7  # above it weighted means cannot be trusted (Vehtari et al. 2024)
WEIGHED = 10  # proposals for each draw that is returned
LOOKS = 50  # draws that estimate an evidence lower bound
ROUNDS = 12  # refits of the proposal at most
ENOUGH = 0.5  # share of effective draws at which the proposal needs no further refit
FITTED = 4000  # draws that a proposal is fitted to, at most
STEPS = (1e-4, 0.03, 0.3, 1.0)  # of second differences: wide ones look past kinks, tried where the first finds no peak
NOTHING = -1e6  # log density that stands for none where an average has to stay finite

Matrix = NDArray[np.float64]


class _Target(NamedTuple):
    """Unnormalised log posterior of an unconstrained vector: of many at once, and with its gradient."""

    start: NDArray[np.float64]
    log_p: Callable[[Matrix], NDArray[np.float64]]
    value_and_gradient: Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]
    draws: Callable[[Matrix], dict[str, Array]]


class _Weighted(NamedTuple):
    """Weighted draws, the ones that were resampled, and what is said of the weights."""

    points: Matrix
    log_weight: NDArray[np.float64]
    chosen: NDArray[np.int64]
    k: float
    ess: float
    log_evidence: float


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
        weights) and ``log_evidence`` (log p(y, Z), the mechanism's normaliser dropped); ``weighted`` with all
        weighted draws and their ``log_weight``, normalised, for expectations without resampling noise;
        ``observed_data``.

    Raises
    ------
    ModelError
        An unknown of whole numbers; no point of positive posterior density found, or no peak.

    Warns
    -----
    DiagnosisWarning
        ``pareto_k`` is above 0.7: some weights carry nearly everything, and the draws should not be read.

    Notes
    -----
    Compiling takes seconds; then each weighted draw costs one marginal likelihood (20 us for 20 cells). Good
    for some tens of parameters; pm.sample() goes further. Of 40,000 weighted draws of 22 parameters of 20 areas
    (`benchmarks/posterior.py`, p1), 8,000 to 10,000 were effective, after 4 CPU seconds besides compiling. In the
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
    target = _target(model)
    found = _draw(target, draws, rng)
    if not found.k <= K_HAT:
        warnings.warn(
            f"k-hat is {found.k:.2f} (over {K_HAT}): a few of the {len(found.points)} weighted draws carry nearly all "
            "the weight. Do not read this posterior; use pm.sample(), or fewer or better scaled parameters.",
            DiagnosisWarning,
            stacklevel=2,
        )
    weighted = target.draws(found.points)
    return as_tree(
        model,
        {name: values[found.chosen] for name, values in weighted.items()},
        {"proposal": found.chosen},
        {"pareto_k": found.k, "ess": found.ess, "log_evidence": found.log_evidence},
        weighted={**weighted, "log_weight": found.log_weight},
    )


def _target(model: pm.Model) -> _Target:
    values, point = model.value_vars, model.initial_point()
    outcome = model.replace_rvs_by_values([*model.free_RVs, *model.deterministics])
    names = [variable.name for variable in (*model.free_RVs, *model.deterministics)]
    (log_p, *outcome), joined = join_nonshared_inputs(point, [model.logp(), *outcome], values)
    many = pt.dmatrix("many")
    gradient = compile_pymc([joined], [log_p, pt.grad(log_p, joined)])
    batch = compile_pymc([many], vectorize_graph(log_p, {joined: many}))
    transformed = compile_pymc([many], vectorize_graph(outcome, {joined: many}), on_unused_input="ignore")

    def safe(points: Matrix) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            found = batch(points)
        return np.where(np.isnan(found), -np.inf, found)

    def draws(points: Matrix) -> dict[str, Array]:
        return dict(zip(names, transformed(points), strict=True))

    start = np.concatenate([np.ravel(point[value.name]) for value in values])
    return _Target(start, safe, gradient, draws)


def _draw(target: _Target, draws: int, rng: np.random.Generator) -> _Weighted:
    proposal = _adapt(target, Proposal.single(*_start(target, rng)), rng)
    points = proposal.draw(WEIGHED * draws, rng)
    log_ratio = target.log_p(points) - proposal.log_density(points)
    log_weight, k = _smoothed(log_ratio)
    chosen = _resample(np.exp(log_weight), draws, rng)
    log_evidence = float(logsumexp(log_ratio) - np.log(log_ratio.size))
    return _Weighted(points, log_weight, chosen, k, _effective(log_weight), log_evidence)


def _start(target: _Target, rng: np.random.Generator) -> tuple[NDArray[np.float64], Matrix]:
    """Gaussian approximation with the largest evidence lower bound along the path of an optimiser."""
    path = [target.start]

    def descend(u: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = target.value_and_gradient(u)
        return (-float(value), -gradient) if np.isfinite(value) else (1e300, np.zeros_like(u))

    with np.errstate(all="ignore"):
        minimize(descend, target.start, jac=True, method="L-BFGS-B", callback=lambda u: path.append(u.copy()))
    for step in STEPS:
        best, found = NOTHING / 2, None
        for u in path:
            covariance = _curvature(target, u, step)
            if covariance is None:
                continue
            normal = multivariate_normal(u, covariance, allow_singular=True)
            points = normal.rvs(LOOKS, random_state=rng).reshape(-1, u.size)
            bound = float(np.mean(np.maximum(target.log_p(points), NOTHING) - normal.logpdf(points)))
            if bound > best:
                best, found = bound, (u, covariance)
        if found is not None:
            return found
    if np.isfinite(target.log_p(np.array(path))).any():
        raise ModelError(
            "the posterior density has no peak that a Gaussian law resembles anywhere on the way of an optimiser, as "
            "where it is flat or has kinks: use pm.sample()"
        )
    raise ModelError("no point of positive posterior density found: set initval= of the parameters near the data")


def _curvature(target: _Target, u: NDArray[np.float64], step: float) -> Matrix | None:
    """Inverse of the negative Hessian, by differences of the gradient; None unless it is positive definite."""
    rows = [
        (target.value_and_gradient(u - step * e)[1] - target.value_and_gradient(u + step * e)[1]) / (2 * step)
        for e in np.eye(u.size)
    ]
    precision = (np.array(rows) + np.array(rows).T) / 2
    if not np.isfinite(precision).all() or np.linalg.eigvalsh(precision)[0] <= 1e-8:
        return None
    return np.linalg.inv(precision)


def _adapt(target: _Target, proposal: Proposal, rng: np.random.Generator) -> Proposal:
    """Refit the proposal to all weighted draws so far, until it needs no refit."""
    d = proposal.mean.shape[1]
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
        proposal = fit(points[chosen], _effective(log_weight), rng)
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
