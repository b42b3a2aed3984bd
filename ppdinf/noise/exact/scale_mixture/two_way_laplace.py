"""Exact l1 noise on a two-way table with public row and column sums."""

import math
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from flint import arb, arb_mat

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.lattice.blocks import Structure
from ppdinf.lattice.margins import HierarchicalTable
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.noise.exact.sampler_offer import Answer, Declined, Offer, is_one_block
from ppdinf.noise.exact.scale_mixture.klein_given_scales import (
    SLACK,
    Block,
    Drawn,
    RowCoordinates,
    triangle,
    under_control,
)
from ppdinf.noise.exact.scale_mixture.mixture import PATHS, MixtureScales, ScaleMixture, root_of
from ppdinf.noise.exact.scale_mixture.scales import END, Excess, Part, SumScales
from ppdinf.noise.primitives.enclosures import draw_bernoulli
from ppdinf.noise.primitives.lazy_reals import LazyReals
from ppdinf.noise.primitives.stream import BitStream

LOST_BY_COLUMN = 0.27  # approximate log loss by concavity per column
STAGE = 0.8  # log loss before the next rows of a table are drawn
LONGEST = 20.0  # longest time of a draw in seconds
PER_CELL = 4e-7  # seconds per attempt and cell drawn first


class RowScales:
    """The law of the scales of an r x c table."""

    def __init__(self, shape: tuple[int, int], epsilon: Fraction, end: Fraction, resistance: Fraction) -> None:
        self.shape = shape
        r, c = shape
        gamma = Fraction(1, 2 * r)
        self.excess = Excess(epsilon, end, resistance, float(gamma))
        self.row = SumScales((gamma,) * c, (1,) * c, Fraction(r - 1, 2 * r), self.excess)
        number = min(r // 2, max(1, round(c * LOST_BY_COLUMN / STAGE)))
        self.stages = np.diff(np.linspace(0, r, number + 1).round().astype(int)).tolist()  # number of rows per stage
        self.first = self.stages[0] * c

    def draw(self, size: int, stream: BitStream) -> MixtureScales:
        """Draw scales of `size` tables from the product law."""
        return self._rows(self.shape[0], size, LazyReals(stream), stream)

    def kept(self, size: int, stream: BitStream) -> MixtureScales:
        """Draw scales of `size` tables in stages of rows, and return the accepted ones."""
        reals = LazyReals(stream)
        scales, log_kept = self._rows(0, size, reals, stream), np.zeros(size)
        for rows in self.stages:
            longer = scales.concatenate_rows(self._rows(rows, log_kept.size, reals, stream))
            log_keep = longer.log_keep()
            share = partial(_enclose_share, longer, scales)
            on = draw_bernoulli(log_keep - log_kept, 2.0**-19, share, stream)
            scales, log_kept = longer[on], log_keep[on]
        return scales

    def _rows(self, rows: int, size: int, reals: LazyReals, stream: BitStream) -> MixtureScales:
        full = size, rows, self.shape[1]
        part = self.row.draw(size * rows, reals, stream)
        values, near, cells = part.values.reshape(full), part.near.reshape(full), part.cells.reshape(full)
        return MixtureScales(self, values, near, cells, reals, part.sums.reshape(size, rows))

    def log_keep(self, values: Reals) -> Reals:
        """Return the log acceptance probability of each set of scales, or of its first rows, within 2^-20."""
        return _log_keep(values, self.shape[0])

    def enclose_keep(self, t: list[list[arb]]) -> arb:
        """Enclose the acceptance probability of one set of scales, or of its first rows."""
        rows, c = len(t), self.shape[1]
        if not rows:
            return arb(1)
        sums = [sum(row, start=arb(0)) for row in t]
        logs = sum((x.log() for row in t for x in row), start=arb(0))
        log_sums = sum((x.log() for x in sums), start=arb(0))
        free = (c - 1) * arb(rows).log() + (logs - log_sums) / rows
        return ((free - enclose_column_determinant(t).log()) * rows / (2 * self.shape[0])).exp()

    @property
    def loss(self) -> float:
        """Approximate decrease of the log acceptance rate by the excesses and by concavity."""
        return self.shape[0] * self.row.loss + self.shape[1] * LOST_BY_COLUMN

    def enclose_row(self, scales: MixtureScales, i: int, row: int) -> list[arb]:
        """Enclose the scales of a row."""
        part = Part(scales.values[i], scales.near[i], scales.cells[i], scales.sums[i])
        return self.row.enclose(part, row, scales.reals)


def _enclose_share(longer: MixtureScales, scales: MixtureScales, i: int) -> arb:
    """Enclose the probability to continue with further rows."""
    return longer.enclose_keep(i) / scales.enclose_keep(i)


def enclose_column_determinant(t: list[list[arb]]) -> arb:
    """Enclose det(sum_i R_i M(p_i)) without the last column."""
    c = len(t[0])
    rows = arb_mat(t)
    sums = [sum(row, start=arb(0)) for row in t]
    scaled = arb_mat([[x / own for x in row] for row, own in zip(t, sums, strict=True)])
    outer = rows.transpose() * scaled
    columns = [sum((row[j] for row in t), start=arb(0)) for j in range(c)]
    return arb_mat(
        [[(columns[j] if j == k else arb(0)) - outer[j, k] for k in range(c - 1)] for j in range(c - 1)]
    ).det()


@jit
def _log_keep(values: Reals, of: int) -> Reals:
    """Return log (r^(c-1) prod_i R_i^(-1/r) prod_e t_e^(1/r) / det)^(r / 2 of), by star-mesh steps."""
    size, r, c = values.shape
    out = np.empty(size)
    mesh, logs = np.empty((c, c)), 0.0
    for n in range(size):
        mesh[:] = 0.0
        logs = 0.0
        for i in range(r):
            total, product = 0.0, 1.0
            for j in range(c):
                total += values[n, i, j]
                product *= values[n, i, j]
                if product < 1e-200 or product > 1e200:
                    logs += math.log(product)
                    product = 1.0
            logs += math.log(product) - math.log(total)
            for j in range(c):
                share = values[n, i, j] / total
                for k in range(j):
                    mesh[j, k] += share * values[n, i, k]
        log_det = 0.0
        for j in range(c - 1, 0, -1):
            pivot = 0.0
            for k in range(j):
                pivot += mesh[j, k]
            log_det += math.log(pivot)
            for k in range(j):
                share = mesh[j, k] / pivot
                for other in range(k):
                    mesh[k, other] += share * mesh[j, other]
        out[n] = 0.5 * r / of * ((c - 1) * math.log(r) + logs / r - log_det)
    return out


def draw_given_scales(t: Reals, wide: Flags, root: int, stream: BitStream) -> Drawn:
    """Draw noise on a supported table."""
    r, c = t.shape
    # the spine: the root and the rows that cover its missing columns
    spine = spine_rows(t, wide, root)
    rows = [root, *spine]
    outside_spine = np.ones(r, dtype=np.bool_)
    outside_spine[rows] = False
    others = np.flatnonzero(outside_spine)
    others = others[np.argsort(wide[others].sum(axis=1), kind="stable")]  # rows with only wide cells are last
    # one tie per row to a wide column of the root
    ties = np.argmax(np.where(wide[root] & wide[others], t[others], -1.0), axis=1)
    ground = int(np.argmax(np.where(wide[root], t[root], -1.0)))  # a wide cell of the root keeps W small
    block = Block(_basis(t.shape, wide, root, spine, ground), t[rows].ravel())
    try:
        squares, mu, pulls, rounding = _factor_rows(t, others, block.lower[1 - c :, 1 - c :].copy(), ties, ground)
    except np.linalg.LinAlgError:
        rounding = np.inf
    under_control(block.rounding + rounding)
    row_coordinates = RowCoordinates.of(squares, mu)
    # draw the rows outside of the spine, then the spine given the remaining column sums
    lacking = np.zeros(c, dtype=np.int64)
    row_coordinates.draw(pulls, ties, ground, lacking, stream)
    x = row_coordinates.x[:, 0, :-1]
    free = np.arange(c) != ties[:, np.newaxis]
    z = np.zeros((r, c), dtype=np.int64)
    part = np.zeros((len(others), c), np.int64)
    part[free] = x.ravel()
    part[~free] = -x.sum(axis=1)
    z[others] = part
    last = block.draw(np.delete(lacking, ground), stream)
    z[rows] = last.z.reshape(len(rows), c)
    return Drawn(
        z,
        np.concatenate([x.ravel(), last.x]),
        np.concatenate([row_coordinates.centers[:, 0, :-1].ravel(), last.centers]),
        np.concatenate([squares[:, :-1].ravel(), last.squares]),
    )


def spine_rows(t: Reals, wide: Flags, root: int) -> dict[int, tuple[int, list[int]]]:
    """Return the rows for the columns that the root does not cover: their ties to the root and their columns."""
    lacking = ~wide[root]
    spine: dict[int, tuple[int, list[int]]] = {}
    while lacking.any():
        row = int(np.argmax((wide & lacking).sum(axis=1)))
        tie = int(np.argmax(np.where(wide[root] & wide[row], t[row], -1.0)))
        spine[row] = tie, np.flatnonzero(wide[row] & lacking).tolist()
        lacking &= ~wide[row]
    return spine


def _basis(
    shape: tuple[int, int], wide: Flags, root: int, spine: dict[int, tuple[int, list[int]]], ground: int
) -> Integers:
    """Return the fundamental cycles of the spine, the root's row first, and a path from each column to the ground."""
    _, c = shape
    rows = [root, *spine]
    owner = {j: (n + 1, tie) for n, (tie, columns) in enumerate(spine.values()) for j in columns}

    def to_root(j: int, sign: int, vector: Integers) -> None:
        """Add the path of the tree from a column to the root."""
        if j not in owner:
            vector[0, j] += sign
            return
        n, tie = owner[j]
        vector[n, j] += sign
        vector[n, tie] -= sign
        vector[0, tie] += sign

    vectors = []
    for n in range(len(rows)):
        tie = None if n == 0 else spine[rows[n]][0]
        for j in range(c):
            if (n == 0 and wide[root, j]) or (n > 0 and (j == tie or owner.get(j, (0, 0))[0] == n)):
                continue
            vector = np.zeros((len(rows), c), np.int64)
            vector[n, j] += 1
            to_root(j, -1, vector)
            if tie is not None:
                vector[n, tie] -= 1
                to_root(tie, 1, vector)
            vectors.append(vector.ravel())
    for j in range(c):
        if j != ground:
            vector = np.zeros((len(rows), c), np.int64)
            to_root(j, 1, vector)
            to_root(ground, -1, vector)
            vectors.append(vector.ravel())
    return np.array(vectors).T


@jit
def _factor_rows(
    t: Reals, others: Integers, after: Reals, ties: Integers, ground: int
) -> tuple[Reals, Reals, Reals, float]:
    """Factor the form of each row: return squares, U, coefficients of the remaining column sums, and the rounding."""
    n, c = others.size, t.shape[1]
    squares, mu, pulls = np.ones((n, c)), np.zeros((n, c * (c - 1) // 2)), np.empty((n, c - 1, c - 1))
    form, rounding = np.empty((2 * c - 2, 2 * c - 2)), 0.0
    full = np.zeros((c, c))  # W with the ground column
    for place in range(n - 1, -1, -1):
        row, tie = others[place], ties[place]
        # the form in (x, b): the row's own precision plus the form of the later rows
        W = after @ after.T
        for i in range(c - 1):
            for j in range(c - 1):
                full[i + (i >= ground), j + (j >= ground)] = W[i, j]
        largest = 1.0
        for i in range(c - 1):
            a = i + (i >= tie)
            for j in range(c - 1):
                b, lacking = j + (j >= tie), j + (j >= ground)
                form[i, j] = (full[a, b] - full[tie, b]) - (full[a, tie] - full[tie, tie]) + 1.0 / t[row, tie]
                form[i, c - 1 + j] = form[c - 1 + j, i] = full[tie, lacking] - full[a, lacking]
                form[c - 1 + i, c - 1 + j] = W[i, j]
            form[i, i] += 1.0 / t[row, a]
            size = (math.sqrt(full[a, a]) + math.sqrt(full[tie, tie])) ** 2
            largest = max(largest, size / form[i, i])
        # its triangular factors: mu of x, coefficients of b, and W for the row before
        lower, off = triangle(form, (c + 6.0) * largest)
        rounding += off
        entry = 0
        for i in range(c - 1):
            squares[place, i] = lower[i, i] ** 2 * (1.0 - SLACK)
            for j in range(i + 1, c - 1):
                mu[place, entry] = lower[j, i] / lower[i, i]
                entry += 1
            entry += 1  # entry of the shift
            for j in range(c - 1):
                pulls[place, i, j] = lower[c - 1 + j, i] / lower[i, i]
        after = lower[c - 1 :, c - 1 :].copy()
    return squares, mu, pulls, rounding


def offer(structure: Structure, law: Law, cells: Integers) -> Answer:
    """Offer to draw a block that is a two-way table with both margins public and one cell per position."""
    if not isinstance(law, DoubleGeometric) or not is_one_block(structure, cells):
        return None
    table = as_two_way_table(structure, int(structure.blocks[cells[0]]))
    if table is None:
        return None
    mixture = _prepared(table.shape, law.epsilon)
    seconds = PER_CELL * mixture.scales.first / mixture.acceptance if mixture.acceptance else math.inf
    if seconds > LONGEST:
        kept = f"the acceptance rate of a mixture over scales would be about {mixture.acceptance:.0e}"
        return Declined(lambda: kept, LONGEST / seconds)
    size = "a {} x {} table".format(*table.shape)
    return Offer(
        "scale mixture",
        structure.lattice.representatives[table.classes],
        lambda: mixture.draw,
        mixture.acceptance,
        f"of public sums that cross, {size} drawn in about {max(seconds, 1e-3):.1g} s",
    )


def as_two_way_table(structure: Structure, block: int) -> HierarchicalTable | None:
    """Return a block as a table if it is two-way with both margins public and one cell per position."""
    for table in structure.tables:
        if structure.blocks[structure.lattice.representatives[table.classes[0]]] == block:
            return table if len(table.shape) == 2 and table.cells == table.classes.size else None
    return None


class TwoWayTable:
    """A two-way table with both margins public, at least 2 x 2."""

    paths = PATHS

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.m = (shape[0] - 1) * (shape[1] - 1)

    def scales(self, epsilon: Fraction, width: Fraction, path: Fraction) -> RowScales:
        """Return the law of the proposed scales."""
        # in the rows that are drawn last, wide cells always have paths of 3 cells
        end = min(END, width / max(Fraction(1), 4 - path))
        return RowScales(self.shape, epsilon, end, path / width)

    def support(self, wide: Flags, path: Fraction) -> int | None:
        """Return the root of a spanning tree of wide cells with paths of this length, or None."""
        return root_of(wide, path)

    def noise(self, t: Reals, wide: Flags, support: int, stream: BitStream) -> Drawn:
        """Draw noise given scales."""
        return draw_given_scales(t, wide, support, stream)

    def enclose_log_determinant(self, t: list[list[arb]]) -> arb:
        """Enclose log det(B' T^-1 B) = log det(A T A') - log det T."""
        log_determinant = enclose_column_determinant(t).log()
        for row in t:
            log_determinant += sum(row, start=arb(0)).log() - sum((x.log() for x in row), start=arb(0))
        return log_determinant


class TwoWayLaplace(ScaleMixture):
    """Exact sampler of the l1 Laplace law on r x c tables with zero row and column sums."""

    def __init__(self, shape: tuple[int, int], epsilon: Fraction) -> None:
        super().__init__(TwoWayTable((max(shape), min(shape))), epsilon)
        self.shape = shape

    def draw(self, size: int, stream: BitStream) -> Integers:
        """Return `size` independent draws, int64 of shape (size, r * c), in C order."""
        noise = super().draw(size, stream)
        if self.shape != self.system.shape:
            noise = noise.reshape(size, *self.system.shape).transpose(0, 2, 1).reshape(size, -1)
        return noise


_prepared = lru_cache(maxsize=8)(TwoWayLaplace)
