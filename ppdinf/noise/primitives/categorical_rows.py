"""Exact draws from the rows of a stochastic matrix; most are decided in floating point.

A draw inverts the distribution function of its row at a uniform real number u. The stream supplies u in words of 64
bits. Floating point determines the distribution function up to `MARGIN`. If a word is further than this from all of its
values, a comparison decides the draw. The other words, fewer than one in 10^7, are compared in ball arithmetic and
extended by further words as needed. The draws follow the stated real numbers exactly, with each row divided by its
exact sum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from ppdinf.noise.primitives.enclosed_comparison import compare_enclosures, integer_bounds, precision
from ppdinf.noise.primitives.stream import BitStream

MARGIN = 2.0**-38
"""Bound on the error of a sum of up to 2^15 probabilities and of a word as a float."""

type Row = Callable[[int], list[arb]]


def draw_rows(
    matrix: NDArray[np.float64], rows: NDArray[np.int64], enclose: Row, stream: BitStream
) -> NDArray[np.int64]:
    """Draw a column for every requested row exactly."""
    words = stream(rows.size)
    drawn = np.empty(rows.size, dtype=np.int64)
    order = np.argsort(rows, kind="stable")
    present, starts = np.unique(rows[order], return_index=True)
    for i, places in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        levels = np.cumsum(matrix[i])
        levels /= levels[-1]
        u = words[places] * 2.0**-64
        found = np.searchsorted(levels, u, side="right")
        near = (np.searchsorted(levels[:-1], u - MARGIN) != np.searchsorted(levels[:-1], u + MARGIN)).nonzero()[0]
        for k in near.tolist():
            found[k] = compare_enclosures(words[places[k]], 64, stream, partial(_find, i=i, enclose=enclose))
        drawn[places] = found
    return drawn


def _find(word: int, bits: int, *, i: int, enclose: Row) -> int | None:
    """Return the column of every u with these first bits, or None if it is not unique."""
    with precision(bits):
        assert ctx.prec >= bits
        sums = list(accumulate(enclose(i)))
        for j, level in enumerate(sums[:-1]):
            low, high = integer_bounds(level / sums[-1] * 2**bits)
            if word < low:
                return j
            if word < high:
                return None
    return len(sums) - 1
