"""Exact Bernoulli draws with different probabilities; most are decided in floating point.

A Bernoulli variable with probability p is true if a uniform real number u is below p. The stream supplies u in words of
64 bits. Floating point determines log p up to a proved error bound. One comparison with a margin therefore decides all
but about one word in 2^40. The other words are compared in ball arithmetic (Arb) and extended by further words as
needed. Rounding thus costs time but cannot change a result.

References
----------
F. Johansson, "Arb: efficient arbitrary-precision midpoint-radius interval arithmetic", IEEE
Transactions on Computers 66(8), 2017.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ppdinf.noise.primitives.enclosed_comparison import compare_enclosures, is_below
from ppdinf.noise.primitives.stream import BitStream

__all__ = ["decide_bernoulli", "draw_bernoulli"]

ROUNDING = 2.0**-48
"""Bound on the relative error of NumPy's exp (a few units in the last place) and of the following operations."""


def draw_bernoulli(
    log_probability: NDArray[np.float64],
    error: NDArray[np.float64] | float,
    enclose: Callable[[int], arb],
    stream: BitStream,
) -> NDArray[np.bool_]:
    """Draw independent Bernoulli variables exactly.

    Parameters
    ----------
    log_probability : ndarray of float64, shape (n,)
        Logarithms of the probabilities, up to `error`.
    error : ndarray of float64, shape (n,), or float
        Bound on the absolute error of each logarithm, below 1/2.
    enclose : callable
        ``enclose(i)`` encloses probability i at Arb's working precision at the time of the call.
    stream : BitStream
        Source of words: one per draw, and rarely a second.

    Returns
    -------
    ndarray of bool, shape (n,)

    Notes
    -----
    A draw takes about 10 ns.

    Examples
    --------
    >>> from ppdinf.noise.primitives.stream import seeded_stream
    >>> draw_bernoulli(np.log([0.5, 0.25, 1.0]), 1e-15, lambda i: arb([0.5, 0.25, 1.0][i]), seeded_stream(1))
    array([False, False,  True])
    """
    words = stream(len(log_probability))
    u = words * 2.0**-64
    p = np.exp(np.minimum(log_probability, 0.0))
    margin = (p + u) * (2.0 * np.asarray(error) + ROUNDING) + 2.0**-60
    events: NDArray[np.bool_] = u < p - margin
    for i in np.flatnonzero(~events & (u <= p + margin)).tolist():
        events[i] = decide_bernoulli(words[i], partial(enclose, i), stream)
    return events


def decide_bernoulli(word: np.uint64, probability: Callable[[], arb], stream: BitStream) -> bool:
    """Return, by ball arithmetic, whether a uniform u with the first digits `word` is below a probability.

    Examples
    --------
    >>> decide_bernoulli(np.uint64(2**63), lambda: arb(2).sqrt() / 2, lambda n: np.zeros(n, np.uint64))
    True
    """
    return compare_enclosures(word, 64, stream, lambda longer, bits: is_below(longer, probability, bits))
