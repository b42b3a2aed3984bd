"""The posterior by enumeration of tables: every distribution from its formula, none from the package.

A table is a row of integers, one per cell in table order. Log probabilities are summed in doubles; probabilities near
0 and 1 enter by their logits, to avoid cancellation.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, gammaln, logsumexp, xlog1py, xlogy

# --- noise: log weights of z = y - x, one per row ---------------------------------------------------------------------


def l1(epsilon):
    return lambda z: -epsilon * np.abs(z).sum(axis=-1)


def l2(epsilon):
    return lambda z: -epsilon * np.sqrt((z**2).sum(axis=-1))


def gaussian(sigma):
    return lambda z: -(z**2).sum(axis=-1) / (2 * sigma**2)


def staircase(epsilon, sensitivity, step):
    """The first `step` sizes are on the top stair, then `sensitivity` sizes on each further stair."""
    return lambda z: -epsilon * ((np.abs(z) - step) // sensitivity + 1).sum(axis=-1)


def log_normaliser(log_weight, x, released):
    """Return log C(x): the log of the summed weights of all possible releases of each table."""
    return np.array([logsumexp(log_weight(released - table)) for table in x])


# --- log probabilities of counts; -inf outside the support ------------------------------------------------------------


def within(x, inside, log_p):
    return np.where(inside, log_p, -np.inf)


def poisson(x, mu):
    x = np.asarray(x)
    return within(x, x >= 0, xlogy(x, mu) - mu - gammaln(np.maximum(x, 0) + 1.0))


def log_choose(n, k):
    k = np.clip(k, 0, n)
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


def times(count, log_p):
    """Return count * log p with 0 * -inf = 0."""
    return np.where(count == 0, 0.0, count * np.where(count == 0, 0.0, log_p))


def log_sigmoid(t):
    return -np.logaddexp(0, -np.asarray(t, dtype=float))


def binomial(x, n, logit):
    x = np.asarray(x)
    log_p = log_choose(n, x) + times(x, log_sigmoid(logit)) + times(n - x, log_sigmoid(-np.asarray(logit, dtype=float)))
    return within(x, (x >= 0) & (x <= n), log_p)


def negative_binomial(x, mu, alpha):
    """Mean mu, variance mu + mu**2 / alpha."""
    x = np.asarray(x)
    some = np.maximum(x, 0)
    log_p = gammaln(some + alpha) - gammaln(alpha) - gammaln(some + 1.0)
    log_p = log_p + xlogy(some, mu) - some * np.log(mu + alpha) - xlog1py(alpha, mu / alpha)
    return within(x, x >= 0, log_p)


def negative_binomial_by_p(x, n, logit):
    """Failures before the n-th success."""
    x = np.asarray(x)
    some = np.maximum(x, 0)
    log_p = gammaln(some + n) - gammaln(n) - gammaln(some + 1.0)
    log_p = log_p + times(n, log_sigmoid(logit)) + times(some, log_sigmoid(-np.asarray(logit, dtype=float)))
    return within(x, x >= 0, log_p)


def geometric(x, logit):
    """Trials up to the first success, at least 1."""
    x = np.asarray(x)
    return within(x, x >= 1, log_sigmoid(logit) + times(x - 1, log_sigmoid(-np.asarray(logit, dtype=float))))


def uniform(x, low, high):
    x = np.asarray(x)
    return within(x, (x >= low) & (x <= high), -np.log(np.asarray(high) - low + 1.0) + 0.0 * x)


def categorical(x, p):
    """One row of probabilities per cell, or one for all cells."""
    p = np.asarray(p)
    x = np.asarray(x)
    inside = (x >= 0) & (x < p.shape[-1])
    chosen = np.clip(x, 0, p.shape[-1] - 1)
    rows = np.broadcast_to(p, (*x.shape, p.shape[-1]))
    with np.errstate(divide="ignore"):
        return within(x, inside, np.log(np.take_along_axis(rows, chosen[..., None], axis=-1)[..., 0]))


def beta_binomial(x, n, alpha, beta):
    x = np.asarray(x)
    some = np.clip(x, 0, n)
    log_p = log_choose(n, some) + betaln(some + alpha, n - some + beta) - betaln(alpha, beta)
    return within(x, (x >= 0) & (x <= n), log_p)


def hypergeometric(x, population, good, drawn):
    x = np.asarray(x)
    inside = (x >= max(0, drawn - (population - good))) & (x <= min(good, drawn))
    log_p = log_choose(good, x) + log_choose(population - good, drawn - x) - log_choose(population, drawn)
    return within(x, inside, log_p)


def discrete_weibull(x, q, beta):
    x = np.asarray(x)
    some = np.maximum(x, 0).astype(float)
    return within(x, x >= 0, np.log(q ** (some**beta) - q ** ((some + 1) ** beta)))


def mixture(logits_of_weights, *log_ps):
    """Sum of w_k p_k; weights by their logs up to a constant."""
    log_w = np.asarray(logits_of_weights, dtype=float)
    log_w = log_w - logsumexp(log_w)
    return logsumexp(np.stack([w + log_p for w, log_p in zip(log_w, log_ps, strict=True)]), axis=0)


def zero_inflated(x, logit_psi, log_p):
    """With probability psi from p, else 0."""
    at_zero = np.where(np.asarray(x) == 0, 0.0, -np.inf)
    return mixture([0.0, logit_psi], at_zero, log_p)


def truncated(x, law, lower, upper):
    """`law` given that the count is from lower to upper, inclusive."""
    x = np.asarray(x)
    mass = logsumexp(np.stack([law(np.full_like(x, k)) for k in range(lower, upper + 1)]), axis=0)
    return within(x, (x >= lower) & (x <= upper), law(x) - mass)


def positive(x, law):
    """`law` given that the count is not 0."""
    x = np.asarray(x)
    return within(x, x >= 1, law(x) - np.log(-np.expm1(law(np.zeros_like(x)))))


def censored(x, law, lower, upper, reach):
    """`law` with counts below `lower` set to it and counts above `upper` set to it; counts above `reach` omitted."""
    x = np.asarray(x)
    above = logsumexp(np.stack([law(np.full_like(x, k)) for k in range(upper, reach + 1)]), axis=0)
    below = logsumexp(np.stack([law(np.full_like(x, k)) for k in range(lower + 1)]), axis=0)
    log_p = np.where(x == upper, above, np.where(x == lower, below, law(x)))
    return within(x, (x >= lower) & (x <= upper), log_p)


def hurdle(x, logit_psi, law):
    """0 with probability 1 - psi, else `law` given that it is not 0."""
    x = np.asarray(x)
    return np.where(x == 0, log_sigmoid(-np.asarray(logit_psi)), log_sigmoid(logit_psi) + positive(x, law))


def multinomial(rows, p):
    """Rows of counts over the last dimension, given their sums."""
    rows = np.asarray(rows)
    some = np.maximum(rows, 0)
    log_p = gammaln(rows.sum(axis=-1) + 1.0) - gammaln(some + 1.0).sum(axis=-1) + xlogy(some, p).sum(axis=-1)
    return np.where((rows >= 0).all(axis=-1), log_p, -np.inf)


def dirichlet_multinomial(rows, alpha):
    rows = np.asarray(rows)
    some, n, total = np.maximum(rows, 0), rows.sum(axis=-1), np.sum(alpha, axis=-1)
    log_p = gammaln(n + 1.0) + gammaln(total) - gammaln(n + total)
    log_p = log_p + (gammaln(some + alpha) - gammaln(alpha) - gammaln(some + 1.0)).sum(axis=-1)
    return np.where((rows >= 0).all(axis=-1), log_p, -np.inf)


# --- functions of the distributions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Listed:
    """Return tables that satisfy everything public, and the log density of the release given each."""

    tables: np.ndarray
    log_noise: np.ndarray

    def log_marginal(self, log_joint):
        """Return the log of the sum over tables of exp(log_joint + log_noise)."""
        return logsumexp(log_joint + self.log_noise)

    def probabilities(self, log_joint):
        log_p = log_joint + self.log_noise
        return np.exp(log_p - logsumexp(log_p))


def alike(found, expected, precision=1e-8):
    """Return whether log densities agree: differences between tables to `precision`, a common constant to 1e-5.

    (PyMC stores small integers among its own arguments in single precision.)
    """
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    some = np.isfinite(expected)
    if not np.array_equal(some, np.isfinite(found)) or not (found[~some] == -np.inf).all():
        return False
    gap = found[some] - expected[some]
    size = max(1.0, float(np.abs(expected[some]).max(initial=0.0)))
    return bool(gap.size == 0 or (np.ptp(gap) <= precision * size and np.abs(gap).max() <= 1e-5 * size))


def slope(function, at, step=2e-3):
    """Gradient by central differences of sixth order."""
    at = np.asarray(at, dtype=float)
    weights = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
    gradient = np.empty_like(at)
    for i, unit in enumerate(np.eye(at.size)):
        ahead = [w * (function(at + k * step * unit) - function(at - k * step * unit)) for k, w in weights.items()]
        gradient[i] = sum(ahead) / step
    return gradient
