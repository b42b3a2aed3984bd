"""Log probabilities and gradients of cells given exact totals of disjoint groups.

cell_windows           windows of cells: the integers whose weight matters, as probabilities
conditional_draws      exact draws of cells given their totals
convolution            sums of integers by convolution of logarithms: slow, and right to rounding whatever the
                       weights
cumulants              sums of many cells from their cumulants: cells of natural form, none of which has a great
                       share in the sum
fixed_frequencies      sums of a few cells from their characteristic functions at fixed frequencies, as polynomials
fourier                the probability that a sum of integers takes a value: the mean of its characteristic function
                       over frequencies
frequency_grids        grids of frequencies that serve groups of cells, as few as do, with the pieces of their cells
frequency_polynomials  characteristic functions of cells at fixed frequencies, as polynomials in their natural
                       parameters, with bounds
gauss_nodes            Gauss rules of weighted integers: a few real nodes in place of thousands of counts
log_normaliser         the log normaliser of a natural family about a centre, as a polynomial, with what bounds the
                       rest
node_pieces            cells of natural form as a few real nodes with weights, with computed bounds on their errors
node_sums              sums of cells of natural form, given their total, from the Gauss nodes of every cell
packed_sums            all that stays the same while a posterior is sampled, in two arrays
piecewise_polynomials  log normalisers of natural families as piecewise polynomials
saddlepoint            cells tilted by a common factor ``exp(t x)`` until their sum is near its total
taylor                 characteristic functions of cells with a small share in their sum, from a dozen moments
totals                 sums of independent windowed integers, given their totals
value_and_gradient     log coefficients of blocks of cells given their totals, and the posterior of each cell, which
                       is their gradient
"""
