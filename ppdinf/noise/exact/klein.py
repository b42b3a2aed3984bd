r"""Sequential proposals for Gaussian laws on a lattice, and their exact acceptance probability.

Write z = sum_i x_i b_i with Gram-Schmidt vectors of squared lengths g_i, so that |z|^2 = sum_i g_i (x_i + c_i)^2 with
c_i = sum_{j > i} mu_ij x_j, and v_i = v / g_i. Klein's sampler draws x_m, ..., x_1 in turn, x_i from the discrete
Gaussian of variance v_i around -c_i. A vector is accepted with probability

    exp(sum_i g_i (x_i + c_i)^2 / 2v - |z|^2 / 2v)  prod_i rho_{v_i}(Z + c_i) / rho_{v_i}(Z).

Rounded g, mu and c affect only the proposal, because g is shortened by a factor 1 - `slack` that exceeds all rounding
errors. Proofs and references: docs/mathematics/lattice_gaussian.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
import scipy.sparse as sp
from flint import arb, fmpz_mat
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import spsolve_triangular

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Integers, Reals, members
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.lattice.blocks import Structure, structure
from ppdinf.lattice.kernel import Lattice, kernel, support_components
from ppdinf.lattice.margins import HierarchicalTable
from ppdinf.noise.exact.theta import enclose_mass, log_ratio
from ppdinf.noise.primitives.enclosures import decide_bernoulli
from ppdinf.noise.primitives.stream import ROW, BitStream, Words

UNIT = 2.0**-53
FAR = 2.0**51  # centers are exact: a number of this size minus its nearest integer is a double
WIDEST = 2.0**80  # largest variance of one coordinate: at least 20 bits of a word choose the block
ERROR = 2.0**-38  # bound on the relative error of a probability above 2^-60 in `_draw_coordinates`
KEPT, OPEN, WIDE = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Klein:
    """A basis with its orthogonal parts; the constructor is `ppdinf.noise.exact.klein.klein`."""

    basis: sp.csr_array
    squares: Reals
    starts: Integers
    columns: Integers
    factors: Reals
    slack: float

    def propose(self, variances: Sequence[Fraction], stream: BitStream) -> "Proposals":
        """Draw one vector for each variance v by Klein's sampler."""
        size, m = len(variances), self.squares.size
        rounded = np.array([float(v) for v in variances])
        x, centers = np.zeros((size, m), dtype=np.int64), np.zeros((size, m))
        state = (rounded, x, centers, self.squares, self.starts, self.columns, self.factors)
        position = 0
        while position < size * m:
            pairs = stream(2 * min(size * m - position, ROW)).reshape(-1, 2)
            used = 0
            while used < len(pairs):
                position, used, status = _draw_coordinates(pairs, used, position, *state)
                if status == WIDE:
                    raise PrivacyError("the noise is wider than 2^40; choose a larger epsilon or a smaller sigma")
                if status == OPEN:
                    draw, i = position // m, m - 1 - position % m
                    k = self._settled(pairs[used], variances[draw], rounded[draw], i, float(centers[draw, i]), stream)
                    used += 1
                    if k is not None:
                        x[draw, i] = k - round(float(np.rint(centers[draw, i])))
                        position += 1
        return Proposals(self, variances, rounded, x, centers, np.ascontiguousarray((self.basis @ x.T).T))

    def _settled(
        self, pair: Words, variance: Fraction, rounded: float, i: int, center: float, stream: BitStream
    ) -> int | None:
        """Decide one proposal in ball arithmetic: return k if it is accepted."""
        word = int(pair[0])
        exact = variance / Fraction(self.squares[i])
        j = int(_halvings(rounded / self.squares[i]))
        blocks, tail_bits = 0, word >> (1 + j)
        if tail_bits == 0:
            blocks = 63 - j
            while (tail_bits := int(stream(1)[0])) == 0:
                blocks += 64
        blocks += (tail_bits & -tail_bits).bit_length() - 1
        k = blocks << j | word >> 1 & (1 << j) - 1
        k = -1 - k if word & 1 else k
        y = k + Fraction(center) - Fraction(float(np.rint(center)))

        def keep() -> arb:
            turn, s, v = arb(2).log(), 1 << j, ball(exact)
            return (blocks * turn - ball(y**2) / (2 * v) - v * (turn / s) ** 2 / 2 - turn / (2 * s)).exp()

        return k if decide_bernoulli(pair[1], keep, stream) else None


@dataclass(frozen=True, eq=False)
class Proposals:
    """Vectors drawn by Klein's sampler, and their acceptance probabilities."""

    klein: Klein
    variances: Sequence[Fraction]
    rounded: Reals
    x: Integers
    centers: Reals
    z: Integers

    def log_keep(self) -> tuple[Reals, Reals]:
        """Return the log acceptance probability of each vector, and a bound on its rounding error."""
        return log_acceptance(self.x, self.centers, self.rounded, self.klein.squares, self.z)

    def enclose_keep(self, draw: int) -> arb:
        """Enclose the acceptance probability of one vector at Arb's working precision."""
        variance = self.variances[draw]
        exponent = Fraction(-sum(value * value for value in self.z[draw].tolist()))
        ratio = arb(1)
        coordinates = zip(self.x[draw].tolist(), self.centers[draw].tolist(), self.klein.squares.tolist(), strict=True)
        for x, center, square in coordinates:
            y, g = x + Fraction(center), Fraction(square)
            exponent += g * y * y
            v, f = ball(variance / g), ball(y - round(y))
            ratio *= enclose_mass(f, v) / enclose_mass(arb(0), v)
        return ball(exponent / (2 * variance)).exp() * ratio


@jit
def _halvings(variance: float) -> int:
    """Return the exponent j of the block length 2^j: sigma / 2^j is between 1.02 and 2.04, or j = 0."""
    return max(0, math.frexp(math.sqrt(variance) / 2.04)[1])


@jit
def _draw_coordinates(
    pairs: Words,
    used: int,
    position: int,
    variances: Reals,
    x: Integers,
    centers: Reals,
    squares: Reals,
    starts: Integers,
    columns: Integers,
    factors: Reals,
) -> tuple[int, int, int]:
    """Draw coordinates from `position` on, each by pairs of words; stop at an undecided pair."""
    m, turn = squares.size, math.log(2.0)
    while used < len(pairs):
        draw, i = position // m, m - 1 - position % m
        center = 0.0
        for entry in range(starts[i], starts[i + 1]):
            center += factors[entry] * x[draw, columns[entry]]
        v = variances[draw] / squares[i]
        if not (abs(center) < FAR and v < WIDEST):
            return position, used, WIDE
        centers[draw, i] = center
        # blocks of 2^j integers with geometric numbers dominate the Gaussian around -c_i
        nearest = np.rint(center)
        j = _halvings(v)
        block = float(1 << j)
        envelope = 0.5 * v * (turn / block) ** 2 + 0.5 * turn / block
        while used < len(pairs):
            word, coin = pairs[used, 0], pairs[used, 1]
            tail_bits = word >> np.uint64(1 + j)
            if tail_bits == 0:
                return position, used, OPEN
            # the proposal: trailing zeros of the word give the block, the low bits give sign and position
            blocks = 0
            while tail_bits & np.uint64(1) == 0:
                tail_bits >>= np.uint64(1)
                blocks += 1
            k = (blocks << j) | np.int64((word >> np.uint64(1)) & np.uint64((1 << j) - 1))
            k = -1 - k if word & np.uint64(1) else k
            # accept k with the ratio of the Gaussian to its envelope
            y = k + (center - nearest)
            p = math.exp(blocks * turn - 0.5 * y * y / v - envelope)
            u = coin * 2.0**-64
            margin = (p + u) * ERROR + 2.0**-60
            if u < p - margin:
                used += 1
                x[draw, i] = k - np.int64(nearest)
                position += 1
                break
            if u <= p + margin:
                return position, used, OPEN
            used += 1
    return position, used, KEPT


@jit
def log_acceptance(x: Integers, centers: Reals, variances: Reals, squares: Reals, z: Integers) -> tuple[Reals, Reals]:
    """Return the log acceptance probability of each vector, and a bound on its rounding error."""
    size, m = x.shape
    logs, error = np.empty(size), np.empty(size)
    for draw in range(size):
        total, carried, ratio, doubt = 0.0, 0.0, 0.0, 8.0
        for i in range(m):
            y = x[draw, i] + centers[draw, i]
            term = squares[i] * y * y - carried  # Kahan summation: rounding does not grow with m
            after = total + term
            carried = (after - total) - term
            total = after
            v = variances[draw] / squares[i]
            if v < 4.0:
                change = log_ratio(y - np.rint(y), v)
                ratio += change
                doubt += 16.0 - 16.0 * change - ratio
        norm = 0.0
        carried = 0.0
        for cell in range(z.shape[1]):
            term = float(z[draw, cell]) ** 2 - carried
            after = norm + term
            carried = (after - norm) - term
            norm = after
        logs[draw] = 0.5 * (total - norm) / variances[draw] + ratio
        error[draw] = UNIT * (16.0 * total / variances[draw] + doubt)
    return logs, error


LARGEST_LOSS = 0.1  # largest loss of acceptance by rounding
LARGEST = 200  # largest number of vectors that are orthogonalised again

type Orthogonalised = tuple[sp.csc_array, Reals, sp.csr_array, float]
"""Basis (n_classes, r), squared lengths (r,), mu (r, r) strictly upper triangular, and growth of rounding."""


def klein(lattice: Lattice, tables: Sequence[HierarchicalTable] = ()) -> Klein:
    """Orthogonalise a basis of a lattice, with classes of cells and tables with margins in closed form."""
    d, n_classes = lattice.classes.size, lattice.representatives.size
    sizes = np.bincount(lattice.classes, minlength=n_classes)
    order = np.lexsort((-np.arange(d), lattice.classes))  # by classes; the representative of each class is last
    place = np.arange(d) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    inner = np.flatnonzero(place < np.repeat(sizes, sizes))  # partial sums; the last one is the class sum
    chain, t = inner.size, place[inner]
    parts = [_table(table, n_classes) for table in tables]
    parts += _others(lattice.class_basis, sizes, tables)
    nothing = sp.csc_array((n_classes, 0), dtype=np.int64)
    sums = sp.csc_array(sp.hstack([nothing, *(part[0] for part in parts)], dtype=np.int64))
    cells = np.concatenate([order[inner], order[inner + 1], lattice.representatives[sums.indices]])
    owners = np.concatenate(
        [np.arange(chain)] * 2 + [chain + np.repeat(np.arange(sums.shape[1]), np.diff(sums.indptr))]
    )
    values = np.concatenate([np.ones(chain, np.int64), -np.ones(chain, np.int64), sums.data])
    basis = sp.csr_array((values, (cells, owners)), shape=(d, chain + sums.shape[1]))

    end = t + 1 == sizes[lattice.classes[order[inner]]]  # the center depends on the class sum
    neighbour = sp.csr_array(
        (-t[~end] / (t[~end] + 1), (np.flatnonzero(~end), np.flatnonzero(~end) + 1)), shape=(chain, chain)
    )
    last = sp.csr_array(
        (-t[end] / (t[end] + 1), (np.flatnonzero(end), lattice.classes[order[inner[end]]])), shape=(chain, n_classes)
    )
    above = sp.block_diag([sp.csr_array((0, 0)), *(part[2] for part in parts)], format="csr")
    mu = sp.csr_array(sp.block_array([[neighbour, last @ sp.csr_array(sums)], [None, above]]))
    rounding = 16 * UNIT * (int(sizes.max(initial=1)) + max((part[3] for part in parts), default=1.0))
    _require_accurate(rounding * mu.shape[0], lattice.class_basis.shape[1])
    squares = np.concatenate([(t + 1) / t, *(part[1] for part in parts)]) * (1 - rounding)
    return Klein(basis, squares, mu.indptr.astype(np.int64), mu.indices.astype(np.int64), mu.data, rounding)


def _table(table: HierarchicalTable, n_classes: int) -> Orthogonalised:
    """Return the tensor products of chains in the kernel."""
    kept = np.flatnonzero(table.moving)
    chains = [_chain(weight) for weight in table.weights]
    vectors = sp.csc_array(reduce(sp.kron, [vectors for vectors, _, _ in chains]))[:, kept]
    squares = reduce(np.multiply.outer, [g for _, g, _ in chains]).ravel()[kept]
    triangle = sp.csr_array(reduce(sp.kron, [triangle for _, _, triangle in chains]))[kept][:, kept]
    mu = sp.csr_array(sp.triu(triangle, k=1))
    basis = sp.csc_array((vectors.data, table.classes[vectors.indices], vectors.indptr), shape=(n_classes, kept.size))
    scale = float(table.cells) ** (len(chains) - 1)
    inverse = math.prod(math.sqrt(float(np.cumsum(weight).sum())) for weight in table.weights) / math.sqrt(scale)
    longest = math.sqrt(scale * math.prod(float(g.max()) for _, g, _ in chains))
    return basis, squares * scale, mu, 4.0 ** len(chains) * inverse * (1 + longest)


def _chain(weight: Integers) -> tuple[sp.csc_array, Reals, sp.csr_array]:
    """Return the vectors of a chain by columns, their squared lengths, and I + mu."""
    n, below = weight.size, np.cumsum(weight)
    vectors = sp.eye_array(n, dtype=np.int64) - sp.eye_array(n, k=-1, dtype=np.int64)
    squares = np.append(1 / below[:-1] + 1 / weight[1:], 1 / below[-1])
    triangle = sp.diags_array([np.ones(n), -below[:-1] / below[1:]], offsets=[0, 1], shape=(n, n))
    return sp.csc_array(vectors), squares, sp.csr_array(triangle)


def _others(sums: sp.csc_array, sizes: Integers, tables: Sequence[HierarchicalTable]) -> list[Orthogonalised]:
    """Orthogonalise the components of class sums that are not tables, by QR in the inner product of class means."""
    done = np.zeros(sums.shape[0], dtype=bool)
    for table in tables:
        done[table.classes] = True
    left = sums[:, np.flatnonzero(~done[sums.indices[sums.indptr[:-1]]])]
    weighted = sp.csc_array(sp.diags_array(1 / np.sqrt(sizes)) @ left)
    component = support_components(left)[left.indices[left.indptr[:-1]]]
    found: list[Orthogonalised] = []
    for group in members(component):
        part = sp.csr_array(weighted[:, group])
        part = part[np.flatnonzero(np.diff(part.indptr))]
        size = float(part.shape[0]) * part.shape[1]
        _require_accurate(16 * UNIT * size * group.size**2, group.size)  # a condition number is at least the rank
        triangle = np.linalg.qr(part.toarray(), mode="r")
        triangle *= np.sign(np.diag(triangle))[:, np.newaxis]
        lengths = np.diag(triangle).copy()
        condition = size * np.linalg.norm(triangle) * np.linalg.norm(np.linalg.inv(triangle))
        mu = sp.csr_array(np.triu(triangle * (1 / lengths)[:, np.newaxis], k=1))
        found.append((left[:, group], lengths**2, mu, max(1.0, float(condition))))
    return found


def _require_accurate(loss: float, rank: int) -> None:
    if loss > LARGEST_LOSS:
        raise InvariantError(
            f"the crossing public sums leave sums of rank {rank:,}, too ill-conditioned for the sequential "
            "sampler: the limits are a million cells for complete tables with margins and a rank "
            "of about 2,500 for other crossing sums; publish fewer crossing sums"
        )


def squares_across(x: Structure, step: Integers) -> Reals:
    """Return the squared lengths of the orthogonal parts of a basis of ``{z : A z = 0, <z, h> = 0}``."""
    if x.tables:
        whole = klein(x.lattice, x.tables)
        m = whole.squares.size
        mu = sp.csr_array((whole.factors, whole.columns, whole.starts), shape=(m, m))
        triangle = sp.csr_array(mu + sp.eye_array(m))
        weights = whole.basis.T @ step
        along = spsolve_triangular(sp.csr_array(triangle.T), weights.astype(np.float64), lower=True)
        found = np.rint(spsolve_triangular(triangle, along / whole.squares, lower=False)).astype(np.int64)
        assert not np.any(whole.basis @ found - step), "the step is not a vector of the lattice, or too long"
        start = np.isin(np.arange(m), np.flatnonzero((weights != 0) | (found != 0))).astype(np.int8)
        # graph: an extra node points to the first vectors of D, each vector points to the vectors it depends on
        graph = sp.vstack([sp.csr_array(mu.T != 0), sp.csr_array(start[np.newaxis])], format="csr")
        graph.resize((m + 1, m + 1))
        anew = np.sort(breadth_first_order(graph, m, return_predecessors=False)[1:])
        if anew.size <= LARGEST:
            across = kernel((whole.basis.T @ step)[anew][np.newaxis]).basis
            vectors = sp.csr_array((sp.csc_array(whole.basis)[:, anew] @ across).T)
            cells = np.unique(vectors.indices)
            if not cells.size:
                return np.delete(whole.squares, anew)
            short = fmpz_mat(vectors[:, cells].toarray().tolist()).lll().tolist()
            lengths = np.diag(np.linalg.qr(np.array(short, dtype=np.float64).T, mode="r"))
            return np.concatenate([lengths**2, np.delete(whole.squares, anew)])
    rows = sp.csc_array(x.class_system)[:, x.classes]
    further = structure(sp.vstack([rows, sp.csr_array(step[np.newaxis])]))
    return np.asarray(klein(further.lattice, further.tables).squares)
