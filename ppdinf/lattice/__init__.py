"""Integer linear algebra of public sums: rows, kernels, structure, feasible points, moves.

Rule: whole numbers, exact or certified; matrices come in, labels and mechanisms stay outside.

certificate   proof that a matrix is a saturated kernel basis: A B = 0 and unit invariant factors
columns       equal columns of a sparse integer matrix: cells that no constraint can tell apart
conflict      rows that contradict each other: a certificate with few rows, by linear programming
core          class sums that are entangled: proportional ones merged, independent constraints kept
decision_diagram  all integer tables with given sums and supports, as a layered graph
decomposable  decomposable models: sets of margins that hang together like a tree
elimination   sparse integer elimination on unit pivots
families      families of moves, drawn at random without being listed
feasible      A table that satisfies public equalities and bounds, as near as possible to a given one
fiber_tables  all integer tables that obey public sums and bounds, where they are few
fixed_cells   which cells follow from public sums and bounds together
graph_cycles  cycles of a graph as moves of two-way tables within bounds
hierarchical  class sums that form a complete table whose public sums are margins, found in the rows of a system
kernel        saturated kernel bases: every integer solution of A z = 0, and nothing else
margin_swaps  swaps that keep margins of an n-way table, for any set of margins
margins       kernels of margins of any order, in closed form
markov        markov and Graver bases computed by 4ti2, where that program is installed
moves         sets of moves that connect every fiber, with the reason why they do
null_space    the real null space N of public sums: projection onto it, and an orthonormal basis
ordering      an order in which constraints can be summed out, and how many stay open meanwhile
presolve  interval propagation: counts of each cell that some table can have
rows          exact row algebra of an integer system: rank, redundant rows, contradictions
shortest      how near two different tables with the same public sums can be: the shortest vector of the lattice, in
              l1 or l2
solution      one integer solution of A x = a, or the reason why there is none
structure     what an integer system A x = a leaves free, from what cannot move to what is hard
support_moves  moves that are proved to connect the tables of a support
systems       integer systems ``A x = a`` as sparse int64 arrays, checked once at the door
tables_with_holes  tables with supports that have holes, by integer programs
two_way       two-way tables under both margins, found in the rows of a system
"""

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
