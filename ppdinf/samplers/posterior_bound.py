"""Proved upper bounds on the likelihood of a noisy table, for rejection sampling.

L(theta) = sum over tables x on the fiber of p(x | theta) q(y - x), where q is the law of the noise. Two bounds hold for
every theta, here for q without its normalizer:

- *mode*: the p(x | theta) of a fiber sum to at most 1, so L is at most the largest q(y - x). For noise whose
  distribution does not depend on the table this is q(0), or less where public bounds exclude y. This is the
  constant of Seeman, Reimherr and Slavkovic (Algorithm 1): the largest p(y | x, Z) over x.
- *saturated model*: for Poisson cells, L is at most its maximum over all vectors r of cell rates. If log q is concave
  in every cell, log L(r) is concave in r: given the sum of every group, the sum over x of
  prod_i q_i(y_i - x_i) r_i^{x_i} / x_i! is a product of Lorentzian polynomials (Braenden and Huh, Theorem 3.14),
  which are log-concave where all r_i > 0. A tangent therefore bounds log L everywhere. The best rates of a group sum
  to its total s. At rates r with the same sum,

      log L <= log L(r) + sum over groups of s (max_i E[x_i | y, Z, r] / r_i - 1),

  where the excess vanishes at the maximum. Expectation maximization converges to the maximum (r_i becomes
  E[x_i | y, Z, r]). The best rate of a cell in no sum lies between 0 and the upper end of its window.

References
----------
P. Braenden and J. Huh, "Lorentzian polynomials", Annals of Mathematics 192 (2020), Theorems 2.30 and 3.14.
J. Seeman, M. Reimherr and A. Slavkovic, "Formal privacy for partially private data", Algorithm 1.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from scipy.special import gammaln

from ppdinf._internal.pymc_compat import PoissonRV
from ppdinf.distributions.model_graph.dependents import ConfidentialTable, tables_of
from ppdinf.fiber.sums_given_totals import totals

ROUNDING = 1e-9  # relative error of the coefficients (`totals.log_coefficient`)
CLOSE = 0.01  # excess over the maximum at which the iteration stops: the acceptance decreases by 1 %
STEPS = 500  # of expectation maximization
NO_RATE = 1e-12  # replaces a rate of 0


def log_bound(model: pm.Model) -> float:
    """Bound the log likelihood of a model, data and potentials together, over all parameters."""
    tables = tables_of(model)
    if model.potentials or len(tables) < len(model.observed_RVs):
        return np.inf
    return sum(_table_bound(table) for table in tables)


def _table_bound(table: ConfidentialTable) -> float:
    law, given = table.law, table.variable.owner.inputs
    constant = law.observed.log_constant or 0.0
    auxiliary = law.observed.likelihood.auxiliary
    if auxiliary is not None and not auxiliary.is_bounded:  # weights without the prior of the projected component
        return np.inf
    # scale mixtures also have their mode at 0, with weight 1
    mode = float(law.fiber.log_noise.max(axis=1).sum())
    (cells, log_sums), form = law.base(given), law.exponential_family(given)
    if form is None or not isinstance(cells.owner.op, PoissonRV) or not isinstance(log_sums, float):
        return mode - constant
    (block, total), informed = law.groups, ~law.fiber.uninformed
    saturated = saturated_bound(form[2][informed], law.fiber.lower[informed], total, block[informed])
    return min(mode, saturated) - constant


def saturated_bound(
    log_h: NDArray[np.float64], lower: NDArray[np.int64], total: NDArray[np.int64], block: NDArray[np.int64]
) -> float:
    """Bound the log likelihood of Poisson cells by its maximum over one rate per cell."""
    counts = lower[:, None] + np.arange(log_h.shape[1])
    with np.errstate(invalid="ignore"):
        log_noise = np.where(np.isfinite(log_h), log_h + gammaln(counts + 1), -np.inf)
    if not all(_is_concave(row) for row in log_noise):
        return np.inf
    place = {"lo": lower, "total": total, "block": block}
    free, grouped = block < 0, block >= 0
    last = counts[:, -1]
    rates = np.maximum(np.where(log_noise == log_noise.max(axis=1, keepdims=True), counts, 0).max(axis=1), 0.5)
    best = np.inf
    for _ in range(STEPS):
        sums = np.bincount(block[grouped], rates[grouped], total.size)
        rates = np.maximum(rates * np.append(total / sums, 1.0)[block], NO_RATE)
        log_l = float(totals.log_coefficient(log_h, eta=np.log(rates), **place).sum() - rates.sum())
        means = (totals.marginals(log_h, eta=np.log(rates), **place) * counts).sum(axis=1)
        slope = means / rates - 1
        steepest = np.full(total.size, -np.inf)
        np.maximum.at(steepest, block[grouped], slope[grouped])
        excess = total @ steepest + np.maximum(slope * (last - rates), -slope * rates)[free].sum()
        best = min(best, log_l + excess + ROUNDING * (1 + abs(log_l)))
        if excess < CLOSE:
            break
        rates = np.maximum(means, NO_RATE)
    return best


def _is_concave(row: NDArray[np.float64]) -> bool:
    inside = np.flatnonzero(row > -np.inf)
    without_gaps = inside.size == 0 or np.ptp(inside) + 1 == inside.size
    return bool(without_gaps and (np.diff(row[inside], 2) <= 1e-9 * (1 + np.abs(row[inside]).max(initial=0))).all())
