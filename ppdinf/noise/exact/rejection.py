"""l1 Laplace noise on a small lattice by rejection: exact and independent draws.

P(z) is proportional to exp(-epsilon |z|_1) on {z : A z = 0}. If a basis has an identity block, some cells are free and
the other cells are integer combinations of the free cells. Free cells are drawn from the double geometric law and
accepted with probability exp(-epsilon |dependent cells|_1), which gives the stated law. Two steps increase the
acceptance rate:

- A dependent cell that is plus or minus the sum of some free cells forms a signed class with them. The class is drawn
  exactly (`ppdinf.noise.exact.single_sums`) without rejection. As many disjoint classes as possible are drawn first,
  for example all rows but one of a two-way table.
- The remaining dependent cells decide the acceptance. The acceptance rate decreases exponentially with their number. It
  is estimated beforehand.

Every decision is exact, because the exponent is a rational times an integer (von Neumann, 1951).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray
from scipy import sparse

from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.lattice.blocks import Structure
from ppdinf.lattice.integer_rows import eliminate_units, sparse_rows
from ppdinf.lattice.kernel import Lattice
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.noise.exact.sampler_offer import Answer, Declined, Offer, is_one_block
from ppdinf.noise.exact.single_sums import draw_class
from ppdinf.noise.primitives.enclosures import draw_bernoulli
from ppdinf.noise.primitives.integers import draw_discrete_laplace, positive_fraction
from ppdinf.noise.primitives.stream import BitStream, seeded_stream

BATCH = 2**20  # cells per batch
PILOT = 2**22  # cells of the pilot run that estimates the acceptance rate
QUICK = 2 * 10**4  # cells drawn per accepted draw, cheap enough to use at once
LONGEST = 4 * 10**8  # cells drawn per accepted draw, about 20 s


def offer(structure: Structure, law: Law, cells: Integers, *, longest: float = LONGEST) -> Answer:
    """Offer to draw a block if the acceptance rate is high enough."""
    if not isinstance(law, DoubleGeometric) or not is_one_block(structure, cells):
        return None
    block = int(structure.blocks[cells[0]])
    split = _split_block(structure, block)
    acceptance = 0.0 if split is None else _acceptance(split, law.epsilon)
    near = acceptance * longest / cells.size
    if split is None or near < 1:
        return Declined(lambda: f"the acceptance rate of rejection would be about {acceptance:.0e}", near)

    def draw(size: int, stream: BitStream) -> Integers:
        return draw_by_rejection(split, law.epsilon, stream, size=size)

    return Offer("rejection", cells, lambda: draw, acceptance, block="of public sums that cross")


def quick_offer(structure: Structure, law: Law, cells: Integers) -> Answer:
    """Offer to draw a block if a draw takes at most 1 ms; return None otherwise."""
    answer = offer(structure, law, cells, longest=QUICK)
    return answer if isinstance(answer, Offer) else None


@lru_cache(maxsize=16)
def _split_block(structure: Structure, block: int) -> "LatticeSplit | None":
    return split_lattice(structure.restricted(np.flatnonzero(structure.blocks == block))[0])


@lru_cache(maxsize=16)
def _acceptance(split: "LatticeSplit", epsilon: Fraction) -> float:
    return rejection_acceptance(split, epsilon)


@dataclass(frozen=True, eq=False)
class LatticeSplit:
    """A lattice split into free cells, signed classes, and deciding cells; the constructor is `split_lattice`."""

    free: Integers
    classes: list[tuple[Integers, Integers]]
    deciding: Integers
    combination: sparse.csr_array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LatticeSplit) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @cached_property
    def _content(self) -> tuple[bytes, ...]:
        """All cells and signs: blocks of the same form have equal splits and one pilot run."""
        combination = self.combination.data, self.combination.indices, self.combination.indptr
        classes = [array for one in self.classes for array in one]
        return tuple(array.tobytes() for array in (self.free, self.deciding, *combination, *classes))

    def propose(self, epsilon: Fraction, size: int, stream: BitStream) -> tuple[Integers, Integers]:
        """Draw vectors, and the l1 norm of the deciding cells of each vector."""
        z = np.zeros((size, self.combination.shape[1]), dtype=np.int64)
        z[:, self.free] = draw_discrete_laplace(epsilon, size * self.free.size, stream).reshape(size, -1)
        for cells, signs in self.classes:
            z[:, cells] = signs * draw_class(cells.size, 0, epsilon, stream, size=size)
        z[:, self.deciding] = (self.combination @ z.T).T
        return z, np.abs(z[:, self.deciding]).sum(axis=1)


def split_lattice(lattice: Lattice) -> LatticeSplit | None:
    """Split the cells of a lattice for rejection; return None if its basis does not have an identity block."""
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
    free = np.setdiff1d(np.arange(d), np.concatenate([cells, *(group for group, _ in classes)]))
    return LatticeSplit(free, classes, cells, combination)


def _leaders(sums: sparse.csr_array, sizes: NDArray[np.integer]) -> Integers | None:
    """Return class sums that determine all others by integer combinations, one for each basis vector."""
    single = np.flatnonzero(np.diff(sums.indptr) == 1)
    single = single[np.abs(sums.data[sums.indptr[single]]) == 1]
    # small classes are free: fewer cells decide the acceptance
    single = single[np.argsort(sizes[single], kind="stable")]
    column, first = np.unique(sums.indices[sums.indptr[single]], return_index=True)
    if column.size == sums.shape[1]:
        return single[first]
    pivots = eliminate_units(sparse_rows(sums.T))
    return np.array(pivots.columns, dtype=np.int64) if len(pivots.columns) == sums.shape[1] else None


def _combinations(sums: sparse.csr_array, lead: Integers) -> sparse.csr_array:
    """Return all class sums as combinations of the leading ones."""
    square = sparse.csr_array(sums[lead])
    if (np.diff(square.indptr) == 1).all():
        return sparse.csr_array(sums @ square.T)  # the inverse of a signed permutation is its transpose
    inverse = fmpz_mat(square.toarray().tolist()).inv()  # determinant 1 or -1
    return sparse.csr_array(sums @ np.array([[int(x.p) for x in row] for row in inverse.tolist()], dtype=np.int64))


def draw_by_rejection(split: LatticeSplit, epsilon: Fraction, stream: BitStream, *, size: int = 1) -> Integers:
    """Draw from the l1 Laplace law on a lattice exactly."""
    epsilon = positive_fraction("epsilon", epsilon)
    d = split.combination.shape[1]
    noise, done, attempts = np.empty((size, d), dtype=np.int64), 0, size
    while done < size:
        z, decides = split.propose(epsilon, min(attempts, max(1, BATCH // d)), stream)
        kept = np.flatnonzero(_accepted(epsilon, decides, stream))[: size - done]
        noise[done : done + kept.size] = z[kept]
        done += kept.size
        attempts = 2 * attempts if not kept.size else 1 + (size - done) * len(z) // kept.size
    return noise


def rejection_acceptance(split: LatticeSplit, epsilon: Fraction) -> float:
    """Estimate the acceptance rate of `draw_by_rejection` from seeded proposals."""
    rows, stream, sums = max(1, BATCH // split.combination.shape[1]), seeded_stream(0), []
    for _ in range(PILOT // BATCH):
        _, decides = split.propose(positive_fraction("epsilon", epsilon), rows, stream)
        sums.append(np.exp(-float(epsilon) * decides).mean())
    return float(np.mean(sums))


def _accepted(epsilon: Fraction, decides: Integers, stream: BitStream) -> Flags:
    """Draw a Bernoulli variable with probability exp(-epsilon k) for each k."""
    exponent: Reals = np.multiply(decides, float(epsilon))
    return draw_bernoulli(-exponent, 2.0**-50 * exponent, lambda i: (-ball(epsilon * int(decides[i]))).exp(), stream)
