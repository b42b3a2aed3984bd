"""Exact Gaussian noise on integer lattices, and l2 Laplace noise as a mixture of it.

gaussian_masses        masses of Gaussians over orthogonal vectors: products over lengths, quick, bounded or
                       enclosed
gram_schmidt           orthogonal parts of a lattice basis, in closed form for classes of cells and for tables under
                       margins
image_lattice          discrete Gaussian noise of any shape on a lattice: mass proportional to exp(-|M z|^2 / 2 v),
                       M a matrix of integers
klein                  sequential proposals for round laws on a lattice, and the exact probability to keep one
l2_laplace_mixture     l2 Laplace noise on any lattice, P(z) proportional to exp(-epsilon |z|_2): exact and
                       independent draws
lattice_gaussian       discrete Gaussian noise on any lattice: exact and independent draws
orthogonal_complement  orthogonal parts of the sublattice across a step: what a lattice Gaussian does beside its
                       component along the step
theta                  gaussian mass of the shifted integers, rho(Z + f) = sum over k of exp(-(k + f)^2 / (2 v)),
                       and its ratio to f = 0
"""
