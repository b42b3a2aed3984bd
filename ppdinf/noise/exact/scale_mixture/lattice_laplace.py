"""Exact l1 noise on any lattice {A z = 0} with small rank of A."""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, fmpq_mat, fmpz_mat
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.lattice.blocks import Structure
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.noise.exact import rejection
from ppdinf.noise.exact.sampler_offer import Answer, Declined, Offer, is_one_block
from ppdinf.noise.exact.scale_mixture.klein_given_scales import Drawn, draw_on
from ppdinf.noise.exact.scale_mixture.lattice_scales import Leverages, LeverageScales, disjoint, independent_rows
from ppdinf.noise.exact.scale_mixture.mixture import ScaleMixture
from ppdinf.noise.exact.scale_mixture.scales import END
from ppdinf.noise.exact.scale_mixture.two_way_laplace import as_two_way_table
from ppdinf.noise.primitives.stream import BitStream

MOST = 2**12  # largest number of listed vectors
ENTRIES = 2**21  # number of sums of vectors per batch
TRIED = 2**11  # number of vectors whose sums are all computed
ROUNDS = 12
REMEMBERED = 2**12
HELD = 2**22  # entries of cached bases
EXACT = 2.0**50  # sums of integers of this size are exact in floating point
LONGEST = 20.0  # longest time of a draw in seconds
PER_CELL = 2e-7  # seconds per attempt
PER_STEP = 1e-9  # seconds per multiplication
REJECTION = 5e-8  # seconds per cell and attempt of `ppdinf.noise.exact.rejection`
QUICK = 5e-3  # seconds per draw by rejection, fast enough to use it
PER_ROW = 0.2  # smallest decrease of the log acceptance rate per row of A
LARGEST_RANK = 300  # largest rank of the lattice
HIGHEST = Fraction(15, 16)  # largest leverage of a cell


class ShortMoves:
    """Short vectors of a lattice."""

    def __init__(self, basis: Integers) -> None:
        self.d, self.m = basis.shape
        self.basis = np.array(fmpz_mat(basis.T.tolist()).lll().tolist(), dtype=object).astype(np.int64).T
        vectors = _combined(self.basis.T)
        norms = (vectors**2).sum(axis=1)
        order = np.argsort(norms, kind="stable")
        self.vectors, self.norms = vectors[order], norms[order]
        self._odd = np.ascontiguousarray(np.packbits(self.vectors & 1, axis=1))
        self._remembered = lru_cache(maxsize=REMEMBERED)(self._supports)
        self._bases = lru_cache(maxsize=min(REMEMBERED, HELD // basis.size))(self._basis_of)
        every = np.ones(self.d, dtype=np.bool_)
        lengths = [int(norm) for norm in np.unique(norms) if self.supports(every, int(norm) - 1)]
        self.lengths = lengths[:3]

    def supports(self, wide: Flags, path: int) -> bool:
        """Return whether wide cells support the lattice; patterns of small lattices are cached."""
        return self._remembered(wide.tobytes(), path)

    def _supports(self, pattern: bytes, path: int) -> bool:
        wide = np.frombuffer(pattern, dtype=np.bool_)
        within, alone = self._vectors_by_support(wide, wide.astype(np.float64), path)
        wanted = self.m - alone.size
        return bool((alone >= 0).all()) and independent_modulo_2(self._odd, within, wanted).size == wanted

    def basis_on(self, t: Reals, wide: Flags, path: int) -> Integers:
        """Return a basis of a supported lattice, shape (d, m), of short vectors in the metric of the scales."""
        within, alone = self._vectors_by_support(wide, np.where(wide, 1 / t, 0.0), path)
        chosen = independent_modulo_2(self._odd, within, self.m - alone.size)
        return self._bases(np.concatenate([chosen, alone]).tobytes())

    def _basis_of(self, places: bytes) -> Integers:
        found = lattice_basis(self.basis, self.vectors[np.frombuffer(places, dtype=np.int64)].T)
        found.flags.writeable = False
        return found

    def _vectors_by_support(self, wide: Flags, weights: Reals, path: int) -> tuple[Integers, Integers]:
        """Return the vectors within the wide cells by length, and the shortest vector for each other cell."""
        listed = int(np.searchsorted(self.norms, path + 1, side="right"))
        return _shortest(self.vectors[:listed], wide, weights)


@jit
def _shortest(vectors: Integers, wide: Flags, weights: Reals) -> tuple[Integers, Integers]:
    """Return the vectors within wide cells by length, and for each other cell its shortest vector or -1."""
    d = wide.size
    within, lengths = np.empty(len(vectors), dtype=np.int64), np.empty(len(vectors))
    best, alone = np.full(d, np.inf), np.full(d, -1)
    size = 0
    for i in range(len(vectors)):
        reached, outside, length = -1, 0, 0.0
        for e in range(d):
            x = vectors[i, e]
            length += weights[e] * (x * x)
            if x and not wide[e]:
                reached, outside = e, outside + 1
        if outside == 0:
            within[size], lengths[size] = i, length
            size += 1
        elif outside == 1 and abs(vectors[i, reached]) == 1 and length < best[reached]:
            best[reached], alone[reached] = length, i
    return within[np.argsort(lengths[:size], kind="mergesort")], alone[~wide]


def _combined(basis: Integers) -> Integers:
    """Return sums and differences of short vectors, at most as long as the longest row of a basis."""
    rng = np.random.default_rng(0)
    longest = int((basis**2).sum(axis=1).max(initial=0))
    found = _unique(basis)
    for _ in range(ROUNDS):
        before = len(found)
        tried = found[rng.permutation(before)[:TRIED]]
        norms = (tried**2).sum(axis=1).astype(np.float32)
        overlap = tried.astype(np.float32) @ tried.T.astype(np.float32)
        lengths = np.triu(norms[:, np.newaxis] + norms - 2 * np.abs(overlap) - longest - 1, k=1)
        i, j = np.nonzero(lengths < 0)
        few = rng.permutation(i.size)
        few = few[np.argsort(lengths[i[few], j[few]], kind="stable")[: ENTRIES // basis.shape[1]]]
        both = tried[i[few]] - np.sign(overlap[i[few], j[few]]).astype(np.int64)[:, np.newaxis] * tried[j[few]]
        found = rng.permutation(_unique(np.concatenate([found, both[both.any(axis=1)]])))
        found = found[np.argsort((found**2).sum(axis=1), kind="stable")[:MOST]]
        if len(found) == before:
            break
    return _unique(np.concatenate([basis, found]))


def _unique(vectors: Integers) -> Integers:
    """Return unique vectors up to sign, identified by a random linear form modulo 2^64."""
    form = np.random.default_rng(1).integers(1, 2**62, vectors.shape[1])
    return vectors[np.unique(np.abs(vectors @ form), return_index=True)[1]]


@jit
def independent_modulo_2(odd: NDArray[np.uint8], candidates: Integers, wanted: int) -> Integers:
    """Choose up to `wanted` vectors that are independent modulo 2, in order."""
    width = odd.shape[1]
    chosen = np.empty(max(wanted, 0), np.int64)
    rows = np.zeros((max(wanted, 0), width), dtype=np.uint8)
    owner = np.full(8 * width, -1, dtype=np.int64)
    size = 0
    row = np.zeros(width, dtype=np.uint8)
    for candidate in candidates:
        if size >= wanted:
            break
        row[:] = odd[candidate]
        for byte in range(width):
            while row[byte]:
                bit = 0
                while not (row[byte] >> np.uint8(7 - bit)) & 1:
                    bit += 1
                place = owner[8 * byte + bit]
                if place < 0:
                    owner[8 * byte + bit] = size
                    rows[size] = row
                    chosen[size] = candidate
                    size += 1
                    break
                for other in range(byte, width):
                    row[other] ^= rows[place, other]
            if row[byte]:
                break
    return chosen[:size]


def lattice_basis(basis: Integers, found: Integers) -> Integers:
    """Return a lattice basis whose orthogonal parts are not longer than the parts of the given independent vectors."""
    rounded = found.astype(np.float64)
    back = np.rint(np.linalg.solve(rounded.T @ rounded, rounded.T @ basis))
    if np.array_equal(rounded @ back, basis) and (np.abs(rounded) @ np.abs(back)).max() < EXACT:
        return found
    left, exact = fmpz_mat(basis.T.tolist()), fmpz_mat(basis.tolist())
    Q = (left * exact).solve(left * fmpz_mat(found.tolist())).numer_denom()[0]
    unimodular = fmpq_mat(Q) * fmpq_mat(Q.hnf()).inv()  # the Hermite form is upper triangular
    product = (fmpq_mat(exact) * unimodular).numer_denom()[0]
    return np.array([[int(x) for x in row] for row in product.tolist()], dtype=np.int64)


def offer(structure: Structure, law: Law, cells: Integers) -> Answer:
    """Offer to draw a block that is not a two-way table, if the acceptance rate is high and rejection is slower."""
    if not isinstance(law, DoubleGeometric) or not is_one_block(structure, cells):
        return None
    block = int(structure.blocks[cells[0]])
    if structure.partition[block] or as_two_way_table(structure, block) is not None:
        return None
    n = int(cells.size - structure.block_ranks[block])
    if structure.block_ranks[block] > LARGEST_RANK or PER_ROW * n > math.log(LONGEST / (PER_CELL * cells.size)):
        return None
    other = rejection.offer(structure, law, cells)
    seconds_of_rejection = REJECTION * cells.size / (other.acceptance or 1.0) if isinstance(other, Offer) else math.inf
    if seconds_of_rejection < QUICK:
        return None
    prepared = _prepared(structure, block, law.epsilon)
    seconds = prepared.seconds
    if seconds > LONGEST:
        reason = f"the acceptance rate of a mixture over scales would be about {prepared.mixture.acceptance:.0e}"
        return Declined(lambda: reason, LONGEST / seconds)
    if seconds_of_rejection < seconds:
        return None
    said = f"of crossing public sums, drawn in about {max(seconds, 1e-3):.1g} s"
    return Offer("scale mixture", cells, lambda: prepared.mixture.draw, prepared.mixture.acceptance, said)


class LatticeSystem:
    """A lattice in the form of the mixture over scales: one row of cells."""

    def __init__(self, A: Integers, basis: Integers) -> None:
        self.leverages = Leverages(A[independent_rows(A)])
        rows = np.unique(A[A.any(axis=1)], axis=0)
        found = [one for row in rows if (one := self.leverages.integrated(row)) is not None]
        self.sums = disjoint(found, A.shape[1])
        self.moves = ShortMoves(basis)
        self.shape, self.m = (1, A.shape[1]), basis.shape[1]
        self.paths = [Fraction(length - 1) for length in self.moves.lengths]
        integers = fmpz_mat(basis.tolist())
        # det(B' T^-1 B) = det(A T A') / det T times a constant
        self._constant = Fraction(int((integers.transpose() * integers).det()), self.leverages.determinant)

    def scales(self, epsilon: Fraction, width: Fraction, path: Fraction) -> LeverageScales:
        """Return the law of the proposed scales."""
        return LeverageScales(self.leverages, self.sums, epsilon, min(END, width), path / width)

    def support(self, wide: Flags, path: Fraction) -> int | None:
        """Return the path length if wide cells support the lattice, otherwise None."""
        return int(path) if self.moves.supports(wide[0], int(path)) else None

    def noise(self, t: Reals, wide: Flags, support: int, stream: BitStream) -> Drawn:
        """Draw noise given scales."""
        basis = self.moves.basis_on(t[0], wide[0], support)
        drawn = draw_on(basis, t[0], stream)
        return Drawn(drawn.z[np.newaxis], drawn.x, drawn.centers, drawn.squares)

    def enclose_log_determinant(self, t: list[list[arb]]) -> arb:
        """Enclose log det(B' T^-1 B)."""
        logs = sum((x.log() for x in t[0]), start=arb(0))
        return self.leverages.enclose_log_determinant(t[0]) - logs + ball(self._constant).log()


class Prepared:
    """A mixture that is set up for a block, and the time of a draw."""

    def __init__(self, structure: Structure, block: int, epsilon: Fraction) -> None:
        cells = np.flatnonzero(structure.blocks == block)
        basis = structure.restricted(cells)[0].basis.toarray()
        A = structure.class_system[:, structure.classes[cells]].toarray()
        system = LatticeSystem(A, basis)
        self.mixture = ScaleMixture(system, epsilon)
        if max(system.leverages.exact) > HIGHEST:
            self.mixture.acceptance = 0.0
        n, d = system.leverages.A.shape
        attempt = PER_CELL * d + PER_STEP * (n**3 + d * n)
        check = PER_STEP * (1e5 + len(system.moves.vectors) * d + d**3 / 10)
        self.seconds = attempt / max(self.mixture.acceptance, 1e-300) + check * self.mixture.checks


_prepared = lru_cache(maxsize=8)(Prepared)
