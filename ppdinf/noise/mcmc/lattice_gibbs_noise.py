"""Gibbs sampling of noise on a lattice with exact full conditionals along its lines.

A move draws a point of a line, or two rows of a two-way table given their sums. It is a function of the state and of
one random word, so that chains that read the same words are coupled.

References
----------
P. Diaconis, B. Sturmfels, "Algebraic algorithms for sampling from conditional distributions", Annals of Statistics
26(1), 1998. D. Lea, G. Steele, S. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy import sparse

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.values import Integers, Reals
from ppdinf.lattice.blocks import Structure, structure
from ppdinf.lattice.move_families import Cycles
from ppdinf.lattice.moves import connected_moves
from ppdinf.lattice.systems import MatrixLike, compressed
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.laws.additive_law import L1, L2, log_mass
from ppdinf.noise.mcmc.tv_bound import in_threads

FAR = 2**60  # represents infinity
LEFT_OUT = 40.0  # largest difference of exponents
ALMOST_ONE = 1.0 - 2.0**-53
LISTED = 2**14  # number of directions of the list in addition to the basis


type Room = tuple[Integers, Reals]


@jit
def work_space(longest: int) -> Room:
    """Return scratch arrays for the breakpoints and segments of a line over at most `longest` cells."""
    return np.empty((2, longest + 1), np.int64), np.empty((5, longest + 1))


@jit
def line_quantile(
    z: Integers, squares: int, cells: Integers, steps: Integers, kind: int, rates: Reals, u: float, scratch: Room
) -> int:
    """Return the u-quantile of t."""
    if kind == L1:
        return _piecewise_geometric(z, cells, steps, rates, u, scratch)
    inner, length = 0, 0
    for i in range(cells.size):
        inner += z[cells[i]] * steps[i]
        length += steps[i] * steps[i]
    return _window(squares, inner, length, kind, rates[0], u)


@jit
def _piecewise_geometric(z: Integers, cells: Integers, steps: Integers, rates: Reals, u: float, scratch: Room) -> int:
    (turn, last), (rise, lift, grade, height, mass) = scratch
    n, slope, level = cells.size, 0.0, 0.0
    for i in range(n):  # insertion sort of the breakpoints, with the changes of slope and level
        b, at, rate = steps[i], z[cells[i]], rates[cells[i]]
        size = abs(b)
        signed = at if b > 0 else -at
        place = -signed if size == 1 else (-signed) // size
        slope -= rate * size
        level -= rate * signed
        k = i
        while k > 0 and turn[k - 1] > place:
            turn[k], rise[k], lift[k] = turn[k - 1], rise[k - 1], lift[k - 1]
            k -= 1
        turn[k], rise[k], lift[k] = place, 2.0 * rate * size, 2.0 * rate * signed
    # segments: minus the exponent is slope * t + level on (first, last[k]]; mass relative to the largest weight
    first, lowest = -FAR, np.inf
    for k in range(n + 1):
        if k > 0:
            slope += rise[k - 1]
            level += lift[k - 1]
        grade[k] = slope
        last[k] = turn[k] if k < n else FAR
        mass[k] = 0.0
        if last[k] >= first:
            height[k] = slope * (last[k] if slope < 0 else first) + level
            lowest = min(lowest, height[k])
            count = last[k] - first + 1
            if slope == 0 or count == 1:
                mass[k] = count
            else:
                q = abs(slope)
                mass[k] = math.expm1(-q * count) / math.expm1(-q)
            first = last[k] + 1
    # scale all segments to the largest weight, and choose a segment by u
    total = 0.0
    for k in range(n + 1):
        if mass[k] > 0.0:
            mass[k] *= math.exp(lowest - height[k])
            total += mass[k]
    v, k = u * total, 0
    while k < n and v >= mass[k]:
        v -= mass[k]
        k += 1
    while mass[k] == 0.0:  # only by rounding at the last segment
        k -= 1
        v = mass[k]
    # the position within the segment: uniform or geometric from the heavier end
    slope, first = grade[k], -FAR
    end: int = last[k]
    for i in range(k):
        first = max(first, last[i] + 1)
    count = end - first + 1
    share = min(v / mass[k], 1.0)
    if slope == 0 or count == 1:
        return first + min(int(share * count), count - 1)
    q = abs(slope)
    gone = min(share if slope > 0 else 1.0 - share, ALMOST_ONE)  # counted from the heavier end
    steps_in = min(int(math.log1p(gone * math.expm1(-q * count)) / -q), count - 1)
    return first + steps_in if slope > 0 else end - steps_in


@jit
def _window(squares: int, inner: int, length: int, kind: int, scale: float, u: float) -> int:
    center = -inner / length
    mode = int(np.rint(center))
    offset = (mode - center) ** 2
    if kind == L2:
        across = max(squares - inner * inner / length, 0.0)
        reach = math.sqrt(((math.sqrt(across + length * offset) + LEFT_OUT / scale) ** 2 - across) / length)
    else:
        reach = math.sqrt(offset + 2.0 * LEFT_OUT * scale * scale / length)
    first, end = math.ceil(center - reach), math.floor(center + reach)
    top = log_mass(kind, scale, 0, squares + mode * (2 * inner + mode * length))
    total = 0.0
    for t in range(first, end + 1):
        total += math.exp(log_mass(kind, scale, 0, squares + t * (2 * inner + t * length)) - top)
    v, t = u * total, first
    while t < end:
        v -= math.exp(log_mass(kind, scale, 0, squares + t * (2 * inner + t * length)) - top)
        if v < 0.0:
            break
        t += 1
    return t


class GibbsMoves(NamedTuple):
    """Input of the compiled chain: the law, the directions, and the table of a two-way system."""

    kind: int
    rates: Reals
    d: int
    starts: Integers
    cells: Integers
    steps: Integers
    rows: Integers
    columns: Integers
    sweep: int


def gibbs_moves(A: MatrixLike | Structure, law: Law) -> GibbsMoves:
    """Prepare the moves of `noise_gibbs`."""
    system = A if isinstance(A, Structure) else structure(A)
    d = system.blocks.size
    none = np.empty((0, 0), dtype=np.int64)
    moves = connected_moves(system, seconds=0)
    table = next((f.table for f, *_ in moves.families if isinstance(f, Cycles) and f.table.size == d), none)
    if not isinstance(law, DoubleGeometric):
        table = none
    drawn = moves.draw(LISTED if system.lattice.rank else 0, rng=0)
    listed = _distinct(sparse.hstack([system.lattice.basis, drawn], format="csc"))
    kind, scale = law.kernel_id
    sweep = sum(table.shape) // 2 or system.lattice.rank
    rows, columns = np.ascontiguousarray(table), np.ascontiguousarray(table.T)
    return GibbsMoves(kind, np.full(d, scale), d, *compressed(listed), rows, columns, sweep)


def noise_gibbs(
    moves: GibbsMoves, draws: int, *, burn: int = 0, chains: int = 1, rng: int | Generator, threads: int | None = None
) -> Integers:
    """Run chains of noise from zero, one draw per sweep."""
    return np.stack(in_threads(lambda g: _run(moves, draws, burn, g), chains, rng=rng, threads=threads))


@jit
def _run(moves: GibbsMoves, draws: int, burn: int, rng: Generator) -> Integers:
    z, out = np.zeros(moves.d, np.int64), np.empty((draws, moves.d), np.int64)
    room = move_space(moves)
    for draw in range(-burn, draws):
        for _ in range(moves.sweep):
            step(z, moves, word(rng), room)
        if draw >= 0:
            out[draw] = z
    return out


@jit
def word(rng: Generator) -> np.uint64:
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
def step(z: Integers, moves: GibbsMoves, seed: np.uint64, room: Room) -> None:
    """Make one move of z in place, determined by the random word `seed`."""
    n_rows, n_columns = moves.rows.shape
    if n_rows:
        by_row = _uniform(seed, 0) * (n_rows // 2 + n_columns // 2) < n_rows // 2
        _pair(z, moves.rows if by_row else moves.columns, moves.rates[0], seed, room)
    elif moves.starts.size > 1:
        _line(z, moves, seed, room)


@jit
def _line(z: Integers, moves: GibbsMoves, seed: np.uint64, room: Room) -> None:
    r = int(_uniform(seed, 0) * (moves.starts.size - 1))
    cells = moves.cells[moves.starts[r] : moves.starts[r + 1]]
    steps = moves.steps[moves.starts[r] : moves.starts[r + 1]]
    squares = 0
    if moves.kind == L2:
        for i in range(z.size):
            squares += z[i] * z[i]
    t = line_quantile(z, squares, cells, steps, moves.kind, moves.rates, _uniform(seed, 1), room)
    for i in range(cells.size):
        z[cells[i]] += t * steps[i]


@jit
def _pair(z: Integers, table: Integers, rate: float, seed: np.uint64, room: Room) -> None:
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
