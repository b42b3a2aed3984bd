"""Exact l1 noise on lattices as a scale mixture of Gaussian noise.

klein_given_scales  Noise on a lattice given its scales, by Klein's sampler in the metric of the scales.
lattice_laplace     Exact l1 noise on any lattice {A z = 0} with small rank of A.
lattice_scales      Scales of l1 noise on any lattice: a product law over disjoint sums and single cells that bounds the
                    determinant.
mixture             The algorithm: l1 noise as a mixture of Gaussians with a scale for every cell.
scales              Scales of the cells of one public sum: Gamma variables with a power of their sum, and the law of one
                    scale near zero.
two_way_laplace     Exact l1 noise on a two-way table with public row and column sums.
"""
