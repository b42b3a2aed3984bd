"""How large an R-hat may be when it is the largest of many, and how to say it.

R-hat of one quantity should not exceed 1.01 (Vehtari, Gelman, Simpson, Carpenter, Burkner, Bayesian Analysis 16, 2021).
It is an estimate: over the 2 m halves of m chains that mix, ``R-hat**2 - 1`` is a chi-square variable with 2 m - 1
degrees of freedom over those and over the effective draws of a half. Chains that keep one quantity below 1.01 in
nineteen posteriors of twenty let the largest of a thousand pass it nearly always, so the limit has to rise with their
number: to the quantile that all of them together keep in nineteen of twenty (Bonferroni).

Simulated, four autoregressive chains of 1,000 draws that mix: with 800 effective draws of each quantity the rule finds
fault with 3 % of single quantities and 3 % of tens, and with no hundred or thousand; with 600 with 12 %, 25 %, 47 %
and 77 %; with 400 with 36 %, 79 % and all. So below some 800 effective draws an R-hat over its limit says that they are
few.

What a higher limit lets pass, a limit on the effective sample size holds, which counts what chains differ by. Of chains
around centres of their own that leave a true R-hat of 1.02, 58 % exceed the limit of one quantity, 28 % that of a
thousand, and 41 % either that or have fewer than 400 effective draws (4 x 4,000 draws: 65 %, 27 %, 52 %). One chain of
four that is off by half a standard deviation exceeds the limit of a thousand in 88 %, and either in 99 %; off by one,
always.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

__all__ = ["FEWEST", "RHAT", "limit", "shown"]

RHAT = 1.01
LEVEL = 0.05
FEWEST = 4
"""Draws of a chain from which R-hat and effective sample sizes are defined."""
APART = 100.0
"""Beyond this, chains do not overlap at all, and the number says nothing but that."""


def limit(quantities: int, chains: int = 4) -> float:
    """Largest R-hat that the worst of many quantities may have.

    Parameters
    ----------
    quantities : int
        How many R-hats the largest was chosen from.
    chains : int

    Returns
    -------
    float
        1.01 for one quantity.

    Examples
    --------
    >>> [round(limit(quantities), 4) for quantities in (1, 10, 1000)]
    [1.01, 1.0144, 1.0223]
    """
    freedom = 2 * chains - 1
    grows = chi2.isf(LEVEL / max(quantities, 1), freedom) / chi2.isf(LEVEL, freedom)
    return float(np.sqrt(1 + (RHAT**2 - 1) * grows))


def shown(value: float, most: float) -> str:
    """Write an R-hat with as many digits as tell on which side of a limit it is, and the limit where it is passed.

    Examples
    --------
    >>> for value in (1.0023, 1.01004, 1.3, 9.8e15, np.nan):
    ...     print(shown(value, 1.01))
    1.002
    1.01004 (over 1.01000)
    1.300 (over 1.010)
    over 100
    not a number
    """
    if np.isnan(value):
        return "not a number"
    if value > APART:
        return f"over {APART:.0f}"
    if value <= most:
        return f"{value:.3f}"
    digits = next((k for k in range(3, 16) if f"{value:.{k}f}" != f"{most:.{k}f}"), 16)
    return f"{value:.{digits}f} (over {most:.{digits}f})"
