"""Integer matrices and exact linear algebra: kernels, solutions, bases, certificates.

certificate          Proof that a matrix is a saturated kernel basis: A B = 0 and unit invariant factors.
columns              Equal columns of a sparse integer matrix.
integer_elimination  Sparse integer elimination with unit pivots.
integer_rows         Exact row algebra of an integer system: rank, redundant rows, contradictions.
kernel               Saturated kernel bases: bases of all integer solutions of A z = 0.
margins              Kernels of margins of any order in closed form.
solution             One integer solution of A x = a, or the reason why it does not exist.
systems              Validation and canonical form of integer systems ``A x = a``.
"""
