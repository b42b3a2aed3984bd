"""Cells of exponential families as a few weighted real nodes (Gauss rules), with computed error bounds."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import Weights, upper_envelope, vectorised
from ppdinf.fiber.sums_given_totals.fourier import project, turn
from ppdinf.fiber.sums_given_totals.piecewise_polynomials import end_of, law_of, middle_of

ITERATIONS = 60  # of which two or three are needed for each eigenvalue
EPSILON = 2.0**-52


@vectorised
def gauss_rule(p: NDArray, first: float, node: NDArray, weight: NDArray) -> None:
    """Compute the Gauss rule of a measure on consecutive integers, with the number of nodes of the arrays."""
    most, n = node.size, p.size
    node[:], weight[:] = 0.0, 0.0
    if n <= most:
        for k in range(n):
            node[k], weight[k] = first + k, p[k]
        return
    mean = var = 0.0
    for k in range(n):
        mean += k * p[k]
    for k in range(n):
        var += (k - mean) ** 2 * p[k]
    scale = np.sqrt(var)
    at, basis = (np.arange(n) - mean) / scale, np.zeros((most, n))
    diagonal, below = np.zeros(most), np.zeros(most)
    for k in range(n):
        basis[0, k] = np.sqrt(p[k])
    # Lanczos recurrence: orthonormal polynomials times square roots of the probabilities
    for r in range(most):
        now = basis[r] * at
        diagonal[r] = np.sum(now * basis[r])
        now -= diagonal[r] * basis[r]
        if r > 0:
            now -= below[r - 1] * basis[r - 1]
        if r + 1 < most:
            below[r] = np.sqrt(np.sum(now * now))
            basis[r + 1] = now / below[r]
    weight[0] = 1.0
    _diagonalise(diagonal, below, weight)
    for j in range(most):
        node[j], weight[j] = first + mean + scale * diagonal[j], weight[j] ** 2


@vectorised
def _diagonalise(diagonal: NDArray, below: NDArray, top: NDArray) -> None:
    """Replace the diagonal of a symmetric tridiagonal matrix by its eigenvalues; rotate the row `top` with them."""
    n = diagonal.size
    for k in range(n):
        for _ in range(ITERATIONS):
            m = k
            while m < n - 1 and abs(below[m]) > EPSILON * (abs(diagonal[m]) + abs(diagonal[m + 1])):
                m += 1
            if m == k:
                break
            # shift by the eigenvalue of the leading 2 x 2 block that is nearer to its corner
            g = (diagonal[k + 1] - diagonal[k]) / (2.0 * below[k])
            g = diagonal[m] - diagonal[k] + below[k] / (g + np.copysign(np.hypot(g, 1.0), g))
            sine = cosine = 1.0
            moved = 0.0
            for i in range(m - 1, k - 1, -1):
                f, b = sine * below[i], cosine * below[i]
                below[i + 1] = np.hypot(f, g)
                if below[i + 1] == 0.0:  # the matrix has split
                    diagonal[i + 1] -= moved
                    below[m] = 0.0
                    break
                sine, cosine = f / below[i + 1], g / below[i + 1]
                g = diagonal[i + 1] - moved
                r = (diagonal[i] - g) * sine + 2.0 * cosine * b
                moved = sine * r
                diagonal[i + 1] = g + moved
                g = cosine * r - b
                top[i], top[i + 1] = cosine * top[i] - sine * top[i + 1], sine * top[i] + cosine * top[i + 1]
            else:
                diagonal[k] -= moved
                below[k], below[m] = g, 0.0


NODES = 20
HALF = 0.75  # half of the width of a piece, in units of 1 / scale
SLOPES = 7  # number of grid points of s
STEP, STEPS = 0.25, 16  # step of the grid of frequencies, in units of 1 / scale, and number of its points except 0
MARGIN = 1.0  # largest rate of Chernoff's inequality, in units of 1 / scale
LEVELS = 14  # grid points of log normalizers on each side of a centre
FAR = 0.2  # largest distance of means from their likely values, relative to the width of a row
HALVINGS = 6  # accepted error of a piece
LEAST = 1e-5  # smallest variance of a cell within the pieces
ENOUGH = 1e-13  # accepted error of a piece at u = 0
WIGGLE = 1e-9  # tolerance for increasing slopes of log weights
# positions of the entries of a piece; LEVEL and GRID are reciprocals of the steps of log normalizers and frequencies
CENTER, MIDDLE, LOG_Z, LEVEL, GRID, DECAY = 0, 1, 2, 3, 4, 5
ERROR = DECAY + STEPS + 1
LOG_NORMALISER = ERROR + STEPS + 1
NODE = LOG_NORMALISER + 2 * LEVELS + 1
WEIGHT = NODE + NODES
WIDTH = WEIGHT + NODES


class NodePieces(NamedTuple):
    """Pieces of rows of weights: row r has pieces ``first[r] : first[r + 1]``, each from its ``start`` to the next."""

    first: NDArray
    start: NDArray
    table: NDArray


NO_NODES = NodePieces(np.zeros(0, np.int64), np.zeros(0), np.zeros((0, WIDTH)))


@vectorised
def _modes(logw: NDArray) -> int:
    """Return an upper bound on the number of local maxima of ``logw[k] + eta k`` over all eta."""
    modes, falling, last, before = 0, False, -np.inf, np.inf
    for k in range(logw.size):
        if logw[k] > -np.inf:
            if before == -np.inf:
                return logw.size  # a gap: no useful bound
            now = logw[k] - last if last > -np.inf else np.inf
            if now < before:
                modes += not falling
                falling = True
            elif now > before + WIGGLE:
                falling = False
            before, last = now, logw[k]
        elif last > -np.inf:
            before = -np.inf
    return modes + (not falling)


@vectorised
def _log_normalisers(w: Weights, row: int, half: float, unit: float, out: NDArray) -> float:
    """Compute log normalizers of counts from the middle on a grid; return a bound on variances within ``half``."""
    step, largest = (half + MARGIN * unit) / LEVELS, 0.0
    out[LEVEL] = 1.0 / step
    for j in range(-LEVELS, LEVELS + 1):
        _, log_z, _, var = law_of(w, row, out[CENTER] + j * step)
        out[LOG_NORMALISER + LEVELS + j] = log_z - out[LOG_Z] - j * step * out[MIDDLE]
        if abs(j) * step < half + step:
            largest = max(largest, var)
    return 1.3 * largest


@vectorised
def _piece(w: Weights, row: int, center: float, half: float, modes: int, out: NDArray) -> bool:
    """Compute the piece about a centre; return whether it is accurate within ``half`` of the centre."""
    p, log_z, mean, var = law_of(w, row, center)
    if not (var > 0.0 and np.isfinite(log_z)):
        return False
    n, scale, middle, offset = p.size, max(math.sqrt(var), 1.0), math.floor(mean + 0.5), 0.0
    for k in range(n):
        offset += k * p[k]
    first = 1.0 * (round(mean - offset) - middle)  # integer of p[0], counted from the middle
    out[CENTER], out[MIDDLE], out[LOG_Z], out[GRID] = center, middle, log_z, scale / STEP
    variance = _log_normalisers(w, row, half, 1.0 / scale, out)
    node, weight = out[NODE : NODE + NODES], out[WEIGHT : WEIGHT + NODES]
    gauss_rule(p, first, node, weight)
    # laws at the grid points of s, by integers and by nodes
    tilted, by_nodes, delta, largest = np.empty((SLOPES, n)), np.empty((SLOPES, NODES)), 2.0 * half / (SLOPES - 1), 0.0
    for a in range(SLOPES):
        s, mass = (a - SLOPES // 2) * delta, 0.0
        for k in range(n):
            tilted[a, k] = p[k] * math.exp(s * (first + k))
            mass += tilted[a, k]
        for k in range(n):
            tilted[a, k] /= mass
            largest = max(largest, tilted[a, k])
        for j in range(NODES):
            by_nodes[a, j] = weight[j] * math.exp(s * node[j]) / mass
    # characteristic functions on the grid, and errors of the nodes
    unit, size, error, cosine, sine = STEP / scale, np.zeros(STEPS + 1), 0.0, np.ones(n), np.zeros(n)
    waves = np.empty(NODES, np.complex128)
    for g in range(STEPS + 1):
        u, length = min(g * unit, np.pi), 1
        while length < n:
            turn(cosine, sine, length, math.cos(u * length), math.sin(u * length))
            length *= 2
        turned = complex(math.cos(u * first), math.sin(u * first))
        for j in range(NODES):
            waves[j] = complex(math.cos(u * node[j]), math.sin(u * node[j]))
        for a in range(SLOPES):
            phi = project(tilted[a], cosine, sine) * turned
            size[g] = max(size[g], abs(phi))
            for j in range(NODES):
                phi -= by_nodes[a, j] * waves[j]
            error = max(error, abs(phi))
        out[ERROR + g] = 2.0 * error + 1e-16
    # bounds on characteristic functions from each frequency on
    bend = 0.125 * variance * (2.0 * delta**2 + unit**2)
    beyond = size[STEPS]
    if STEPS * unit < np.pi:
        beyond = modes * largest * math.exp(0.125 * variance * delta**2) / math.sin(0.5 * STEPS * unit)
    for g in range(STEPS, -1, -1):
        if g < STEPS:
            beyond = max(beyond, max(size[g], size[g + 1]) + bend)
        out[DECAY + g] = -math.log(min(max(beyond, 1e-8), 1.0))
    return out[ERROR] < ENOUGH


@vectorised
def node_pieces(logw: NDArray, wanted: NDArray, near: NDArray, most: int) -> NodePieces:
    """Divide the natural parameters of rows of log weights into pieces with nodes."""
    rows, pieces = logw.shape[0], 0
    w = Weights(logw, upper_envelope(logw), np.arange(rows), np.zeros(rows))
    first, start, table = np.zeros(rows + 1, np.int64), np.empty(64), np.zeros((64, WIDTH))
    for r in range(rows):
        middle = middle_of(w, r, LEAST) if wanted[r] and pieces < most else np.nan
        if not np.isnan(middle):
            eta, end, modes = end_of(w, r, middle, -1.0, LEAST), end_of(w, r, middle, 1.0), _modes(logw[r])
            while eta < end:
                if pieces + 2 > start.size:
                    old, begun = table, start
                    start, table = np.empty(2 * begun.size), np.zeros((2 * begun.size, WIDTH))
                    start[: begun.size], table[: begun.size] = begun, old
                _, _, mean, var = law_of(w, r, eta)
                half, off = HALF / max(math.sqrt(var), 3.0), (mean - near[r]) / (FAR * logw.shape[1])
                if off > 1.0:
                    break
                for _ in range(0 if off < -1.0 else HALVINGS):
                    if _piece(w, r, eta + half, half, modes, table[pieces]):
                        break
                    table[pieces] = 0.0
                    half *= 0.5
                start[pieces] = eta
                pieces += 1
                eta += 2.0 * half
            start[pieces] = eta
            pieces += 1
        first[r + 1] = pieces
    return NodePieces(first, start[:pieces].copy(), table[:pieces].copy())
