r"""Log normalisers of exponential families as piecewise polynomials.

Pieces are the polynomials of :mod:`ppdinf.fiber.sums_given_totals.log_normaliser`. Their centres are on a grid of
natural parameters that depends only on the row of weights. The value of a polynomial therefore does not depend on
earlier evaluations. A unit of the grid is halved until all its pieces are accurate, or the row itself is used. Pieces
cover all natural parameters under which the cell varies within the row.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import Weights, upper_envelope, vectorised
from ppdinf.fiber.sums_given_totals.log_normaliser import BEND, BEYOND, CENTER, ORDER, REACH, WIDTH, fill, law_of

__all__ = [
    "BEND", "BEYOND", "CENTER", "NO_PIECES", "ORDER", "REACH", "WIDTH", "Pieces", "end_of", "middle_of", "pieces_of",
    "placed",
]  # fmt: skip

HALVINGS = 6  # largest number of pieces of a unit of eta
FAR = 64.0  # largest distance from 0 in eta
DEGENERATE = 1e-6  # smallest variance of a cell within the pieces
CUT_OFF = 12.0  # tolerance for probability at the ends of a row


class Pieces(NamedTuple):
    """Pieces of rows of weights: row r has the units ``first[r, 0] + 0, 1, ...``, ``first[r, 1]`` of them."""

    first: NDArray
    unit: NDArray
    table: NDArray


NO_PIECES = Pieces(np.zeros((0, 4), np.int64), np.zeros((0, 2), np.int64), np.zeros((0, WIDTH)))


@vectorised
def placed(pieces: Pieces, w: Weights, cells: NDArray, tilt: float, number: NDArray, by: NDArray) -> int:
    """Find the piece of every cell (-1 for none) and the distance from its centre; return the number without one."""
    first, unit, table, row, slope = pieces.first, pieces.unit, pieces.table, w.row, w.slope
    none = 0
    for i in range(cells.size):
        eta, r = slope[cells[i]] + tilt, row[cells[i]]
        scaled = eta * first[r, 3]
        whole = math.floor(scaled) if abs(scaled) < 1e15 else 2**62
        at, count = whole - first[r, 0], 0
        if 0 <= at < first[r, 1]:
            at += first[r, 2]
            count = unit[at, 1]
        if count > 0:
            number[i] = unit[at, 0] + int((scaled - whole) * count)
            by[i] = eta - table[number[i], CENTER]
        else:
            number[i] = -1
            none += 1
    return none


@vectorised
def _unit(w: Weights, row: int, start: float, width: float, count: int, table: NDArray) -> int:
    """Divide a unit into at least `count` accurate equal pieces in a table; return their number, or 0."""
    while count <= 2**HALVINGS:
        good = True
        for k in range(count):
            if not fill(w, row, start + (k + 0.5) * width / count, 0.5 * width / count, table[k]):
                good = False
                break
        if good:
            return count
        count *= 2
    return 0


@vectorised
def _grown(old: NDArray, size: int) -> NDArray:
    new = np.empty((max(size, 2 * old.shape[0]), old.shape[1]), old.dtype)
    for i in range(old.shape[0]):
        for j in range(old.shape[1]):
            new[i, j] = old[i, j]
    return new


@vectorised
def _is_contained(w: Weights, row: int, eta: float) -> tuple[bool, bool]:
    """Return whether the row has negligible weight at its lower and at its upper end, where it may be truncated."""
    entries, top = w.logw[row], -np.inf
    last = entries.size - 1
    for k in range(last + 1):
        top = max(top, entries[k] + eta * k)
    return not entries[0] > top - CUT_OFF, not entries[last] + eta * last > top - CUT_OFF


@vectorised
def _is_usable(w: Weights, row: int, eta: float) -> bool:
    below, above = _is_contained(w, row, eta)
    return below and above and law_of(w, row, eta)[3] > DEGENERATE


@vectorised
def middle_of(w: Weights, row: int) -> float:
    """Return a natural parameter under which the row contains the cell; nan if none exists or the cell is constant."""
    low, high = -FAR, FAR
    for _ in range(50):
        middle = 0.5 * (low + high)
        below, above = _is_contained(w, row, middle)
        if below and above:
            return middle if law_of(w, row, middle)[3] > DEGENERATE else np.nan
        if below == above:
            return np.nan
        low, high = (low, middle) if below else (middle, high)
    return np.nan


@vectorised
def end_of(w: Weights, row: int, middle: float, side: float) -> float:
    """Return the distance from the middle up to which a row contains a varying cell, to a relative accuracy of 1/8."""
    near, far = 0.0, 2.0**-10
    while far < FAR and _is_usable(w, row, middle + side * far):
        near, far = far, 2.0 * far
    for _ in range(3):
        between = 0.5 * (near + far)
        if _is_usable(w, row, middle + side * between):
            near = between
        else:
            far = between
    return middle + side * far


@vectorised
def pieces_of(logw: NDArray, wanted: NDArray, most: int) -> Pieces:
    """Divide the log normalisers of rows of log weights into pieces for all natural parameters with variation."""
    rows = logw.shape[0]
    w = Weights(logw, upper_envelope(logw), np.arange(rows), np.zeros(rows))
    first, unit, table = np.zeros((rows, 4), np.int64), np.zeros((16, 2), np.int64), np.zeros((64, WIDTH))
    units = pieces = 0
    room = 2**HALVINGS
    for r in range(rows):
        first[r, 2] = units
        middle = middle_of(w, r) if wanted[r] and pieces < most else np.nan
        if np.isnan(middle):
            continue
        left, right = end_of(w, r, middle, -1.0), end_of(w, r, middle, 1.0)
        halvings = 0
        while right - left < 8.0 / 2**halvings:
            halvings += 1
        width, count = 2.0**-halvings, 1
        low, high = int(np.floor(left / width)), int(np.floor(right / width))
        first[r, 0], first[r, 1], first[r, 3] = low, high - low + 1, 2**halvings
        for whole in range(low, high + 1):
            if units == unit.shape[0]:
                unit = _grown(unit, units + 1)
            if pieces + room > table.shape[0]:
                table = _grown(table, pieces + room)
            count = _unit(w, r, whole * width, width, max(count // 4, 1), table[pieces:])
            unit[units, 0], unit[units, 1] = pieces, count
            units, pieces = units + 1, pieces + count
    return Pieces(first, unit[:units].copy(), table[:pieces].copy())
