"""Exact l1 noise on lattices as a scale mixture of Gaussian noise.

exact_gamma         gamma and beta variables as functions of real numbers with lazily drawn digits: exact, by
                    elementary functions
excess              excess of a cell's law of scales near zero, over what a Gaussian integral gives, and the bound
                    that it is drawn by
klein_given_scales  noise on a lattice given its scales, by Klein's sampler in the metric of the scales, and what
                    its probability is
lattice_laplace     l1 noise on any lattice {A z = 0} of small enough rank of A: exact and independent draws
lattice_scales      scales of l1 noise on any lattice {A z = 0}: a product law over disjoint sums and, by leverages,
                    the other cells
leverages           a bound on det(A T A') that is a product over disjoint sums and, by leverages, over cells: of
                    scales T = diag t
mixture             l1 noise on a lattice as a mixture of Gaussians over a scale for every cell: exact and
                    independent draws
short_vectors       short vectors of a lattice, and which wide cells hold enough of them to draw noise on
spanning_tree       wide cells that tie a two-way table together, and the exact odds that its scales hold some
sum_scales          scales of the cells under one public sum: independent Gamma variables but for a power of their
                    sum, and near zero
two_way_laplace     l1 noise on a two-way table whose row and column sums are public: exact and independent draws
two_way_noise       noise on a two-way table given its scales: row by row by Klein's sampler, in the metric of the
                    scales
two_way_scales      scales of l1 noise on a two-way table: a product law over rows that dominates their law given
                    both margins
"""
