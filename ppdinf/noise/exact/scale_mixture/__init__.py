"""Exact l1 noise on lattices as a scale mixture of Gaussian noise.

exact_gamma         Exact gamma and beta variables as functions of real numbers with lazily drawn digits.
excess              The law of a cell's scale near zero relative to a Gaussian integral, and its dominating bound.
klein_given_scales  Noise on a lattice given its scales, by Klein's sampler in the metric of the scales.
lattice_laplace     Exact l1 noise on any lattice {A z = 0} with small rank of A.
lattice_scales      Scales of l1 noise on any lattice: a product law over disjoint sums and single cells.
leverages           A lower bound on det(A T A'), T = diag t, that is a product over disjoint sums and cells.
mixture             The algorithm: l1 noise as a mixture of Gaussians with a scale for every cell.
short_vectors       Short vectors of a lattice, and the sets of wide cells that support enough of them.
spanning_tree       Spanning trees of wide cells of a two-way table, and the exact correction for their condition.
sum_scales          Scales of the cells of one public sum: Gamma variables with a power of their sum.
two_way_laplace     Exact l1 noise on a two-way table with public row and column sums.
two_way_noise       Noise on a two-way table given its scales: row by row by Klein's sampler.
two_way_scales      Scales of l1 noise on a two-way table: a dominating product law over rows.
"""
