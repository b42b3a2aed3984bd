"""Coins of many different probabilities, tossed exactly: in floating point where that settles them.

The coin of probability p shows heads when a uniform real u, read off the stream 64 bits at a time, falls
below p. Floating point knows log p up to a proved error, so all but about one word in 2^40 is settled by
one comparison with room to spare; the rest are settled in ball arithmetic (Arb), lengthened by further
words as long as needed. So rounding costs time, never a wrong decision.

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

from ppdinf.noise.primitives.enclosed_comparison import is_below, settle
from ppdinf.noise.primitives.stream import BitStream

__all__ = ["draw_bernoulli", "settle_coin"]

ROUNDING = 2.0**-48
"""More than the relative error of NumPy's exp (a few units in the last place) and of what follows it."""


def draw_bernoulli(
    log_probability: NDArray[np.float64],
    error: NDArray[np.float64] | float,
    enclose: Callable[[int], arb],
    stream: BitStream,
) -> NDArray[np.bool_]:
    """Toss independent coins, exactly.

    Parameters
    ----------
    log_probability : ndarray of float64, shape (n,)
        Logarithms of the probabilities, up to `error`.
    error : ndarray of float64, shape (n,), or float
        Bound on the absolute error of each logarithm, below 1/2.
    enclose : callable
        ``enclose(i)`` encloses the probability of coin i at Arb's working precision at the time of the call.
    stream : BitStream
        Source of words: one a coin, and hardly ever a second.

    Returns
    -------
    ndarray of bool, shape (n,)

    Notes
    -----
    About 10 ns a coin.

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
    heads: NDArray[np.bool_] = u < p - margin
    for i in np.flatnonzero(~heads & (u <= p + margin)).tolist():
        heads[i] = settle_coin(words[i], partial(enclose, i), stream)
    return heads


def settle_coin(word: np.uint64, probability: Callable[[], arb], stream: BitStream) -> bool:
    """Decide in ball arithmetic whether u, which begins with `word`, is below a probability.

    Examples
    --------
    >>> settle_coin(np.uint64(2**63), lambda: arb(2).sqrt() / 2, lambda n: np.zeros(n, np.uint64))
    True
    """
    return settle(word, 64, stream, lambda longer, bits: is_below(longer, probability, bits))
