"""Whole numbers with given sums: their total weight and its gradient, draws, walks.

Rule: NumPy in and out; neither PyMC nor labels.

advance             where a walk along random lines of its fiber takes a table, whatever the noise
cell_quantiles      counts of one cell given its own measurement and a prior: what they weigh in all, shares below
                    a count, quantiles
cell_windows        windows of cells: the integers whose weight matters, as probabilities
conditional_draws   exact draws of cells given their totals
convolution         sums of integers by convolution of logarithms: slow, and right to rounding whatever the weights
cumulants           sums of many cells from their cumulants: cells of natural form, none of which has a great share
                    in the sum
cuts                windows cut at random, so that a walk weighs only counts near where its table is
fiber               the fiber of a release: all tables that agree with what is public, within reach of the noise
fiber_walk          walk a table along lines of its fiber, by exact full conditionals
fixed_frequencies   sums of a few cells from their characteristic functions at fixed frequencies, as polynomials
fourier             the probability that a sum of integers takes a value: the mean of its characteristic function over
                    frequencies
frequency_grids     grids of frequencies that serve groups of cells, as few as do, with the pieces of their cells
frequency_pieces    characteristic functions of cells at fixed frequencies, as polynomials in their natural parameters,
                    with bounds
gauss_nodes         Gauss rules of weighted integers: a few real nodes in place of thousands of counts
gaussian_block      cells whose law, given all others, is near a Gaussian on the lattice of exact sums: where they may
                    go together
histogram_walk      walk a table of which noisy sums of its histogram of counts are known besides, by exact full
                    conditionals
joint_move          move a table and the parameters of its prior together, by Metropolis and Hastings
laminar             sums of cells of which any two are nested or disjoint, as a forest
log_normaliser      the log normaliser of a natural family about a centre, as a polynomial, with what bounds the rest
measured_sums       walk a table of which noisy sums are known, by exact full conditionals along lines
nested_downward     posteriors of all sums and cells of a forest, from the roots down
nested_draws        exact joint draws of all cells of a forest
nested_evaluation   one evaluation of nested sums: total weights with bounds on their errors, posteriors, draws
nested_rows         rows of weights of cells and of joins: how they are kept, and those of both parts of a join
nested_sums         sums of windowed integers of which any two are nested or disjoint, each known exactly, within
                    bounds, or with noise
nested_tilts        tilts that bring every sum to where its posterior is: the saddlepoint of a tree
nested_tree         nested sums as a forest of joins of two, fixed once for all weights
nested_upward       weights of all sums of a forest, from the cells up, trimmed with a bound on what that costs
node_pieces         cells of natural form as a few real nodes with weights, with computed bounds on their errors
node_sums           sums of cells of natural form, given their total, from the Gauss nodes of every cell
noisy_pairs         confidential pairs of counts given noisy ones, and perhaps the exact total of the larger:
                    posterior draws
packed_sums         all that stays the same while a posterior is sampled, in two arrays
pair_weights        weights of pairs of counts, one within the other: the smaller summed out, its mean, and draws
                    given the larger
pairs               pairs of counts, one within the other, under one total: cases and deaths of counties in a month
pieces              log normalisers of natural families as piecewise polynomials
saddlepoint         cells tilted by a common factor ``exp(t x)`` until their sum is near its total
short_sums          weights of sums of two integers with short windows: every product
sum_factors         what is known of single sums: noisy values, seen through the law of their noise
table_diagram       exact draws of a table from a decision diagram of all tables
taylor              characteristic functions of cells with a small share in their sum, from a dozen moments
totals              sums of independent windowed integers, given their totals
value_and_gradient  log coefficients of blocks of cells given their totals, and the posterior of each cell, which is
                    their gradient
"""
