"""Integer linear algebra of public totals: exact rows, saturated kernels, structure, feasible points."""

from ppdinf.lattice.certificate import certify, is_saturated
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.lattice.kernel import Lattice, kernel
from ppdinf.lattice.rows import RowAlgebra, check_consistent, contradiction, rank, row_algebra
from ppdinf.lattice.structure import Structure, structure

__all__ = [
    "Lattice",
    "RowAlgebra",
    "Structure",
    "certify",
    "check_consistent",
    "contradiction",
    "is_saturated",
    "kernel",
    "nearest_feasible",
    "rank",
    "row_algebra",
    "structure",
]
