"""Integers with separable weights given linear constraints: exact draws and the normaliser by variable elimination."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from flint import arb, arb_poly
from scipy import sparse

from ppdinf._internal.values import Array, Integers
from ppdinf.errors import InvariantError
from ppdinf.lattice.class_sums import elimination_order
from ppdinf.lattice.integer_rows import row_algebra
from ppdinf.lattice.systems import MatrixLike, equal_columns, integer_matrix
from ppdinf.noise.exact.potentials import Potential, Window
from ppdinf.noise.primitives.enclosures import compare_enclosures, integer_bounds, precision
from ppdinf.noise.primitives.stream import BitStream

UNIT = 2.0**-53
UNDERFLOW = 2.0**-1000  # bound on the sum of entries that doubles round to 0
BITS = 80, 160, 320, 640
"""Mass 2^-bits outside each window: the first value, then larger ones if necessary."""
CLEAR = 2.0**30  # a mass this many times the omitted mass is accurate enough
LARGEST_WORK = 5 * 10**9  # multiplications, about 10 s
LARGEST_SCOPE = 64  # limit of NumPy arrays
CHUNK = 2**22  # entries per look-up in a draw

type Numbers = Array
"""Doubles, or an object array of balls."""


@dataclass(eq=False)
class EliminationFactor:
    """A variable or a message: its values (rows in lexicographic order) and their weights."""

    values: Integers
    weights: Numbers
    steps: Integers
    relative: float
    absolute: float
    variables: Integers  # the variables of the factor: itself or the marginalized ones
    stage: int = -1  # stage of the message
    parts: tuple["EliminationFactor", "EliminationFactor"] | None = None  # factors whose sum is this factor

    @property
    def table(self) -> "PartialSumTable":
        """Table of the weights of a variable over the values from the first to the last."""
        return PartialSumTable(self.values[0], self.weights, self.relative, self.absolute)

    @property
    def shifts(self) -> Integers:
        """Contribution of each value to the sums, one row per value."""
        return self.values @ self.steps


@dataclass(eq=False)
class PartialSumTable:
    """Total weights of partial sums; the first entry belongs to the sums `origin`."""

    origin: Integers
    entries: Numbers
    relative: float
    absolute: float

    def look_up(self, sums: Integers) -> Numbers:
        """Return the entries for sums of shape (..., n)."""
        at, shape = sums - self.origin, np.array(self.entries.shape, dtype=np.int64)
        inside = ((at >= 0) & (at < shape)).all(axis=-1)
        strides = np.append(np.cumprod(shape[:0:-1])[::-1], 1)[: shape.size]
        flat = np.where(inside, at @ strides, 0)
        return np.where(inside, self.entries.ravel()[flat], _zero(self.entries))

    def support_bounds(self, factor: EliminationFactor, low: Integers, high: Integers) -> tuple[Integers, Integers]:
        """Return the smallest and largest sums with a factor, between `low` and `high`."""
        shifts, shape = factor.shifts, np.array(self.entries.shape, dtype=np.int64)
        return (
            np.maximum(low, self.origin + shifts.min(axis=0)),
            np.minimum(high, self.origin + shifts.max(axis=0) + shape - 1),
        )

    def convolve(self, factor: EliminationFactor, low: Integers, high: Integers, trim: float) -> "PartialSumTable":
        """Return the table of sums with a factor, between `low` and `high`, without edges below `trim`."""
        shifts, shape = factor.shifts, np.array(self.entries.shape, dtype=np.int64)
        low, high = self.support_bounds(factor, low, high)
        out = np.full(np.maximum(high - low + 1, 0), _zero(self.entries), dtype=self.entries.dtype)
        if out.size:
            for shift, weight in zip(self.origin + shifts - low, factor.weights, strict=True):
                first, end = np.maximum(shift, 0), np.minimum(shift + shape, out.shape)
                if (first < end).all():
                    into = tuple(map(slice, first, end))
                    out[into] += weight * self.entries[tuple(map(slice, first - shift, end - shift))]
        kept, cut = _trimmed(out, trim)
        rounding = 0.0 if out.dtype == object else UNIT * (len(shifts) + 8)
        return PartialSumTable(
            low + np.array([part.start for part in kept], dtype=np.int64),
            np.asarray(out[kept]),
            self.relative + factor.relative + rounding,
            1.01 * (self.absolute + factor.absolute) + cut,
        )


def merged(factors: list[EliminationFactor], trim: float) -> EliminationFactor:
    """Combine variables with equal columns pairwise, so that few wide tables are convolved."""
    while len(factors) > 1:
        pairs = [_pair(first, second, trim) for first, second in itertools.batched(factors[: len(factors) // 2 * 2], 2)]
        factors = pairs + factors[len(pairs) * 2 :]
    return factors[0]


def _pair(first: EliminationFactor, second: EliminationFactor, trim: float) -> EliminationFactor:
    if first.weights.dtype == object:
        found = (arb_poly(first.weights.tolist()) * arb_poly(second.weights.tolist())).coeffs()
        weights = np.array([*found, None], dtype=object)[:-1]
        weights = np.append(weights, [arb(0)] * (len(first.weights) + len(second.weights) - 1 - len(weights)))
        rounding = 0.0
    else:
        weights = np.convolve(first.weights, second.weights)
        rounding = UNIT * (min(len(first.weights), len(second.weights)) + 8)
    (kept,), cut = _trimmed(weights, trim)
    start = int(first.values[0, 0] + second.values[0, 0]) + kept.start
    return EliminationFactor(
        start + np.arange(kept.stop - kept.start)[:, np.newaxis],
        weights[kept],
        first.steps,
        first.relative + second.relative + rounding,
        1.01 * (first.absolute + second.absolute) + cut + UNDERFLOW,
        np.concatenate([first.variables, second.variables]),
        parts=(first, second),
    )


def _zero(entries: Numbers) -> arb | float:
    return arb(0) if entries.dtype == object else 0.0


def _trimmed(entries: Numbers, threshold: float) -> tuple[tuple[slice, ...], float]:
    """Return slices without end slices whose entries are all below a threshold, and the largest entry removed."""
    kept, cut = [slice(0, n) for n in entries.shape], 0.0
    if not threshold or not entries.size:
        return tuple(kept), cut
    sizes = entries if entries.dtype != object else np.vectorize(lambda x: float(x.upper()), otypes=[float])(entries)
    for axis in range(entries.ndim):
        tops = sizes.max(axis=tuple(a for a in range(entries.ndim) if a != axis))
        above = np.flatnonzero(tops >= threshold)
        if above.size:
            kept[axis] = slice(int(above[0]), int(above[-1]) + 1)
            cut = max(cut, 1.01 * float(np.delete(tops, np.arange(above[0], above[-1] + 1)).max(initial=0.0)))
    return tuple(kept), cut


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

    def draw(self, size: int, stream: BitStream) -> Integers:
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
        self, path: tuple[int, ...], factor: EliminationFactor, total: Integers, x: Integers, stream: BitStream
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
    ) -> tuple[EliminationFactor, PartialSumTable, Integers, float]:
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
                    low = target - upper_sums[scope][:, out].sum(axis=1)
                    high = target - lower_sums[scope][:, out].sum(axis=1)
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

    def _merged(self, variables: list[EliminationFactor], own: Integers, trim: float) -> list[EliminationFactor]:
        """Merge variables with equal columns of A."""
        groups: dict[int, list[EliminationFactor]] = {}
        for i in own.tolist():
            groups.setdefault(int(self._alike[i]), []).append(variables[i])
        return [merged(group, trim) for group in groups.values()]

    def _choose(self, path: tuple[int, ...], left: Integers, stream: BitStream) -> Integers:
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

    def _find(self, path: tuple[int, ...], left: Integers, word: int, bits: int) -> Integers | None:
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
    one = np.full((1,) * dimensions, arb(1) if exact else 1.0, dtype=object if exact else np.float64)
    return PartialSumTable(np.zeros(dimensions, dtype=np.int64), one, 0.0, UNDERFLOW)


def _message(stage: _Stage, total: int, s: int, variables: Integers) -> tuple[EliminationFactor, float] | None:
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
