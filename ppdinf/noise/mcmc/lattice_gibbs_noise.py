r"""Gibbs sampling of noise on a lattice with exact full conditionals.

Target: l1 Laplace, l2 Laplace or Gaussian noise z with A z = 0, and optionally z_i >= l_i. State: the integer vector z.
There are two kinds of moves, without tuning and rejection:

- *Line*: choose a direction b of a fixed list at random and draw t from its law along z + t b
  (`ppdinf.noise.mcmc.line_conditionals`). The list contains a basis of the lattice, so every z is reachable.
- *Pair of rows* (two-way tables with both margins public, l1 law, no bounds): choose two rows, or two columns, and draw
  both given all other cells. Let c_j be the sum of the pair in column j. The first row u has independent cells of mass
  exp(-epsilon (|u_j| + |c_j - u_j|)), constant between 0 and c_j and geometric outside, conditional on sum u = 0. The
  law is symmetric about c/2 and sum c = 0. Independent draws of all columns but one random column are therefore
  completed by this column and accepted with its mass relative to the largest mass. The number of attempts is about the
  square root of the number of columns.

A move is a function of the state and of one random word: chains that read the same words are coupled.

References
----------
P. Diaconis, B. Sturmfels, "Algebraic algorithms for sampling from conditional distributions", Annals of
Statistics 26(1), 1998: heat baths along moves. D. Lea, G. Steele, S. Flood, "Fast splittable pseudorandom
number generators", OOPSLA 2014: the mixing function of the counter.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ppdinf._internal.numba_jit import jit
from ppdinf.errors import InvariantError
from ppdinf.lattice.algebra.systems import MatrixLike
from ppdinf.lattice.moves.families import Cycles
from ppdinf.lattice.moves.moves import connected_moves
from ppdinf.lattice.structure.blocks import Structure, structure
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.laws.integer_noise.chain_kernels import L2
from ppdinf.noise.mcmc.line_conditionals import FAR, Ints, Room, line_quantile, work_space
from ppdinf.noise.mcmc.parallel_chains import in_threads

LISTED = 2**14  # number of directions of the list in addition to the basis


class GibbsMoves(NamedTuple):
    """Input of the compiled chain: the law, the directions and the bounds."""

    kind: int
    rates: NDArray[np.float64]
    d: int
    starts: Ints
    cells: Ints
    steps: Ints
    rows: Ints
    columns: Ints
    lower: Ints
    sweep: int


def gibbs_moves(
    A: MatrixLike | Structure, law: Law, *, lower: ArrayLike | None = None, rng: int | np.random.Generator = 0
) -> GibbsMoves:
    """Prepare the moves of `noise_gibbs`."""
    found = A if isinstance(A, Structure) else structure(A)
    d = found.blocks.size
    bounds = np.asarray([] if lower is None else lower, dtype=np.int64)
    if lower is not None and bounds.shape != (d,):
        raise InvariantError(f"lower must have one bound for each of the {d} cells, found shape {bounds.shape}")
    if (bounds > 0).any():
        raise InvariantError(
            "lower must be at most 0, because chains start from zero noise; "
            f" lower[{int(np.argmax(bounds > 0))}] is positive"
        )
    none = np.empty((0, 0), dtype=np.int64)
    moves = connected_moves(found, seconds=0)
    table = next((f.table for f, *_ in moves.families if isinstance(f, Cycles) and f.table.size == d), none)
    if not isinstance(law, DoubleGeometric) or bounds.size:
        table = none
    drawn = moves.draw(LISTED if found.lattice.rank else 0, rng=rng)
    listed = _distinct(sparse.hstack([found.lattice.basis, drawn], format="csc"))
    kind, scale = law.kernel_id
    return GibbsMoves(
        kind=kind,
        rates=np.full(d, scale),
        d=d,
        starts=listed.indptr.astype(np.int64),
        cells=listed.indices.astype(np.int64),
        steps=listed.data.astype(np.int64),
        rows=np.ascontiguousarray(table),
        columns=np.ascontiguousarray(table.T),
        lower=bounds,
        sweep=sum(table.shape) // 2 or found.lattice.rank,
    )


def noise_gibbs(
    moves: GibbsMoves,
    draws: int,
    *,
    burn: int = 0,
    chains: int = 1,
    rng: int | np.random.Generator,
    threads: int | None = None,
) -> Ints:
    """Run chains of noise from zero, one draw per sweep."""
    return np.stack(in_threads(lambda g: _run(moves, draws, burn, g), chains, rng=rng, threads=threads))


@jit
def _run(moves: GibbsMoves, draws: int, burn: int, rng: np.random.Generator) -> Ints:
    z, out = np.zeros(moves.d, np.int64), np.empty((draws, moves.d), np.int64)
    room = move_space(moves)
    for draw in range(-burn, draws):
        for _ in range(moves.sweep):
            step(z, moves, word(rng), room)
        if draw >= 0:
            out[draw] = z
    return out


@jit
def word(rng: np.random.Generator) -> np.uint64:
    """Draw a random word of 53 bits, which determines one move."""
    return np.uint64(rng.random() * 9007199254740992.0)


@jit
def _uniform(seed: np.uint64, i: int) -> float:
    """Return uniform number i of a random word: the mixing function of SplitMix64 on a counter."""
    x = (seed << np.uint64(11)) + np.uint64(i + 1) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(11)) * 1.1102230246251565e-16


@jit
def move_space(moves: GibbsMoves) -> Room:
    """Return scratch arrays for `step`."""
    longest = max(moves.rows.shape)
    for r in range(moves.starts.size - 1):
        longest = max(longest, moves.starts[r + 1] - moves.starts[r])
    return work_space(longest)


@jit
def step(z: Ints, moves: GibbsMoves, seed: np.uint64, room: Room) -> None:
    """Make one move of z in place, determined by the random word `seed`."""
    n_rows, n_columns = moves.rows.shape
    if n_rows:
        by_row = _uniform(seed, 0) * (n_rows // 2 + n_columns // 2) < n_rows // 2
        _pair(z, moves.rows if by_row else moves.columns, moves.rates[0], seed, room)
    elif moves.starts.size > 1:
        _line(z, moves, seed, room)


@jit
def _line(z: Ints, moves: GibbsMoves, seed: np.uint64, room: Room) -> None:
    r = int(_uniform(seed, 0) * (moves.starts.size - 1))
    cells = moves.cells[moves.starts[r] : moves.starts[r + 1]]
    steps = moves.steps[moves.starts[r] : moves.starts[r + 1]]
    least, most, squares = -FAR, FAR, 0
    if moves.lower.size:
        for i in range(cells.size):
            space = z[cells[i]] - moves.lower[cells[i]]
            if steps[i] > 0:
                least = max(least, -(space // steps[i]))
            else:
                most = min(most, space // -steps[i])
    if moves.kind == L2:
        for i in range(z.size):
            squares += z[i] * z[i]
    t = line_quantile(z, squares, cells, steps, moves.kind, moves.rates, least, most, _uniform(seed, 1), room)
    for i in range(cells.size):
        z[cells[i]] += t * steps[i]


@jit
def _pair(z: Ints, table: Ints, rate: float, seed: np.uint64, room: Room) -> None:
    n, width = table.shape
    r, s = int(_uniform(seed, 1) * n), int(_uniform(seed, 2) * (n - 1))
    one, other = table[r], table[s + 1 if s >= r else s]
    c, u = room[0]
    last = int(_uniform(seed, 3) * width)
    for j in range(width):
        c[j] = z[one[j]] + z[other[j]]
    tail = 1.0 / math.expm1(2.0 * rate)  # mass on each side; a value of the constant part has mass 1
    at = 4
    while True:
        u[last] = 0
        for j in range(width):
            if j != last:
                u[j] = _flat_quantile(c[j], rate, tail, _uniform(seed, at + j))
                u[last] -= u[j]
        beyond = max(u[last] - max(c[last], 0), min(c[last], 0) - u[last], 0)
        if _uniform(seed, at + last) < math.exp(-2.0 * rate * beyond):
            break
        at += width
    for j in range(width):
        z[one[j]], z[other[j]] = u[j], c[j] - u[j]


@jit
def _flat_quantile(c: int, rate: float, tail: float, u: float) -> int:
    """Return the quantile of the mass exp(-rate (|k| + |c - k|)), constant between 0 and c, geometric outside."""
    low, flat = min(c, 0), abs(c) + 1
    v = u * (flat + 2.0 * tail)
    if v < tail:
        return low - 1 - int(math.log(max(v / tail, 1e-300)) / (-2.0 * rate))
    if v < tail + flat:
        return low + min(int(v - tail), flat - 1)
    left = (flat + 2.0 * tail - v) / tail
    return low + flat + int(math.log(max(left, 1e-300)) / (-2.0 * rate))


def _distinct(directions: sparse.csc_array) -> sparse.csc_array:
    """Return the unique directions up to sign."""
    seen: dict[tuple[bytes, bytes], int] = {}
    directions.sort_indices()
    for r in range(directions.shape[1]):
        part = slice(directions.indptr[r], directions.indptr[r + 1])
        steps = directions.data[part]
        seen.setdefault((directions.indices[part].tobytes(), (steps * np.sign(steps[0])).tobytes()), r)
    return directions[:, list(seen.values())]
