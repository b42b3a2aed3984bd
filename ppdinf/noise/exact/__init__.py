"""Exact and independent draws of noise on a lattice.

Rule: one algorithm a file, each with the systems that it serves.

elimination    exact noise by variable elimination and by rejection of independent noise
gaussian       exact Gaussian noise on integer lattices, and l2 Laplace noise as a mixture of it
independent    l1 Laplace noise of cells in no public sum: independent double geometric integers
scale_mixture  exact l1 noise on lattices as a scale mixture of Gaussian noise
single_sums    double geometric noise on a class of cells, given its sum: exact and independent draws
"""
