"""Log probabilities, gradients and draws of cells given exact totals of disjoint groups.

cell_windows           Windows of cells: the integers with relevant weights, as probabilities.
conditional_draws      Exact draws of cells given their totals.
convolution            Sums of integers by convolution of logarithms, for improbable totals.
cumulants              Sums of many cells from their cumulants, for exponential families.
fixed_frequencies      Sums of a few cells from polynomial characteristic functions at fixed frequencies.
fourier                The probability of a sum as the mean of its characteristic function over frequencies.
frequency_grids        The choice of frequency grids for groups of cells, with the pieces of their cells.
frequency_polynomials  Characteristic functions at fixed frequencies as polynomials in the natural parameters.
gauss_nodes            Gauss quadrature rules of weighted integers.
log_normaliser         The log normaliser of an exponential family as a polynomial with an error bound.
node_pieces            Cells of exponential families as a few weighted real nodes, with computed error bounds.
node_sums              Sums of cells given their total, from the Gauss nodes of every cell.
packed_sums            All constants of an evaluation in two arrays, for PyTensor.
piecewise_polynomials  Log normalisers of exponential families as piecewise polynomials.
saddlepoint            Exponential tilting of cells such that their sum is near its total.
taylor                 Characteristic functions of cells with a small share in the sum, from moments.
totals                 Public functions: log coefficients, marginals and draws given totals.
value_and_gradient     Log coefficients of blocks of cells, and their gradient, the posterior of each cell.
"""
