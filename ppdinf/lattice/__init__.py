"""Integer linear algebra of public totals: exact rows, saturated kernels, structure, feasible points."""

from ppdinf.lattice.certificate import certify, is_saturated
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.lattice.kernel import Lattice, kernel
from ppdinf.lattice.margins import margin_kernel, margin_matrix
from ppdinf.lattice.moves import Moves, connected_moves, margin_moves
from ppdinf.lattice.rows import RowAlgebra, check_consistent, contradiction, rank, row_algebra
from ppdinf.lattice.solution import integer_solution
from ppdinf.lattice.structure import Structure, structure

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
