"""Integer linear algebra of public sums: rows, kernels, structure, feasible points, moves.

Rule: integer results are exact or certified. Input is matrices; labels and mechanisms belong to other packages.

algebra     Integer matrices and exact linear algebra: kernels, solutions, bases, certificates.
moves       Moves that connect the tables of a fiber: Markov bases and special families.
null_space  The real null space N of public sums: projection onto it, and an orthonormal basis.
points      Integer points of fibers: feasible tables, enumeration, fixed cells, short vectors.
structure   Structure of systems of sums: independent blocks, two-way tables, elimination orders.
"""

from ppdinf.lattice.algebra.certificate import certify, is_saturated
from ppdinf.lattice.algebra.integer_rows import RowAlgebra, check_consistent, contradiction, rank, row_algebra
from ppdinf.lattice.algebra.kernel import Lattice, kernel
from ppdinf.lattice.algebra.margins import margin_kernel, margin_matrix
from ppdinf.lattice.algebra.solution import integer_solution
from ppdinf.lattice.moves.moves import Moves, connected_moves, margin_moves
from ppdinf.lattice.points.feasible import nearest_feasible
from ppdinf.lattice.structure.blocks import Structure, structure

__all__ = [
    "Lattice",
    "Moves",
    "RowAlgebra",
    "Structure",
    "certify",
    "check_consistent",
    "connected_moves",
    "contradiction",
    "integer_solution",
    "is_saturated",
    "kernel",
    "margin_kernel",
    "margin_matrix",
    "margin_moves",
    "nearest_feasible",
    "rank",
    "row_algebra",
    "structure",
]
