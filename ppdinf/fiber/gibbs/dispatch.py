"""The next table of a chain: an exact draw where the fiber has a decision diagram, else a walk along random lines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.fiber.gibbs.histogram_gibbs import walk_histogram
from ppdinf.fiber.gibbs.line_gibbs import _linear, _walk, walk_coupled
from ppdinf.fiber.gibbs.measured_sums import MeasuredSums, walk_measured
from ppdinf.fiber.gibbs.table_diagram import log_weight_of, table_diagram
from ppdinf.laws.noise_norm import NoiseNorm

__all__ = ["Directions", "advance", "directions"]

TOGETHER, SMALL = 3, 2**14  # directions whose cells are drawn jointly, and edges of their decision diagram
AGAIN = 0.5  # of the directions are drawn again, by how far they go

type Directions = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def _wide(index: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return indices of a sparse matrix, which SciPy keeps in 32 or 64 bits, in those that kernels are compiled for."""
    return index.astype(np.int64, copy=False)


def directions(
    fiber: Fiber, number: int, rng: np.random.Generator, variances: NDArray[np.float64] | None = None
) -> Directions:
    """Draw directions of a fiber, as `walk` takes them; few at a time cost more than walking them.

    Parameters
    ----------
    fiber : Fiber
    number : int
    rng : numpy.random.Generator
    variances : array of float64, shape (d,), optional
        Roughly, of the counts given all others. Half of the directions are then drawn again, in proportion to the
        variance along them: two large counties exchange persons with each other, where directions that take one of them
        and a small one let it move by a few.
    """
    v = fiber.moves.draw(number, rng=rng)
    if variances is not None and number:
        along = 1 / np.maximum(v.power(2).T @ (1 / variances), 1e-300)
        again = int(AGAIN * number)
        at = (np.arange(again) + rng.random(again)) / again * along.sum()  # one in each of as many equal parts
        chosen = np.minimum(np.searchsorted(np.cumsum(along), at), number - 1)
        v = v[:, rng.permutation(np.concatenate([np.arange(number - again), chosen]))]
    if fiber.system.limits.size:
        v = sp.vstack([v, fiber.system.B @ v], format="csc")
    return _wide(v.indptr), _wide(v.indices), v.data


def advance(
    fiber: Fiber,
    table: NDArray[np.int64],
    conditional: list[NDArray[np.float64]],
    along: Directions,
    rng: np.random.Generator,
    log_factor: Callable[[NDArray[np.int64]], float] | None = None,
    lower: NDArray[np.int64] | None = None,
    *,
    by_lines: bool = False,
) -> NDArray[np.int64]:
    """Return where a walk along the directions takes a table.

    Parameters
    ----------
    fiber : Fiber
    table : array of int64, shape (d,)
    conditional : list of arrays
        Log weights of all counts, shape (d, width), and where noise couples the cells ``G y``, shape (k,).
    along : tuple of arrays
        From `directions`.
    rng : numpy.random.Generator
        One uniform for each direction, and for each shift of noise around a cycle; with `log_factor` one more for each
        direction that moves the table.
    log_factor : callable, optional
        Further log density of a table, which looks at all of it: each step along a line is then a proposal, accepted
        by the ratio of the factors (Metropolis and Hastings), at the cost of evaluating it.
    lower : array of int64, shape (d,), optional
        Count that each row of log weights begins with: that of the window, unless weights are of pieces of the windows
        that hold the table (`ppdinf.fiber.gibbs.random_windows`). Joint draws take whole windows.
    by_lines : bool
        Whether to leave out exact draws where the fiber has a decision diagram.
    """
    if by_lines or (fiber.diagram is None and not fiber.may_be_cut):
        return _along_lines(fiber, table, conditional, along, rng, log_factor, lower)
    if fiber.diagram is not None and fiber.diagram.is_whole(fiber.coupling) and log_factor is None:
        return _drawn_jointly(fiber, table, conditional, None, rng, log_factor)
    # the joint draw first or last, at random: the kernel stays reversible, as walks along independent directions are
    block = None if fiber.diagram is not None else _some_cells(table.size, along, rng)
    first = rng.random() < 0.5
    for jointly in (first, not first):
        if jointly:
            table = _drawn_jointly(fiber, table, conditional, block, rng, log_factor)
        else:
            table = _along_lines(fiber, table, conditional, along, rng, log_factor, lower)
    return table


def _some_cells(d: int, along: Directions, rng: np.random.Generator) -> NDArray[np.int64]:
    """Choose the cells that a few random directions change."""
    starts, cells, _ = along
    chosen = rng.integers(starts.size - 1, size=TOGETHER)
    found = np.unique(np.concatenate([cells[starts[r] : starts[r + 1]] for r in chosen]))
    return found[found < d]


def _drawn_jointly(
    fiber: Fiber,
    table: NDArray[np.int64],
    conditional: list[NDArray[np.float64]],
    block: NDArray[np.int64] | None,
    rng: np.random.Generator,
    log_factor: Callable[[NDArray[np.int64]], float] | None,
) -> NDArray[np.int64]:
    """Draw all cells, or a block of cells given the others, by the weights that are products over cells and sums.

    Accept the draw by all other weights (Metropolis and Hastings).
    """
    coupling, measured, diagram = fiber.coupling, None, fiber.diagram
    if isinstance(coupling, MeasuredSums):
        measured = coupling.given(coupling.matrix @ table, rng)
    if block is not None and fiber.support is not None:
        sums = coupling if isinstance(coupling, MeasuredSums) else None
        diagram = table_diagram(fiber.system, fiber.support.around(table, block), sums, SMALL)
    proposed = None if diagram is None else diagram.draw(conditional[0], measured, rng)
    if diagram is None or proposed is None or (proposed == table).all():
        return table
    log_ratio = 0.0
    for x, sign in ((proposed, 1), (table, -1)):
        if isinstance(coupling, MeasuredSums) and measured is not None:
            others = np.setdiff1d(np.arange(coupling.y.size), diagram.sums)
            log_ratio += sign * log_weight_of(measured, others, (coupling.matrix @ x)[others]).sum()
        elif isinstance(coupling, NoiseNorm):
            log_ratio += sign * float(coupling.of(conditional[1] - coupling.matrix @ x))
        if log_factor is not None:
            log_ratio += sign * log_factor(x)
    return proposed if log_ratio >= 0 or np.log(rng.random()) < log_ratio else table


def _along_lines(
    fiber: Fiber,
    table: NDArray[np.int64],
    conditional: list[NDArray[np.float64]],
    along: Directions,
    rng: np.random.Generator,
    log_factor: Callable[[NDArray[np.int64]], float] | None,
    lower: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    """Walk a table along directions."""
    lower = fiber.lower if lower is None else lower
    x, log_weights = np.concatenate([table, fiber.slack(table)]), np.ascontiguousarray(conditional[0])
    if fiber.histogram is not None:
        noise = fiber.histogram
        changes = (_wide(noise.steps.indptr), _wide(noise.steps.indices), noise.steps.data)

        def move(x: NDArray[np.int64], along: Directions) -> None:
            left = noise.left(x[: table.size])
            walk_histogram(x, *along, lower, log_weights, changes, noise.rate, noise.shifted, left, rng)
    elif fiber.coupling is None:
        weights = _linear(log_weights)

        def move(x: NDArray[np.int64], along: Directions) -> None:
            _walk(x, *along, lower, weights, log_weights, rng)
    elif isinstance(fiber.coupling, MeasuredSums):
        measured = fiber.coupling
        arrays = measured.given(measured.matrix @ table, rng)

        def move(x: NDArray[np.int64], along: Directions) -> None:
            walk_measured(x, *along, lower, log_weights, arrays, measured.matrix @ x[: table.size], rng)
    else:
        image, order = fiber.coupling.matrix, float(fiber.coupling.order)
        columns = (_wide(image.indptr), _wide(image.indices), image.data)

        def move(x: NDArray[np.int64], along: Directions) -> None:
            w = conditional[1] - image @ x[: table.size]
            walk_coupled(x, *along, lower, log_weights, order, columns, w, rng)

    if log_factor is None:
        move(x, along)
    else:
        _propose(x, move, along, rng, lambda x: log_factor(x[: table.size]))
    return x[: table.size]


def _propose(
    x: NDArray[np.int64],
    move: Callable[[NDArray[np.int64], Directions], None],
    along: Directions,
    rng: np.random.Generator,
    log_factor: Callable[[NDArray[np.int64]], float],
) -> None:
    """Move a table in place, each direction a proposal."""
    starts, cells, steps = along
    here = log_factor(x)
    for r in range(starts.size - 1):
        proposed = x.copy()
        move(proposed, (starts[r : r + 2], cells, steps))
        if (proposed == x).all():
            continue
        there = log_factor(proposed)
        if np.log(rng.random()) < there - here:
            x[:], here = proposed, there
