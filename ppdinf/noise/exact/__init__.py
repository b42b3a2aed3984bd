"""Exact and independent draws of noise on a lattice.

Rule: one algorithm per file, with the systems that it supports.

elimination    Exact noise by variable elimination and by rejection of independent noise.
gaussian       Exact Gaussian noise on integer lattices, and l2 Laplace noise as a mixture of it.
independent    l1 Laplace noise of cells outside all public sums: independent double geometric integers.
scale_mixture  Exact l1 noise on lattices as a scale mixture of Gaussian noise.
single_sums    Double geometric noise of a class of cells given its sum.
"""
