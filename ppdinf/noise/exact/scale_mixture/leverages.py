r"""A lower bound on det(A T A'), T = diag t, that is a product over disjoint sums and single cells.

By Cauchy and Binet, det(A T A') = sum over bases B of det(A_B)^2 prod_{e in B} t_e. This is a mean of monomials. The
inequality of arithmetic and geometric means gives

    det(A T A') >= det(A A') prod_e t_e^(p_e),      p_e = a_e' (A A')^-1 a_e,

with equality if all scales are equal. For sums d_i = A' h_i with disjoint supports S_i, let u_i = d_i / |d_i| and
R_i = u_i' T u_i. In coordinates where A A' = 1 the Schur complement det(A T A') / prod_i R_i is the determinant of
sum_i U_i' X_i U_i, where X_i is the covariance over S_i given the sum and sum_i U_i' U_i = 1. The logarithm of matrices
is operator concave, so log det is at least sum_i tr(P_i log X_i), P_i = U_i U_i'. Two bounds on this term are combined:

- If P_i is c_i times the identity (c_i (Q_i - u_i u_i') in the space of the cells, Q_i the projection onto the rows of
A
  over S_i), the term is c_i times the bound by the leverages q_e within S_i.
- For any P_i, concavity again gives a bound, because X_i = sum_{j<k} t_j t_k / R_i w w', w = u_k e_j - u_j e_k, is the
  identity if all scales are 1. The bound is sum_{j<k} w' P_i w log(t_j t_k / R_i).

Let c_i be the smallest eigenvalue of P_i. Applying the first bound to c_i times the identity and the second one to the
rest of P_i gives

    det(A T A') >= det(A A') prod_i R_i^(b_i) prod_e t_e^(p_e - b_i u_ie^2),     b_i = 1 - tr P_i + c_i (tr Q_i - 2),

where cells in no sum have the factor t_e^(p_e). The log of the bound is linear in b_i and valid for b_i = 0, so every
smaller non-negative b_i is valid. For margins of complete tables P_i is c_i times the identity, by symmetry, and
b_i = 1 - c_i; for rows of a two-way table b_i = 1 - 1 / r. Structural zeros make b_i slightly smaller.

A cell with p_e = 1 is zero on the whole lattice; such cells are excluded here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat, fmpq, fmpq_mat, fmpz_mat
from numpy.typing import NDArray

ORDERS = 256  # number of orders of the sums that are tried for a large disjoint family
LEAST = Fraction(
    1, 4
)  # smallest useful power of a sum that `ppdinf.noise.exact.scale_mixture.exact_gamma.betas` can draw
STEPS = 2**10  # powers are integer multiples of its inverse, unless they are simple fractions


@dataclass(frozen=True, eq=False)
class DisjointSum:
    """A sum over cells that can be integrated out."""

    cells: NDArray[np.int64]
    entries: NDArray[np.int64]
    power: Fraction

    @property
    def shares(self) -> list[Fraction]:
        """Squares of the entries, divided by their sum."""
        squares = [a * a for a in self.entries.tolist()]
        return [Fraction(a, sum(squares)) for a in squares]


class Leverages:
    """A system of full row rank, and the leverage of each cell."""

    def __init__(self, A: NDArray[np.int64]) -> None:
        self.A = A
        matrix = fmpz_mat(A.tolist())
        gram = matrix * matrix.transpose()
        self.determinant = int(gram.det())
        self.projection = _projection(matrix)
        self.exact = _diagonal(self.projection)
        cells, rows = np.nonzero(A.T)
        self.starts = np.searchsorted(cells, np.arange(A.shape[1] + 1))
        self.rows, self.entries = rows, A[rows, cells].astype(np.float64)

    def integrated(self, entries: NDArray[np.int64]) -> DisjointSum | None:
        """Return a sum of the row space as a sum to be integrated out, or None if this gains nothing."""
        cells = np.flatnonzero(entries)
        own = entries[cells].tolist()
        restricted = fmpz_mat(self.A[:, cells].tolist())
        inner = _projection(fmpz_mat([restricted.tolist()[i] for i in independent_rows(self.A[:, cells])]))
        outer = fmpq_mat(
            cells.size, cells.size, [self.projection[i, j] for i in cells.tolist() for j in cells.tolist()]
        )
        along = fmpq_mat(fmpz_mat([[x * y for y in own] for x in own])) / sum(x * x for x in own)
        free, bound = inner - along, outer - along
        dimension, weight = sum(_diagonal(free), Fraction(0)), sum(_diagonal(bound), Fraction(0))
        share = weight / dimension if dimension else Fraction(0)
        power = 1 - share
        if bound != free * fmpq(share.numerator, share.denominator):
            share = _smallest_eigenvalue(bound, free, int(dimension))
            power = Fraction(math.floor(STEPS * (1 - weight + share * (dimension - 1))), STEPS)
        return DisjointSum(cells, entries[cells], power) if power >= LEAST else None

    def enclose_log_determinant(self, t: list[arb]) -> arb:
        """Enclose log det(A T A')."""
        rows = [[(e, a) for e, a in enumerate(row) if a] for row in self.A.tolist()]
        dense = self.A.tolist()
        gram = [[sum((a * b[e] * t[e] for e, a in row), arb(0)) for b in dense] for row in rows]
        return arb_mat(gram).det().log()


def disjoint(sums: Sequence[DisjointSum], cells: int) -> list[DisjointSum]:
    """Choose sums without common cells and with large total power: greedily, in orders by size and at random."""
    rng, best = np.random.default_rng(0), list[DisjointSum]()
    for attempt in range(ORDERS if sums else 0):
        noise = rng.random(len(sums)) * (attempt > 0)
        taken, found = np.zeros(cells, dtype=np.bool_), []
        for k in np.lexsort((rng.random(len(sums)), np.array([one.cells.size for one in sums]) * (1 + noise))).tolist():
            if not taken[sums[k].cells].any():
                taken[sums[k].cells] = True
                found.append(sums[k])
        if sum(one.power for one in found) > sum(one.power for one in best):
            best = found
    return best


def independent_rows(A: NDArray[np.int64]) -> list[int]:
    """Choose rows of A that span its row space."""
    echelon, rank = fmpz_mat(A.T.tolist()).rref()[::2]
    found = []
    for i in range(rank):
        found.append(next(j for j in range(A.shape[0]) if echelon[i, j]))
    return found


def _projection(matrix: fmpz_mat) -> fmpq_mat:
    """Return the projection onto the rows of a matrix of full row rank."""
    across = matrix.transpose()
    return fmpq_mat(across) * fmpq_mat(matrix * across).inv() * fmpq_mat(matrix)


def _smallest_eigenvalue(matrix: fmpq_mat, identity: fmpq_mat, dimension: int) -> Fraction:
    """Return a non-negative lower bound on the smallest eigenvalue of a matrix on the image of a projection."""
    found = np.linalg.eigvalsh([[float(fmpq(x).p) / float(fmpq(x).q) for x in row] for row in matrix.tolist()])
    least = Fraction(max(0, math.floor(found[-dimension] * STEPS**2) - 1), STEPS**2)
    rest = matrix - identity * fmpq(least.numerator, least.denominator)
    signs = [x * (-1) ** i for i, x in enumerate(reversed(rest.charpoly().coeffs()))]
    return least if all(x >= 0 for x in signs) else Fraction(0)  # roots are real and non-negative


def _diagonal(matrix: fmpq_mat) -> list[Fraction]:
    return [Fraction(int(matrix[e, e].p), int(matrix[e, e].q)) for e in range(matrix.nrows())]
