r"""Short vectors of a lattice, and the sets of wide cells that support enough of them.

Let W be the wide cells and N the other cells. W *supports* the lattice L at length p if among the listed vectors

- every cell of N has a vector that is 1 or -1 there, 0 on the rest of N, and of squared length at most p on W, and
- the vectors within W of squared length at most p + 1 have the rank of the remaining lattice, modulo 2.

A further wide cell preserves both conditions: its own vector joins the vectors within W, and it is odd where they
were 0. Then there is a basis of L whose vectors b_i, those of N last, add at most p / tau to 1 / v_i if wide cells have
scale tau or more. The vectors s_i above are independent, S = B_0 Q in any basis B_0. With Q = U H, U unimodular and H
upper triangular, B = B_0 U is a basis of L with s_i = sum_(k <= i) H_ki b_k. Its orthogonal parts are therefore not
longer than the orthogonal parts of S in any metric (D. Micciancio and S. Goldwasser, Complexity of Lattice Problems,
2002, lemma 7.1). In most cases S is a basis itself.
"""

from functools import lru_cache

import numpy as np
from flint import fmpq_mat, fmpz_mat
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit

MOST = 2**12  # largest number of listed vectors
ENTRIES = 2**21  # number of sums of vectors per batch
TRIED = 2**11  # number of vectors whose sums are all computed
ROUNDS = 12
REMEMBERED = 2**12
HELD = 2**22  # entries of cached bases
EXACT = 2.0**50  # sums of integers of this size are exact in floating point

type Vectors = NDArray[np.int64]


class ShortMoves:
    """Short vectors of a lattice."""

    def __init__(self, basis: Vectors) -> None:
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

    def supports(self, wide: NDArray[np.bool_], path: int) -> bool:
        """Return whether wide cells support the lattice; patterns of small lattices are cached."""
        return self._remembered(wide.tobytes(), path)

    def _supports(self, pattern: bytes, path: int) -> bool:
        wide = np.frombuffer(pattern, dtype=np.bool_)
        within, alone = self._vectors_by_support(wide, wide.astype(np.float64), path)
        wanted = self.m - alone.size
        return bool((alone >= 0).all()) and independent_modulo_2(self._odd, within, wanted).size == wanted

    def basis_on(self, t: NDArray[np.float64], wide: NDArray[np.bool_], path: int) -> Vectors:
        """Return a basis of a supported lattice, shape (d, m), of short vectors in the metric of the scales."""
        within, alone = self._vectors_by_support(wide, np.where(wide, 1 / t, 0.0), path)
        chosen = independent_modulo_2(self._odd, within, self.m - alone.size)
        return self._bases(np.concatenate([chosen, alone]).tobytes())

    def _basis_of(self, places: bytes) -> Vectors:
        found = lattice_basis(self.basis, self.vectors[np.frombuffer(places, dtype=np.int64)].T)
        found.flags.writeable = False
        return found

    def _vectors_by_support(
        self, wide: NDArray[np.bool_], weights: NDArray[np.float64], path: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the vectors within the wide cells by length, and the shortest vector for each other cell."""
        listed = int(np.searchsorted(self.norms, path + 1, side="right"))
        return _shortest(self.vectors[:listed], wide, weights)


@jit
def _shortest(
    vectors: Vectors, wide: NDArray[np.bool_], weights: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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


def _combined(basis: Vectors) -> Vectors:
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


def _unique(vectors: Vectors) -> Vectors:
    """Return unique vectors up to sign, identified by a random linear form modulo 2^64."""
    form = np.random.default_rng(1).integers(1, 2**62, vectors.shape[1])
    return vectors[np.unique(np.abs(vectors @ form), return_index=True)[1]]


@jit
def independent_modulo_2(odd: NDArray[np.uint8], candidates: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    """Choose up to `wanted` vectors that are independent modulo 2, in order."""
    width = odd.shape[1]
    chosen = np.empty(max(wanted, 0), dtype=np.int64)
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


def lattice_basis(basis: Vectors, found: Vectors) -> Vectors:
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
