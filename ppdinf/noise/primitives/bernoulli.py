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

ROUNDING = 2.0**-48
"""Bound on the relative error of NumPy's exp (a few units in the last place) and of the following operations."""


def draw_bernoulli(
    log_probability: NDArray[np.float64],
    error: NDArray[np.float64] | float,
    enclose: Callable[[int], arb],
    stream: BitStream,
) -> NDArray[np.bool_]:
    """Draw independent Bernoulli variables exactly."""
    words = stream(len(log_probability))
    u = words * 2.0**-64
    p = np.exp(np.minimum(log_probability, 0.0))
    margin = (p + u) * (2.0 * np.asarray(error) + ROUNDING) + 2.0**-60
    events: NDArray[np.bool_] = u < p - margin
    for i in np.flatnonzero(~events & (u <= p + margin)).tolist():
        events[i] = decide_bernoulli(words[i], partial(enclose, i), stream)
    return events


def decide_bernoulli(word: np.uint64, probability: Callable[[], arb], stream: BitStream) -> bool:
    """Return, by ball arithmetic, whether a uniform u with the first digits `word` is below a probability."""
    return compare_enclosures(word, 64, stream, lambda longer, bits: is_below(longer, probability, bits))
