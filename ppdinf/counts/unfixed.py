"""The mechanism of smallest error with a given epsilon, without a fixed point.

It relabels the output of the truncated geometric mechanism (Ghosh et al.). The columns of this mechanism are the
single-peaked scales. Each is assigned to the released count with the smallest cost, from left to right (Algorithm 2).

A. Ghosh, T. Roughgarden, M. Sundararajan, "Universally utility-maximizing privacy mechanisms", SICOMP 41, 2012.
N. Kohli, P. Laskowski, "Preserving target distributions with differentially private count mechanisms", Section 5.3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ppdinf._internal.rationals import Parameter
from ppdinf.counts.count_mechanism import CountMechanism
from ppdinf.counts.distribution import as_distribution
from ppdinf.counts.scales import as_epsilon, falling
from ppdinf.counts.truncated_geometric import truncated_geometric


def unfixed(z: ArrayLike, epsilon: Parameter, *, power: int = 1) -> CountMechanism:
    """Construct the mechanism of smallest error for counts with distribution z, without a fixed point (Algorithm 2).

    Parameters
    ----------
    z : array_like of float, shape (n,)
        Distribution of the true counts.
    epsilon : int, float, str or Fraction
    power : int
        Exponent of the error ``|released - count|^power``, at least 1.

    Returns
    -------
    CountMechanism

    See Also
    --------
    ppdinf.counts.optimal, ppdinf.counts.heuristic

    Notes
    -----
    The cost is O(n^2).

    Examples
    --------
    >>> from ppdinf.counts import unfixed
    >>> unfixed([0.8, 0.1, 0.1], epsilon=1).matrix.round(3)  # 2 is never released
    array([[0.901, 0.099, 0.   ],
           [0.731, 0.269, 0.   ],
           [0.269, 0.731, 0.   ]])
    """
    z = as_distribution(z)
    exact = as_epsilon(epsilon)
    n = z.size
    table = falling(np.arange(n), exact)
    columns, j, rows = np.empty(n, dtype=np.int64), 0, np.arange(n)
    for peak in range(n):
        mass = z * table[np.abs(rows - peak)]
        cost = float(mass @ np.abs(rows - j) ** power)
        while j < n - 1 and (ahead := float(mass @ np.abs(rows - j - 1) ** power)) <= cost:
            j, cost = j + 1, ahead
        columns[peak] = j
    scales = truncated_geometric(n, exact).scales
    assert scales is not None
    return CountMechanism.of_scales(columns, scales.peak, scales.rising, exact, name="unfixed optimum")
