"""Log probabilities of noise and counts by formulas, none from the package; those near 0 and 1 by their logits."""

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


def log_noise(law, y, s):
    """Return the log weight of the published number y for every sum s; `law` is a name with parameters."""
    kind, *p = law
    k = np.abs(y - s).astype(float)
    if kind == "geometric":
        return -p[0] * k
    if kind == "gaussian":
        return -(k**2) / (2 * p[0])
    if kind == "staircase":
        return staircase(*p)(k[..., None])
    if kind == "rounding":
        return np.log(np.where((k < p[0]) & (y % p[0] == 0), 1 - k / p[0], 0.0))
    if kind == "matrix":
        inside = (s >= 0) & (s < len(p[0]))
        return np.log(np.where(inside, p[0][np.where(inside, s, 0), y], 0.0))
    raise ValueError(kind)


def log_below(law, threshold, s):
    """Return the log probability that a noisy sum is below a threshold."""
    k = np.arange(-4000, 4001)
    weight = np.exp(log_noise(law, 0, k))
    tail = np.concatenate([[0.0], np.cumsum(weight / weight.sum())])
    return np.log(tail[np.clip(threshold - s + 4000, 0, k.size)])


# --- counts -----------------------------------------------------------------------------------------------------------


def poisson(x, mu):
    x = np.asarray(x)
    return np.where(x >= 0, xlogy(x, mu) - mu - gammaln(np.maximum(x, 0) + 1.0), -np.inf)


def log_choose(n, k):
    k = np.clip(k, 0, n)
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


def times(count, log_p):
    """Return count * log p with 0 * -inf = 0."""
    return np.where(count == 0, 0.0, count * np.where(count == 0, 0.0, log_p))


def log_sigmoid(t):
    return -np.logaddexp(0, -np.asarray(t, dtype=float))


def logit(p):
    return np.log(p) - np.log1p(-np.asarray(p))


def binomial(x, n, logit):
    x = np.asarray(x)
    log_p = log_choose(n, x) + times(x, log_sigmoid(logit)) + times(n - x, log_sigmoid(-np.asarray(logit, dtype=float)))
    return np.where((x >= 0) & (x <= n), log_p, -np.inf)


def negative_binomial(x, mu, alpha):
    """Mean mu, variance mu + mu**2 / alpha."""
    k = np.maximum(x, 0)
    log_p = gammaln(k + alpha) - gammaln(alpha) - gammaln(k + 1.0)
    log_p = log_p + xlogy(k, mu) - k * np.log(mu + alpha) - xlog1py(alpha, mu / alpha)
    return np.where(np.asarray(x) >= 0, log_p, -np.inf)


def negative_binomial_by_p(x, n, logit):
    """Failures before the n-th success."""
    k = np.maximum(x, 0)
    log_p = gammaln(k + n) - gammaln(n) - gammaln(k + 1.0)
    log_p = log_p + times(n, log_sigmoid(logit)) + times(k, log_sigmoid(-np.asarray(logit, dtype=float)))
    return np.where(np.asarray(x) >= 0, log_p, -np.inf)


def geometric(x, logit):
    """Trials up to the first success, at least 1."""
    x = np.asarray(x)
    log_p = log_sigmoid(logit) + times(x - 1, log_sigmoid(-np.asarray(logit, dtype=float)))
    return np.where(x >= 1, log_p, -np.inf)


def discrete_uniform(x, low, high):
    x = np.asarray(x)
    return np.where((x >= low) & (x <= high), -np.log(np.asarray(high) - low + 1.0) + 0.0 * x, -np.inf)


def categorical(x, p):
    """One row of probabilities per cell, or one for all cells."""
    p, x = np.asarray(p), np.asarray(x)
    inside = (x >= 0) & (x < p.shape[-1])
    rows = np.broadcast_to(p, (*x.shape, p.shape[-1]))
    with np.errstate(divide="ignore"):
        log_p = np.log(np.take_along_axis(rows, np.clip(x, 0, p.shape[-1] - 1)[..., None], axis=-1)[..., 0])
    return np.where(inside, log_p, -np.inf)


def beta_binomial(x, n, alpha, beta):
    k = np.clip(x, 0, n)
    log_p = log_choose(n, k) + betaln(k + alpha, n - k + beta) - betaln(alpha, beta)
    return np.where(np.asarray(x) == k, log_p, -np.inf)


def hypergeometric(x, population, good, drawn):
    x = np.asarray(x)
    inside = (x >= max(0, drawn - (population - good))) & (x <= min(good, drawn))
    log_p = log_choose(good, x) + log_choose(population - good, drawn - x) - log_choose(population, drawn)
    return np.where(inside, log_p, -np.inf)


def discrete_weibull(x, q, beta):
    k = np.maximum(x, 0).astype(float)
    return np.where(np.asarray(x) >= 0, np.log(q ** (k**beta) - q ** ((k + 1) ** beta)), -np.inf)


def mixture(log_weights, *log_ps):
    """Sum of w_k p_k; weights by their logs up to a constant."""
    log_w = np.asarray(log_weights, dtype=float)
    log_w = log_w - logsumexp(log_w)
    return logsumexp(np.stack([w + log_p for w, log_p in zip(log_w, log_ps, strict=True)]), axis=0)


def zero_inflated(x, logit_psi, log_p):
    """With probability psi from p, else 0."""
    return mixture([0.0, logit_psi], np.where(np.asarray(x) == 0, 0.0, -np.inf), log_p)


def truncated(x, law, lower, upper):
    """`law` given that the count is from lower to upper, inclusive."""
    x = np.asarray(x)
    mass = logsumexp(np.stack([law(np.full_like(x, k)) for k in range(lower, upper + 1)]), axis=0)
    return np.where((x >= lower) & (x <= upper), law(x) - mass, -np.inf)


def positive(x, law):
    """`law` given that the count is not 0."""
    x = np.asarray(x)
    return np.where(x >= 1, law(x) - np.log(-np.expm1(law(np.zeros_like(x)))), -np.inf)


def censored(x, law, lower, upper, reach):
    """`law` with counts below `lower` set to it and counts above `upper` set to it; counts above `reach` omitted."""
    x = np.asarray(x)
    above = logsumexp(np.stack([law(np.full_like(x, k)) for k in range(upper, reach + 1)]), axis=0)
    below = logsumexp(np.stack([law(np.full_like(x, k)) for k in range(lower + 1)]), axis=0)
    log_p = np.where(x == upper, above, np.where(x == lower, below, law(x)))
    return np.where((x >= lower) & (x <= upper), log_p, -np.inf)


def hurdle(x, logit_psi, law):
    """0 with probability 1 - psi, else `law` given that it is not 0."""
    x = np.asarray(x)
    return np.where(x == 0, log_sigmoid(-np.asarray(logit_psi)), log_sigmoid(logit_psi) + positive(x, law))


def multinomial(rows, p, n=None):
    """Rows of counts over the last dimension, given their sums, or with the sum n."""
    rows = np.asarray(rows)
    total = rows.sum(axis=-1)
    k = np.maximum(rows, 0)
    log_p = gammaln(total + 1.0) - gammaln(k + 1.0).sum(axis=-1) + xlogy(k, p).sum(axis=-1)
    return np.where((rows >= 0).all(axis=-1) & (total == (total if n is None else n)), log_p, -np.inf)


def dirichlet_multinomial(rows, alpha, n=None):
    rows = np.asarray(rows)
    total, concentration = rows.sum(axis=-1), np.sum(alpha, axis=-1)
    k = np.maximum(rows, 0)
    log_p = gammaln(total + 1.0) + gammaln(concentration) - gammaln(total + concentration)
    log_p = log_p + (gammaln(k + alpha) - gammaln(alpha) - gammaln(k + 1.0)).sum(axis=-1)
    return np.where((rows >= 0).all(axis=-1) & (total == (total if n is None else n)), log_p, -np.inf)


def normal(value, mu, sigma):
    return -((np.asarray(value) - mu) ** 2) / (2 * sigma**2) - np.log(sigma) - 0.5 * np.log(2 * np.pi)


# --- comparisons ------------------------------------------------------------------------------------------------------


def alike(found, expected, precision=1e-8):
    """Return whether log densities agree: differences between tables to `precision`, a common constant to 1e-5.

    (PyMC stores small integers among its own arguments in single precision.)
    """
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(found)) or not (found[~finite] == -np.inf).all():
        return False
    gap = found[finite] - expected[finite]
    size = max(1.0, float(np.abs(expected[finite]).max(initial=0.0)))
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
