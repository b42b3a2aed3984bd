r"""Integers with separable weights given linear constraints: exact draws and the normaliser.

x in Z^n has weight prod_i w_i(x_i) and satisfies A x = a. Constraints are eliminated one by one
(`ppdinf.lattice.structure.elimination_order`). A *stage* closes one constraint. It convolves the variables and the
earlier messages that first occur in this constraint into tables over the partial sums of this constraint and of its
open neighbours. The entries with the required total are the message to a later stage. The forward pass computes the
total weight of all solutions. The backward pass draws every variable and every message given the remaining sums. Draws
are therefore independent and have the stated law.

Exactness: weights are positive, so each sum and product in floating point has a relative error of one rounding. The
mass outside windows and trimmed edges is known. Tables store the resulting bounds `relative` and `absolute`. If a word
of the stream is within these bounds of a boundary, the same tables are computed in ball arithmetic (Arb) with wider
windows. The word is extended by further words until the comparison is decided.

References
----------
U. Bertele, F. Brioschi, Nonserial Dynamic Programming (Academic Press, 1972). S. Lauritzen, "Propagation
of probabilities, means and variances in mixed graphical association models", Journal of the American
Statistical Association 87(420), 1992, section 5: sampling backward.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from flint import arb
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.errors import InvariantError
from ppdinf.lattice.algebra.columns import equal_columns
from ppdinf.lattice.algebra.integer_rows import row_algebra
from ppdinf.lattice.algebra.systems import MatrixLike, integer_matrix
from ppdinf.lattice.structure.elimination_order import elimination_order
from ppdinf.noise.exact.elimination.partial_sums import UNDERFLOW, UNIT, EliminationFactor, PartialSumTable, merged
from ppdinf.noise.exact.elimination.potentials import Potential, Window
from ppdinf.noise.primitives.enclosed_comparison import compare_enclosures, integer_bounds, precision
from ppdinf.noise.primitives.stream import BitStream

BITS = (
    80,
    160,
    320,
    640,
)  # mass 2^-bits outside each window: the first value, then larger ones if necessary
CLEAR = 2.0**30  # a mass this many times the omitted mass is accurate enough
LARGEST_WORK = 5 * 10**9  # multiplications, about 10 s
LARGEST_SCOPE = 64  # limit of NumPy arrays
CHUNK = 2**22  # entries per look-up in a draw


@dataclass(eq=False)
class _Stage:
    """Tables over the sums of the rows in scope; ``tables[k]`` precedes ``factors[k]``; the first row is closed."""

    scope: list[int]
    factors: list[EliminationFactor]
    tables: list[PartialSumTable]


class Elimination:
    """Exact sampler of the law proportional to prod_i w_i(x_i) on {x in Z^n : A x = a}."""

    def __init__(
        self, A: MatrixLike, values: Sequence[int], potentials: Sequence[Potential], *, largest: float = LARGEST_WORK
    ) -> None:
        self._largest = largest
        matrix = integer_matrix(A)
        chosen = row_algebra(matrix).independent
        self._A = sparse.csc_array(sparse.csr_array(matrix)[chosen])
        self._values = np.array([int(values[row]) for row in chosen], dtype=np.int64)
        self._potentials = list(potentials)
        self._order = elimination_order(self._A)
        if self._order.width >= LARGEST_SCOPE:
            raise InvariantError(
                f"eliminating these constraints requires tables of {self._order.width + 1} dimensions, more than "
                f"{LARGEST_SCOPE}: they cross too much for elimination"
            )
        self._alike, _ = equal_columns(self._A)
        for bits in BITS:
            self._stages, self.log_normaliser, clear = self._forward(bits, exact=False)
            if clear:
                break
        if not clear:
            raise InvariantError("no integers satisfy the constraints within the windows of their weights")
        self._finer = lru_cache(maxsize=1)(partial(self._forward, exact=True))

    def draw(self, size: int, stream: BitStream) -> NDArray[np.int64]:
        """Return `size` independent draws, int64 of shape (size, n)."""
        x = np.zeros((size, self._A.shape[1]), dtype=np.int64)
        sums = {len(self._stages) - 1: np.zeros((size, 0), dtype=np.int64)}
        for s in reversed(range(len(self._stages))):
            stage = self._stages[s]
            closed = self._values[stage.scope[:1]]
            left = np.hstack([np.tile(closed, (size, 1)), sums.get(s, np.zeros((size, 0), dtype=np.int64))])
            for k in reversed(range(len(stage.factors))):
                found = self._choose((s, k), left, stream)
                left = left - found @ stage.factors[k].steps
                if stage.factors[k].stage < 0:
                    self._divide((s, k), stage.factors[k], found, x, stream)
                else:
                    sums[stage.factors[k].stage] = found
        return x

    def _divide(
        self,
        path: tuple[int, ...],
        factor: EliminationFactor,
        total: NDArray[np.int64],
        x: NDArray[np.int64],
        stream: BitStream,
    ) -> None:
        """Draw the variables of a factor given their sum."""
        if factor.parts is None:
            x[:, factor.variables[0]] = total[:, 0]
            return
        first = self._choose((*path, 0), total, stream)
        self._divide((*path, 0), factor.parts[0], first, x, stream)
        self._divide((*path, 1), factor.parts[1], total - first, x, stream)

    def _at(
        self, stages: list[_Stage], path: tuple[int, ...]
    ) -> tuple[EliminationFactor, PartialSumTable, NDArray[np.int64], float]:
        """Return a factor, the table that it is added to, its shifts in the table, and the omitted mass."""
        s, k, *down = path
        factor, table, left_out = stages[s].factors[k], stages[s].tables[k], stages[s].tables[k + 1].absolute
        if not down:
            return factor, table, factor.shifts, left_out
        for side in down[:-1]:
            assert factor.parts is not None
            factor = factor.parts[side]
        assert factor.parts is not None
        first, second = factor.parts
        return first, second.table, first.values, factor.absolute

    def _forward(self, bits: int, *, exact: bool = False) -> tuple[list[_Stage], float, bool]:
        """Compute all tables, the log normaliser, and whether its mass clearly exceeds the omitted mass."""
        with precision(bits):
            # tabulate the weights of each variable and bound its contribution to each row
            windows = [potential(bits) for potential in self._potentials]
            masses = [sum(weights, start=arb(0)) for _, weights, _ in windows]
            variables = [_variable(i, windows[i], masses[i], exact) for i in range(len(windows))]
            log_normaliser = float(sum((mass.log() for mass in masses), start=arb(0)))
            A, rows = self._A.toarray(), self._order.rows.tolist()
            ends = np.array([(v.values[0, 0], v.values[-1, 0]) for v in variables], dtype=np.int64).reshape(-1, 2)
            lower_sums, upper_sums = np.sort([A * ends[:, 0], A * ends[:, 1]], axis=0)
            trim = 2.0**-bits if any(v.absolute for v in variables) else 0.0
            scopes = [[row, *near.tolist()] for row, near in zip(rows, self._order.open_rows, strict=True)]
            inputs = [self._merged(variables, own, trim) for own in self._order.variables]
            inputs.append([variables[i] for i in np.flatnonzero(np.diff(self._A.indptr) == 0)])
            # close one constraint per stage; the last stage holds the unconstrained variables
            stages, clear, work = [], True, 0
            for s, scope in enumerate([*scopes, []]):
                stage = _Stage(scope, inputs[s], [_start(len(scope), exact)])
                out = np.ones(A.shape[1], dtype=bool)
                for factor in stage.factors:
                    if factor.stage < 0:
                        factor.steps = A[scope][:, factor.variables[:1]].T
                    out[factor.variables] = False
                    target = self._values[scope]
                    low, high = (
                        target - upper_sums[scope][:, out].sum(axis=1),
                        target - lower_sums[scope][:, out].sum(axis=1),
                    )
                    begin, end = stage.tables[-1].support_bounds(factor, low, high)
                    entries = math.prod((end - begin + 1).tolist())
                    work += len(factor.weights) * entries
                    if work > self._largest and not exact:
                        raise InvariantError(
                            f"eliminating these constraints requires tables of {entries:,} partial sums: "
                            "they cross too much for elimination"
                        )
                    stage.tables.append(stage.tables[-1].convolve(factor, low, high, trim))
                # the entries with the required total are the message to a later stage
                stages.append(stage)
                if not scope:
                    continue
                sent = _message(stage, int(self._values[scope[0]]), s, np.flatnonzero(~out))
                if sent is None:
                    return stages, -math.inf, False
                message, mass = sent
                log_normaliser += math.log(mass)
                clear &= mass > CLEAR * stage.tables[-1].absolute
                if len(scope) > 1:
                    to = min(rows.index(row) for row in scope[1:])
                    message.steps = (np.array(scope[1:])[:, np.newaxis] == scopes[to]).astype(np.int64)
                    inputs[to].insert(0, message)
        return stages, log_normaliser, clear

    def _merged(
        self, variables: list[EliminationFactor], own: NDArray[np.int64], trim: float
    ) -> list[EliminationFactor]:
        """Merge variables with equal columns of A."""
        groups: dict[int, list[EliminationFactor]] = {}
        for i in own.tolist():
            groups.setdefault(int(self._alike[i]), []).append(variables[i])
        return [merged(group, trim) for group in groups.values()]

    def _choose(self, path: tuple[int, ...], left: NDArray[np.int64], stream: BitStream) -> NDArray[np.int64]:
        """Draw the values of one factor given the sums of this factor and the factors before it."""
        factor, table, shifts, left_out = self._at(self._stages, path)
        words, n = stream(len(left)), len(factor.weights)
        found = np.empty((len(left), factor.values.shape[1]), dtype=np.int64)
        rows = max(1, CHUNK // (n * max(1, left.shape[1])))
        for start in range(0, len(left), rows):
            part = slice(start, start + rows)
            weights = table.look_up(left[part, np.newaxis] - shifts) * factor.weights
            cumulative = np.cumsum(weights, axis=1)
            total = cumulative[:, -1]
            goal = words[part] * 2.0**-64 * total
            choice = (cumulative <= goal[:, np.newaxis]).sum(axis=1)
            margin = total * (2 * table.relative + 2 * factor.relative + UNIT * (4 * n + 64)) + 4 * left_out
            edges = np.column_stack([np.full(len(total), -np.inf), cumulative])
            pick = np.arange(len(total))
            near = np.minimum(
                goal - edges[pick, choice], np.append(edges, np.inf * edges[:, :1], axis=1)[pick, choice + 1] - goal
            )
            found[part] = factor.values[np.minimum(choice, n - 1)]
            for i in np.flatnonzero((near <= margin) | (choice == n)):
                verdict = partial(self._find, path, left[start + i])
                found[start + i] = compare_enclosures(words[start + i], 64, stream, verdict)
        return found

    def _find(self, path: tuple[int, ...], left: NDArray[np.int64], word: int, bits: int) -> NDArray[np.int64] | None:
        """Return the value of a factor for every u with these first bits; None if it is undecided."""
        factor, table, shifts, absolute = self._at(self._finer(bits)[0], path)
        left_out = arb(4 * absolute)
        with precision(bits):
            weights = table.look_up(left - shifts) * factor.weights
            total = sum(weights.tolist(), start=arb(0))
            low, high, sure = arb(0), left_out / total, total + left_out
            for value, weight in zip(factor.values, weights, strict=True):
                low, before = low + weight, high
                high = (low + left_out) / total
                if word < integer_bounds(low / sure * 2**bits)[0]:
                    return value if integer_bounds(before * 2**bits)[1] <= word else None
        return None


def steps(work: float) -> str:
    """Format an estimated number of multiplications, which may exceed floating point."""
    return f"about {work:.0e} steps" if work < math.inf else "more steps than floating point can count"


def _variable(i: int, window: Window, mass: arb, exact: bool) -> EliminationFactor:
    first, weights, tail = window
    values = np.arange(first, first + len(weights))[:, np.newaxis]
    shares = [weight / mass for weight in weights]
    left_out = float((tail / mass).upper())
    if exact:
        numbers = np.array([*shares, None], dtype=object)[:-1]
        return EliminationFactor(values, numbers, np.empty((1, 0), np.int64), 0.0, left_out, np.array([i]))
    doubt = sum(float(share.rad()) for share in shares if share.rel_accuracy_bits() < 60)
    numbers = np.array([float(share.mid()) for share in shares])
    return EliminationFactor(values, numbers, np.empty((1, 0), np.int64), 2.0**-50, left_out + doubt, np.array([i]))


def _start(dimensions: int, exact: bool) -> PartialSumTable:
    one = np.empty((1,) * dimensions, dtype=object if exact else np.float64)
    one[...] = arb(1) if exact else 1.0
    return PartialSumTable(np.zeros(dimensions, dtype=np.int64), one, 0.0, UNDERFLOW)


def _message(stage: _Stage, total: int, s: int, variables: NDArray[np.int64]) -> tuple[EliminationFactor, float] | None:
    """Close the first row of a stage: return the scaled weights of the sums of the other rows, and their total."""
    table = stage.tables[-1]
    at = total - int(table.origin[0])
    if not 0 <= at < len(table.entries):
        return None
    entries = table.entries[at : at + 1].reshape(table.entries.shape[1:])
    mass = entries.sum() if entries.size else 0.0
    if not mass > 0:
        return None
    cells = np.argwhere(entries != 0)
    weights = entries.ravel()[np.flatnonzero(entries != 0)] / mass
    steps = np.empty((entries.ndim, 0), np.int64)
    left_out = 1.01 * table.absolute / float(mass)
    return EliminationFactor(
        cells + table.origin[1:], weights, steps, table.relative + 4 * UNIT, left_out, variables, s
    ), float(mass)
