"""Integer linear algebra of public sums: rows, kernels, structure, feasible points, moves.

Rule: integer results are exact or certified. Input is matrices; labels and mechanisms belong to other packages.

blocks            Decomposition of an integer system A x = a into fixed cells, ties, classes and independent blocks.
class_sums        Entangled class sums under independent constraints, and an order in which the constraints are
                  eliminated.
decision_diagram  All integer tables with given sums and supports as a decision diagram, and exact draws from it.
feasible          A feasible table for public equalities and bounds, nearest to a given table, or rows that contradict
                  each other.
fiber_tables      All tables with given sums and bounds: intervals of cells, enumeration, cells with one value.
integer_rows      Exact row algebra of an integer system by elimination: rank, redundant rows, contradictions.
kernel            Saturated kernel bases, which contain all integer solutions of A z = 0, and the proof that a basis is
                  saturated.
margins           Margins of tables: matrices, kernels in closed form, and tables with public margins that are found in
                  rows.
move_families     Families of moves: transfers, cycles of tables and graphs, swaps that preserve margins, integer
                  combinations.
moves             Moves that connect the tables of a fiber, with the theorem that proves it.
null_space        The real null space N of public sums: projection onto it, and an orthonormal basis.
programme         Linear and integer programmes: variables, rows and ends, solved by HiGHS.
rows              Rows of numbers about the counts of cells, each stored once for all cells that share it.
shortest          The shortest vectors of the lattice in l1 or l2: distances of tables with the same sums.
solution          One integer solution of A x = a, or the reason why it does not exist.
support_moves     Moves for the tables within a support, with the theorem that proves that they connect, if any.
supports          Supports of counts, possibly with holes: possible counts by interval propagation, and tables within
                  them.
systems           Validation and canonical form of integer systems ``A x = a``; equal columns and rows.
"""

from ppdinf.lattice.blocks import Structure, structure
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.lattice.integer_rows import RowAlgebra, check_consistent, contradiction, rank, row_algebra
from ppdinf.lattice.kernel import Lattice, certify, is_saturated, kernel
from ppdinf.lattice.margins import margin_kernel, margin_matrix
from ppdinf.lattice.moves import Moves, connected_moves, margin_moves
from ppdinf.lattice.solution import integer_solution

__all__ = [
    "Lattice", "Moves", "RowAlgebra", "Structure", "certify", "check_consistent", "connected_moves", "contradiction",
    "integer_solution", "is_saturated", "kernel", "margin_kernel", "margin_matrix", "margin_moves", "nearest_feasible",
    "rank", "row_algebra", "structure",
]  # fmt: skip
