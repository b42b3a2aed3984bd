"""Exact Gaussian noise on integer lattices, and l2 Laplace noise as a mixture of it.

gaussian_masses        Products of Gaussian masses over orthogonal vectors: approximate, bounded or enclosed.
gram_schmidt           Orthogonal parts of a lattice basis, in closed form for classes and for tables with margins.
image_lattice          Discrete Gaussian noise with mass proportional to exp(-|M z|^2 / 2 v), M an integer matrix.
klein                  Sequential proposals for Gaussian laws on a lattice, and their exact acceptance probability.
l2_laplace_mixture     Exact l2 Laplace noise on any lattice, P(z) proportional to exp(-epsilon |z|_2).
lattice_gaussian       Exact discrete Gaussian noise on any lattice.
orthogonal_complement  Orthogonal parts of the sublattice orthogonal to a lattice vector.
theta                  Gaussian mass of the shifted integers, rho(Z + f), and its ratio to rho(Z).
"""
