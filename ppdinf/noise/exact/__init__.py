"""Exact and independent draws of noise on a lattice.

Rule: one algorithm per file, with the systems that it supports.

cell_elimination      Noise of any law of independent integers: elimination over the cells.
class_sums            l1 Laplace noise of a block with crossing class sums: first the sums, then the cells.
klein                 Sequential proposals for Gaussian laws on a lattice, and their exact acceptance probability.
l2_laplace_mixture    Exact l2 Laplace noise on any lattice, P(z) proportional to exp(-epsilon |z|_2).
lattice_gaussian      Exact discrete Gaussian noise on any lattice, and on the image of the integers under a matrix.
potentials            Weights of single integers, enclosed to any precision: the input of elimination.
rejection             l1 Laplace noise on a small lattice by rejection.
sampler_offer         The interface of exact samplers: an offer to draw noise, or the reason for declining.
scale_mixture         Exact l1 noise on lattices as a scale mixture of Gaussian noise.
single_sums           l1 Laplace noise of cells outside all public sums, or of a class of cells given its sum.
theta                 Gaussian mass of the shifted integers, rho(Z + f), its ratio to rho(Z), and products of masses
                      over orthogonal vectors.
variable_elimination  Integers with separable weights given linear constraints: exact draws and the normaliser by
                      variable elimination.
"""
