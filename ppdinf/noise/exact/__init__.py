"""Exact and independent draws of lattice noise, one algorithm a file. Those that export an `offer` are asked for noise.

free           cells in no public sum (offer)
classes        cells under one public sum (offer)
class_sums     blocks of crossing sums: class sums by elimination (offer); elimination, with partial_sums and potentials
core           blocks of crossing sums by rejection (offer)
crossing       l1 noise on two-way tables under both margins (offer), with gamma: its steps are crossing_scales,
               crossing_backbone and crossing_klein
gaussian       discrete Gaussian noise (offer) by the sequential sampler klein, on the basis of orthogonal, with theta
mixture        l2 Laplace noise as a mixture of Gaussians (offer), with gaussian_masses
image_lattice  discrete Gaussian noise of any covariance
across         orthogonal parts across a step
triangular_laplace, whole_k_norm   Laplace noise along a basis; noise of norms l1, l2 and linf in whole numbers
"""
