r"""Log normalisers of natural families as piecewise polynomials.

Pieces are the polynomials of :mod:`ppdinf.fiber.sums_given_totals.log_normaliser`. Their centres lie on a grid of
natural parameters that depends on the row of weights alone: what a polynomial says never depends on which others were
asked. A unit of the grid is halved until all its pieces are good, or left to the row itself. Pieces go as far as the
row holds a cell that varies.
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

HALVINGS = 6  # of a unit of eta, at most
FAR = 64.0  # from 0 in eta
DEGENERATE = 1e-6  # variance of a cell that hardly varies, where its pieces end
CUT_OFF = 12.0  # so much is missing where an end of a row cuts a cell off


class Pieces(NamedTuple):
    """Pieces of rows of weights: row r has the units ``first[r, 0] + 0, 1, ...``, ``first[r, 1]`` of them.

    Units have the width ``1 / first[r, 3]`` in eta; the first is ``unit[first[r, 2]]``. A unit is the number of its
    first piece and how many equal ones it is cut into, 0 where the row itself has to be looked at. A piece is
    coefficients, then what bounds the rest (`BEYOND`), the frequencies up to which it serves (`REACH`), b so that
    ``log |phi(u)| <= -b min(u, reach)^2 / 2`` (`BEND`), and its centre.
    """

    first: NDArray
    unit: NDArray
    table: NDArray


NO_PIECES = Pieces(np.zeros((0, 4), np.int64), np.zeros((0, 2), np.int64), np.zeros((0, WIDTH)))


@vectorised
def placed(pieces: Pieces, w: Weights, cells: NDArray, tilt: float, number: NDArray, by: NDArray) -> int:
    """Find the piece of every cell, -1 where there is none, and its distance from the centre; how many have none."""
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
    """Cut a unit into equal pieces that are good, `count` or more, in the first rows of a table; 0 where none are."""
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
def _held(w: Weights, row: int, eta: float) -> tuple[bool, bool]:
    """Whether a row has no weight at its lower end, and none at its upper end, beyond which it may go on."""
    entries, top = w.logw[row], -np.inf
    last = entries.size - 1
    for k in range(last + 1):
        top = max(top, entries[k] + eta * k)
    return not entries[0] > top - CUT_OFF, not entries[last] + eta * last > top - CUT_OFF


@vectorised
def _serves(w: Weights, row: int, eta: float) -> bool:
    below, above = _held(w, row, eta)
    return below and above and law_of(w, row, eta)[3] > DEGENERATE


@vectorised
def middle_of(w: Weights, row: int) -> float:
    """Return a natural parameter under which the row holds the cell; nan where none does, or the cell cannot vary."""
    low, high = -FAR, FAR
    for _ in range(50):
        middle = 0.5 * (low + high)
        below, above = _held(w, row, middle)
        if below and above:
            return middle if law_of(w, row, middle)[3] > DEGENERATE else np.nan
        if below == above:
            return np.nan
        low, high = (low, middle) if below else (middle, high)
    return np.nan


@vectorised
def end_of(w: Weights, row: int, middle: float, side: float) -> float:
    """How far from the middle natural parameters go under which a row holds a cell that varies, to an eighth of it."""
    near, far = 0.0, 2.0**-10
    while far < FAR and _serves(w, row, middle + side * far):
        near, far = far, 2.0 * far
    for _ in range(3):
        between = 0.5 * (near + far)
        if _serves(w, row, middle + side * between):
            near = between
        else:
            far = between
    return middle + side * far


@vectorised
def pieces_of(logw: NDArray, wanted: NDArray, most: int) -> Pieces:
    """Cut the log normalisers of rows of log weights into pieces: all natural parameters under which a cell varies.

    Parameters
    ----------
    logw : array, shape (rows, width)
        Log weights at offsets 0, 1, ...; -inf where impossible.
    wanted : array of bool, shape (rows,)
        Rows to cut; others have no pieces.
    most : int
        Pieces to make; rows after that have none.

    Returns
    -------
    Pieces
    """
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
