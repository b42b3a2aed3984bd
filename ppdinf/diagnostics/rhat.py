"""Limit of the largest of many R-hats, and its display.

The R-hat of one quantity should not exceed 1.01 (Vehtari, Gelman, Simpson, Carpenter, Burkner, Bayesian Analysis 16,
2021). R-hat is an estimate. Over the 2 m halves of m chains that mix, ``R-hat**2 - 1`` is a chi-square variable with
2 m - 1 degrees of freedom, divided by these degrees and by the effective draws of a half. The limit is set so that
95 % of posteriors pass it for one quantity. The largest of 1,000 R-hats would then exceed it nearly always. The limit
for many quantities is therefore the joint 95 % quantile (Bonferroni).

Share of simulated posteriors above the limit, by number of quantities and effective draws of each (four mixing
autoregressive chains of 1,000 draws):

===============  ====  ====  =====  ======
effective draws  1     10    100    1,000
===============  ====  ====  =====  ======
800              3 %   3 %   0 %    0 %
600              12 %  25 %  47 %   77 %
400              36 %  79 %  100 %  100 %
===============  ====  ====  =====  ======

Below about 800 effective draws, an R-hat above its limit therefore indicates too few effective draws.

A higher limit detects fewer differences between chains. The limit on the effective sample size compensates, because
these differences also lower the effective sample size. For chains with different centers and a true R-hat of 1.02 (4 x
1,000 draws), 58 % exceed the limit of one quantity, 28 % the limit of 1,000, and 41 % the limit of 1,000 or have fewer
than 400 effective draws. With 4 x 4,000 draws the shares are 65 %, 27 % and 52 %. If one chain of four is shifted by
half a standard deviation, 88 % exceed the limit of 1,000, and 99 % exceed it or have few effective draws. If the chain
is shifted by one standard deviation, all do.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

RHAT = 1.01
LEVEL = 0.05
MIN_DRAWS = 4
"""Draws per chain required for R-hat and effective sample sizes."""
NO_OVERLAP = 100.0
"""R-hat above which chains do not overlap; its exact value is then uninformative."""


def limit(quantities: int, chains: int = 4) -> float:
    """Return the limit for the largest of many R-hats."""
    freedom = 2 * chains - 1
    grows = chi2.isf(LEVEL / max(quantities, 1), freedom) / chi2.isf(LEVEL, freedom)
    return float(np.sqrt(1 + (RHAT**2 - 1) * grows))


def format_rhat(value: float, threshold: float) -> str:
    """Format an R-hat with enough digits to compare it with the limit, and the limit if it is exceeded."""
    if np.isnan(value):
        return "not a number"
    if value > NO_OVERLAP:
        return f"above {NO_OVERLAP:.0f}"
    if value <= threshold:
        return f"{value:.3f}"
    digits = next((k for k in range(3, 16) if f"{value:.{k}f}" != f"{threshold:.{k}f}"), 16)
    return f"{value:.{digits}f} (above {threshold:.{digits}f})"
