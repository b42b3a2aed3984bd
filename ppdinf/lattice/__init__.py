"""Integer linear algebra of public sums: rows, kernels, structure, feasible points, moves.

Rule: integer results are exact or certified. Input is matrices; labels and mechanisms belong to other packages.

algebra        Integer matrices and exact linear algebra: kernels, solutions, bases, certificates.
blocks         Decomposition of an integer system A x = a into fixed cells, ties, classes and independent blocks.
class_sums     Entangled class sums under independent constraints, and an order in which the constraints are eliminated.
margins        Margins of tables: matrices, kernels in closed form, and tables with public margins that are found in
               rows.
move_families  Families of moves: transfers, cycles of tables and graphs, swaps that preserve margins, integer
               combinations.
moves          Moves that connect the tables of a fiber, with the theorem that proves it.
null_space     The real null space N of public sums: projection onto it, and an orthonormal basis.
points         Integer points of fibers: feasible tables, enumeration, fixed cells, short vectors.
support_moves  Moves for the tables within a support, with the theorem that proves that they connect, if any.
"""

from ppdinf.lattice.algebra.integer_rows import RowAlgebra, check_consistent, contradiction, rank, row_algebra
from ppdinf.lattice.algebra.kernel import Lattice, certify, is_saturated, kernel
from ppdinf.lattice.algebra.solution import integer_solution
from ppdinf.lattice.blocks import Structure, structure
from ppdinf.lattice.margins import margin_kernel, margin_matrix
from ppdinf.lattice.moves import Moves, connected_moves, margin_moves
from ppdinf.lattice.points.feasible import nearest_feasible

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
