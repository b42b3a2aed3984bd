"""Exact and independent draws of noise on a lattice.

Rule: one algorithm a file, each with the systems that it serves.

across              orthogonal parts of the sublattice across a step: what a lattice Gaussian does beside its
                    component along the step
class_sums          l1 Laplace noise of a block whose class sums cross: class sums by elimination, then the cells of
                    each class
classes             double geometric noise on a class of cells, given its sum: exact and independent draws
core                l1 Laplace noise on a small lattice by rejection: exact and independent draws
crossing            l1 noise on a two-way table whose row and column sums are public: exact and independent draws
crossing_backbone   wide cells that tie a two-way table together, and the exact odds that its scales hold some
crossing_excess     excess of a cell's law of scales near zero, over what a Gaussian integral gives, and the bound that
                    it is drawn by
crossing_klein      noise on a lattice given its scales, by Klein's sampler in the metric of the scales, and what its
                    probability is
crossing_lattice    l1 noise on any lattice {A z = 0} of small enough rank of A: exact and independent draws
crossing_lattice_scales
                    scales of l1 noise on any lattice {A z = 0}: a product law over disjoint sums and, by leverages,
                    the other cells
crossing_leverages  a bound on det(A T A') that is a product over disjoint sums and, by leverages, over cells: of scales
                    T = diag t
crossing_mixture    l1 noise on a lattice as a mixture of Gaussians over a scale for every cell: exact and independent
                    draws
crossing_moves      short vectors of a lattice, and which wide cells hold enough of them to draw noise on
crossing_rows       noise on a two-way table given its scales: row by row by Klein's sampler, in the metric of the
                    scales
crossing_scales     scales of l1 noise on a two-way table: a product law over rows that dominates their law given both
                    margins
crossing_sums       scales of the cells under one public sum: independent Gamma variables but for a power of their sum,
                    and near zero
elimination         integers with separable weights given linear constraints: exact draws and their total weight
free                l1 Laplace noise of cells in no public sum: independent double geometric integers
gamma               gamma and beta variables as functions of real numbers with lazily drawn digits: exact, by
                    elementary functions
gaussian            discrete Gaussian noise on any lattice: exact and independent draws
gaussian_masses     masses of Gaussians over orthogonal vectors: products over lengths, quick, bounded or enclosed
image_lattice       discrete Gaussian noise of any shape on a lattice: mass proportional to exp(-|M z|^2 / 2 v), M a
                    matrix of integers
klein               sequential proposals for round laws on a lattice, and the exact probability to keep one
mixture             l2 Laplace noise on any lattice, P(z) proportional to exp(-epsilon |z|_2): exact and independent
                    draws
orthogonal          orthogonal parts of a lattice basis, in closed form for classes of cells and for tables under
                    margins
partial_sums        tables of the total weight of partial sums, with proved error bounds; in doubles or in balls
potentials          weights of single integers, enclosed to any precision: what elimination multiplies and sums
theta               gaussian mass of the shifted integers, rho(Z + f) = sum over k of exp(-(k + f)^2 / (2 v)), and its
                    ratio to f = 0
triangular_laplace  Laplace noise in the orthogonal coordinates of a lattice: mass proportional to exp(-rate |R x|_1),
                    exactly
whole_k_norm        whole vectors with mass proportional to exp(-rate |z|) in the l1, l2 or linf norm, exactly, and
                    weighted choices
"""
