"""Integer matrices and exact linear algebra: kernels, solutions, bases, certificates.

integer_rows  Exact row algebra of an integer system by elimination: rank, redundant rows, contradictions.
kernel        Saturated kernel bases, which contain all integer solutions of A z = 0, and the proof that a basis is
              saturated.
solution      One integer solution of A x = a, or the reason why it does not exist.
systems       Validation and canonical form of integer systems ``A x = a``; equal columns and rows.
"""
