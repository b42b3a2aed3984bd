"""Walk a table along lines of its fiber, by exact full conditionals.

State: an integer table x with ``A x = a`` and ``B x >= b``. Kernel: take a direction v with ``A v = 0`` and draw t from
its exact law along the line ``x + t v`` (a heat bath: no tuning, no rejection). The law is a product of cell weights
``w_i(x_i)``: `walk`. Noise that couples the cells adds minus a norm of ``G (y - W x)`` (`ppdinf.laws.noise_norm`),
which changes by ``-t G W v`` along the line: `walk_coupled`.

A direction uses one uniform number, whatever the table: two tables that read the same ones are coupled by common
quantiles, and tables on the same line go to the same point.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit

__all__ = ["walk", "walk_coupled"]

type Ints = NDArray[np.int64]
type Floats = NDArray[np.float64]

SAFE = 1e-20  # a line whose linear weights sum to less than this is summed again in logarithms


@jit
def _range(x: Ints, cells: Ints, steps: Ints, lower: Ints, width: int) -> tuple[int, int]:
    """Smallest and largest t for which ``x + t v`` stays in every window and bound; 0 is one of them."""
    if cells.size == 0:  # no moves: everything public leaves one table
        return 0, 0
    least, most = -(2**62), 2**62
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        bounded = cell < lower.size  # the rest are slacks, which have no upper end
        down = x[cell] - lower[cell] if bounded else x[cell]
        up = lower[cell] + width - 1 - x[cell] if bounded else 2**62
        if step > 0:
            least, most = max(least, -(down // step)), min(most, up // step)
        else:
            least, most = max(least, -(up // -step)), min(most, down // -step)
    return least, most


@jit
def _add_log_weights(
    line: Floats, x: Ints, cells: Ints, steps: Ints, least: int, lower: Ints, log_weights: Floats
) -> None:
    """Add the log weights of the cells at every point of the line."""
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        if cell < lower.size:
            at = x[cell] - lower[cell] + least * step
            for k in range(line.size):
                line[k] += log_weights[cell, at + k * step]


@jit
def _chosen(line: Floats, mass: float, uniform: float) -> int:
    """Point of the line at a quantile of its law."""
    u, k = uniform * mass, 0
    while k < line.size - 1 and u >= line[k]:
        u -= line[k]
        k += 1
    return k


@jit
def _drawn(line: Floats, uniform: float) -> int:
    """Point of the line at a quantile of its law, which is given in logarithms; the line is overwritten."""
    line[:] = np.exp(line - line.max())
    return _chosen(line, line.sum(), uniform)


@jit
def _move(x: Ints, cells: Ints, steps: Ints, t: int) -> None:
    """Go t steps along a direction."""
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        x[cell] += t * step


@jit
def _changed(
    cells: Ints,
    steps: Ints,
    d: int,
    image: tuple[Ints, Ints, Floats | Ints],
    c: Floats | Ints,
    seen: NDArray[np.bool_],
    touched: Ints,
) -> int:
    """Add to c what a direction does to sums of the d cells, and list in ``touched`` those that it reaches: how many.

    ``image`` holds ``indptr, indices, data`` of the sums, by columns; ``seen`` is left true for those on the list.
    """
    first, rows, values = image
    n = 0
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        if cell < d:
            for j in range(first[cell], first[cell + 1]):
                if not seen[rows[j]]:
                    seen[rows[j]], touched[n] = True, rows[j]
                    n += 1
                c[rows[j]] += step * values[j]
    return n


@jit
def _step(
    x: Ints,
    cells: Ints,
    steps: Ints,
    lower: Ints,
    weights: Floats,
    log_weights: Floats,
    buffer: Floats,
    rng: np.random.Generator,
) -> None:
    """Move the table along one direction by t drawn from its exact full conditional, with one uniform always."""
    uniform = rng.random()
    least, most = _range(x, cells, steps, lower, weights.shape[1])
    if least == most:
        return
    line = buffer[: most - least + 1]
    line[:] = 1.0
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        if cell < lower.size:
            at = x[cell] - lower[cell] + least * step
            for k in range(line.size):
                line[k] *= weights[cell, at + k * step]
    mass = line.sum()
    if mass > SAFE:
        t = least + _chosen(line, mass, uniform)
    else:  # far out in the tails products of small numbers lose digits or vanish
        line[:] = 0.0
        _add_log_weights(line, x, cells, steps, least, lower, log_weights)
        t = least + _drawn(line, uniform)
    _move(x, cells, steps, t)


@jit
def _linear(log_weights: Floats) -> Floats:
    """Weights of all counts, those of each cell over the largest."""
    weights = np.empty_like(log_weights)
    for i in range(weights.shape[0]):
        most = log_weights[i].max()
        weights[i] = np.exp(log_weights[i] - (most if most > -np.inf else 0.0))
    return weights


@jit
def _walk(
    x: Ints,
    starts: Ints,
    cells: Ints,
    steps: Ints,
    lower: Ints,
    weights: Floats,
    log_weights: Floats,
    rng: np.random.Generator,
) -> None:
    """Walk with the weights of the counts at hand."""
    buffer = np.empty(weights.shape[1])
    for r in range(starts.size - 1):
        v = slice(starts[r], starts[r + 1])
        _step(x, cells[v], steps[v], lower, weights, log_weights, buffer, rng)


@jit
def walk(
    x: Ints,
    starts: Ints,
    cells: Ints,
    steps: Ints,
    lower: Ints,
    log_weights: Floats,
    rng: np.random.Generator,
) -> None:
    """Move the table in place along each direction in turn.

    Parameters
    ----------
    x : array of int64, shape (d + l,)
        A table of d cells on the fiber with finite weight, followed by its l slacks ``B x - b >= 0``.
    starts, cells, steps : arrays
        Direction r adds ``steps[k]`` to entry ``cells[k]`` of x for k in ``starts[r]:starts[r + 1]``.
    lower : array of int64, shape (d,)
        Count that column 0 of `log_weights` stands for.
    log_weights : array of float64, shape (d, width)
        Up to a constant per cell; ``-inf`` outside the support.
    rng : numpy.random.Generator

    Notes
    -----
    A direction over s cells costs s passes over at most `width` numbers.
    """
    _walk(x, starts, cells, steps, lower, _linear(log_weights), log_weights, rng)


@jit
def _subtract_norm(line: Floats, least: int, order: float, w: Floats, c: Floats, moved: Ints) -> None:
    """Add minus the norm of ``w - t c`` at every point t of the line, up to what is the same for all of them."""
    if order == 2:
        slope, curve = 0.0, 0.0
        for i in moved:
            slope += w[i] * c[i]
            curve += c[i] * c[i]
        for k in range(line.size):
            t = least + k
            line[k] += t * (slope - 0.5 * t * curve)
    elif order == 1:
        for i in moved:
            for k in range(line.size):
                line[k] -= abs(w[i] - (least + k) * c[i])
    else:
        rest = 0.0
        for i in range(w.size):
            if c[i] == 0.0:
                rest = max(rest, abs(w[i]))
        largest = np.full(line.size, rest)
        for i in moved:
            for k in range(line.size):
                largest[k] = max(largest[k], abs(w[i] - (least + k) * c[i]))
        line -= largest


@jit
def walk_coupled(
    x: Ints,
    starts: Ints,
    cells: Ints,
    steps: Ints,
    lower: Ints,
    log_weights: Floats,
    order: float,
    image: tuple[Ints, Ints, Floats],
    w: Floats,
    rng: np.random.Generator,
) -> None:
    """Move the table in place as `walk` does, with minus a norm of ``w`` added to the log weights.

    Parameters
    ----------
    x, starts, cells, steps, lower, log_weights, rng
        As for `walk`.
    order : {1, 2, inf}
        Of the norm; 2 stands for half its square.
    image : tuple of arrays
        ``indptr, indices, data`` of ``G W``, shape (k, d), by columns.
    w : array of float64, shape (k,)
        ``G (y - W x)``; kept true of x.

    Notes
    -----
    Beside `walk`, a direction costs one pass over the line for every row of ``G W`` that it moves, and for Gaussian
    noise one pass in all.
    """
    c, seen, touched = np.zeros(w.size), np.zeros(w.size, dtype=np.bool_), np.empty(w.size, dtype=np.int64)
    buffer = np.empty(log_weights.shape[1])
    for r in range(starts.size - 1):
        v, uniform = slice(starts[r], starts[r + 1]), rng.random()
        least, most = _range(x, cells[v], steps[v], lower, log_weights.shape[1])
        if least == most:
            continue
        line = buffer[: most - least + 1]
        line[:] = 0.0
        _add_log_weights(line, x, cells[v], steps[v], least, lower, log_weights)
        n = _changed(cells[v], steps[v], lower.size, image, c, seen, touched)
        _subtract_norm(line, least, order, w, c, touched[:n])
        t = least + _drawn(line, uniform)
        _move(x, cells[v], steps[v], t)
        for i in touched[:n]:
            w[i] -= t * c[i]
            c[i], seen[i] = 0.0, False
