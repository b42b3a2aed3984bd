"""Integer matrices and exact linear algebra: null spaces, solutions, bases, certificates.

certificate          proof that a matrix is a saturated kernel basis: A B = 0 and unit invariant factors
columns              equal columns of a sparse integer matrix: cells that no constraint can tell apart
integer_elimination  sparse integer elimination on unit pivots
integer_rows         exact row algebra of an integer system: rank, redundant rows, contradictions
kernel               saturated kernel bases: every integer solution of A z = 0, and nothing else
margins              kernels of margins of any order, in closed form
solution             one integer solution of A x = a, or the reason why there is none
systems              integer systems ``A x = a`` as sparse int64 arrays, checked once at the door
"""
