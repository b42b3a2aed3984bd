"""l1 Laplace noise on a small lattice by rejection: exact and independent draws.

P(z) is proportional to exp(-epsilon |z|_1) on {z : A z = 0}. Where a basis has an identity block, some cells
are free and the others integer combinations of them; free cells drawn from the double geometric law,
kept with probability exp(-epsilon |dependent cells|_1), have the right law. Two things make that pay:

- A dependent cell that is plus or minus the sum of some free cells forms a signed class with them, drawn
  exactly (`ppdinf.noise.exact.single_sums`) and never rejected. As many such classes as fit without overlap are
  drawn first: the rows of a two-way table, say, all but the last.
- The rest decides. Its acceptance falls exponentially with the number of dependent cells left, so it is
  estimated beforehand.

Every decision is exact: the exponent is a rational times an integer.

References
----------
J. von Neumann, "Various techniques used in connection with random digits", NBS Applied Mathematics
Series 12, 1951.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray
from scipy import sparse

from ppdinf._internal.rationals import ball
from ppdinf.lattice.algebra.integer_elimination import eliminate_units, sparse_rows
from ppdinf.lattice.algebra.kernel import Lattice
from ppdinf.lattice.structure.blocks import Structure
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.noise.exact.single_sums import draw_class
from ppdinf.noise.primitives.bernoulli import draw_bernoulli
from ppdinf.noise.primitives.integers import discrete_laplace, positive
from ppdinf.noise.primitives.sampler_offer import Answer, Declined, Offer, is_one_block
from ppdinf.noise.primitives.stream import BitStream, seeded_stream

__all__ = ["Core", "core", "core_acceptance", "draw_core", "offer", "quick_offer"]

BATCH = 2**20  # cells at a time
PILOT = 2**22  # cells that estimate the acceptance
QUICK = 2 * 10**4  # cells drawn for one draw that is not worth avoiding
LONGEST = 4 * 10**8  # cells drawn for one draw, some twenty seconds


def offer(structure: Structure, law: Law, cells: NDArray[np.int64], *, longest: float = LONGEST) -> Answer:
    """Offer to draw a block where enough attempts are kept."""
    if not isinstance(law, DoubleGeometric) or not is_one_block(structure, cells):
        return None
    split, acceptance = _tried(structure, int(structure.blocks[cells[0]]), law.epsilon)
    near = acceptance * longest / cells.size
    if split is None or near < 1:
        return Declined(lambda: f"rejection would keep about {acceptance:.0e} of its attempts", near)

    def draw(size: int, stream: BitStream) -> NDArray[np.int64]:
        return draw_core(split, law.epsilon, stream, size=size)

    return Offer("rejection", cells, lambda: draw, acceptance, block="of public sums that cross")


def quick_offer(structure: Structure, law: Law, cells: NDArray[np.int64]) -> Answer:
    """Offer to draw a block where a draw takes a millisecond at most, and leave the others to be asked about later."""
    answer = offer(structure, law, cells, longest=QUICK)
    return answer if isinstance(answer, Offer) else None


@lru_cache(maxsize=16)
def _tried(structure: Structure, block: int, epsilon: Fraction) -> tuple["Core | None", float]:
    """Split a block, and estimate the acceptance."""
    split = core(structure.restricted(np.flatnonzero(structure.blocks == block))[0])
    return split, 0.0 if split is None else core_acceptance(split, epsilon)


@dataclass(frozen=True, eq=False)
class Core:
    """A lattice split into cells drawn freely, signed classes, and cells that decide; build it with `core`.

    Attributes
    ----------
    free : ndarray of int64
        Cells with noise of their own.
    classes : list of (ndarray of int64, ndarray of int64)
        Cells and signs: the signed sum over each class is zero.
    deciding : ndarray of int64
        Cells that depend on all others.
    combination : scipy.sparse.csr_array of int64, shape (n_deciding, d)
        The deciding cells as combinations of the others.
    """

    free: NDArray[np.int64]
    classes: list[tuple[NDArray[np.int64], NDArray[np.int64]]]
    deciding: NDArray[np.int64]
    combination: sparse.csr_array

    def propose(self, epsilon: Fraction, size: int, stream: BitStream) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw vectors, and the l1 size of the cells that decide on each."""
        z = np.zeros((size, self.combination.shape[1]), dtype=np.int64)
        z[:, self.free] = discrete_laplace(epsilon, size * self.free.size, stream).reshape(size, -1)
        for cells, signs in self.classes:
            z[:, cells] = signs * draw_class(cells.size, 0, epsilon, stream, size=size)
        z[:, self.deciding] = (self.combination @ z.T).T
        return z, np.abs(z[:, self.deciding]).sum(axis=1)


def core(lattice: Lattice) -> Core | None:
    """Split the cells of a lattice for rejection; None where its basis has no identity block.

    Examples
    --------
    >>> from ppdinf.lattice import kernel, margin_matrix
    >>> split = core(kernel(margin_matrix((3, 4), [(0,), (1,)])))
    >>> [cells.size for cells, _ in split.classes], split.deciding.size, core(kernel([[2, 3, 5]]))
    ([3, 3, 3], 3, None)
    """
    d, sums = lattice.classes.size, sparse.csr_array(lattice.class_basis)
    sizes = np.bincount(lattice.classes, minlength=sums.shape[0])
    lead = _leaders(sums, sizes)
    if lead is None:
        return None
    dependent = np.setdiff1d(np.arange(sums.shape[0]), lead)
    by_lead = sparse.csr_array(_combinations(sums, lead)[dependent])
    lengths = np.diff(by_lead.indptr)
    members = np.split(np.arange(d)[np.argsort(lattice.classes, kind="stable")], np.cumsum(sizes)[:-1])

    classes, deciding, used = [], [], np.zeros(sums.shape[1], dtype=bool)
    for i in np.argsort(lengths, kind="stable"):
        row = slice(by_lead.indptr[i], by_lead.indptr[i + 1])
        sources, signs = by_lead.indices[row], by_lead.data[row]
        if used[sources].any() or (np.abs(signs) != 1).any():
            deciding.append(i)
            continue
        used[sources] = True
        parts = [members[dependent[i]], *(members[lead[k]] for k in sources)]
        signed = np.repeat([1, *-signs], [part.size for part in parts])
        classes.append((np.concatenate(parts), signed))
    chosen = dependent[np.array(deciding, dtype=np.int64)]
    cells = lattice.representatives[chosen]
    spread = sparse.csr_array((np.ones(d, np.int64), (lattice.classes, np.arange(d))), shape=(sums.shape[0], d))
    own = sparse.csr_array(spread[chosen])
    own[np.arange(cells.size), cells] = 0
    combination = sparse.csr_array(by_lead[deciding] @ spread[lead] - own)
    loose = np.ones(d, dtype=bool)
    loose[cells] = False
    for group, _ in classes:
        loose[group] = False
    return Core(np.flatnonzero(loose), classes, cells, combination)


def _leaders(sums: sparse.csr_array, sizes: NDArray[np.integer]) -> NDArray[np.int64] | None:
    """Find class sums that determine all others by integer combinations, one for each basis vector."""
    single = np.flatnonzero(np.diff(sums.indptr) == 1)
    single = single[np.abs(sums.data[sums.indptr[single]]) == 1]
    single = single[np.argsort(sizes[single], kind="stable")]  # small classes free: the others decide more mildly
    column, first = np.unique(sums.indices[sums.indptr[single]], return_index=True)
    if column.size == sums.shape[1]:
        leaders: NDArray[np.int64] = single[first]
        return leaders
    pivots = eliminate_units(sparse_rows(sums.T))
    return np.array(pivots.columns, dtype=np.int64) if len(pivots.columns) == sums.shape[1] else None


def _combinations(sums: sparse.csr_array, lead: NDArray[np.int64]) -> sparse.csr_array:
    """Return all class sums as combinations of those that lead."""
    square = sparse.csr_array(sums[lead])
    if (np.diff(square.indptr) == 1).all():
        return sparse.csr_array(sums @ square.T)  # a signed permutation is the inverse of its transpose
    inverse = fmpz_mat(square.toarray().tolist()).inv()  # of determinant 1 or -1
    return sparse.csr_array(sums @ np.array([[int(x.p) for x in row] for row in inverse.tolist()], dtype=np.int64))


def draw_core(split: Core, epsilon: Fraction, stream: BitStream, *, size: int = 1) -> NDArray[np.int64]:
    """Draw from the l1 Laplace law on a lattice, exactly.

    Parameters
    ----------
    split : Core
        The lattice, from `core`.
    epsilon : Fraction or int
        Positive; the law is proportional to exp(-epsilon |z|_1).
    stream : BitStream
        Source of words: at most 2d an attempt, hardly ever more.
    size : int
        Number of independent draws.

    Returns
    -------
    ndarray of int64, shape (size, d)

    Raises
    ------
    PrivacyError
        If epsilon is not a positive rational, or so small that draws might not fit 64 bits.

    Notes
    -----
    About 50 ns per cell and attempt from a secure stream, 1 / `core_acceptance` attempts a draw. The number of
    attempts says nothing of the draw that is kept.

    Examples
    --------
    >>> from ppdinf.lattice import kernel, margin_matrix
    >>> split = core(kernel(margin_matrix((3, 3), [(0,), (1,)])))
    >>> draw_core(split, Fraction(1), seeded_stream(1)).reshape(3, 3)
    array([[ 0,  0,  0],
           [ 1, -1,  0],
           [-1,  1,  0]])
    """
    epsilon = positive("epsilon", epsilon)
    d = split.combination.shape[1]
    noise, done, attempts = np.empty((size, d), dtype=np.int64), 0, size
    while done < size:
        z, decides = split.propose(epsilon, min(attempts, max(1, BATCH // d)), stream)
        kept = np.flatnonzero(_tossed(epsilon, decides, stream))[: size - done]
        noise[done : done + kept.size] = z[kept]
        done += kept.size
        attempts = 2 * attempts if not kept.size else 1 + (size - done) * len(z) // kept.size
    return noise


def core_acceptance(split: Core, epsilon: Fraction) -> float:
    """Estimate the share of proposals that `draw_core` keeps, from seeded ones.

    Examples
    --------
    >>> from ppdinf.lattice import kernel, margin_matrix
    >>> round(core_acceptance(core(kernel(margin_matrix((3, 3), [(0,), (1,)]))), Fraction(1, 4)), 2)
    0.15
    """
    rows, stream, sums = max(1, BATCH // split.combination.shape[1]), seeded_stream(0), []
    for _ in range(PILOT // BATCH):
        _, decides = split.propose(positive("epsilon", epsilon), rows, stream)
        sums.append(np.exp(-float(epsilon) * decides).mean())
    return float(np.mean(sums))


def _tossed(epsilon: Fraction, decides: NDArray[np.int64], stream: BitStream) -> NDArray[np.bool_]:
    """Toss a coin of probability exp(-epsilon k) for each k."""
    exponent: NDArray[np.float64] = np.multiply(decides, float(epsilon))
    return draw_bernoulli(-exponent, 2.0**-50 * exponent, lambda i: (-ball(epsilon * int(decides[i]))).exp(), stream)
