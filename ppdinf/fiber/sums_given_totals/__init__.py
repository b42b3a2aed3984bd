"""Log probabilities, gradients and draws of cells given exact totals of disjoint groups.

cell_windows           Windows of cells, the integers with relevant weights, as probabilities, and their exponential
                       tilting.
cumulants              Sums of many cells from their cumulants, for exponential families.
fixed_frequencies      Sums of a few cells from polynomial characteristic functions at fixed frequencies.
fourier                The probability of a sum of integers, as a mean over frequencies or by convolution.
frequency_grids        The choice of frequency grids for groups of cells, with the pieces of their cells.
frequency_polynomials  Characteristic functions at fixed frequencies as polynomials in the natural parameters.
gauss_nodes            Cells of exponential families as a few weighted real nodes (Gauss rules), with computed error
                       bounds.
node_sums              Sums of cells given their total, from the Gauss nodes of every cell.
piecewise_polynomials  Log normalisers of exponential families as piecewise polynomials with error bounds.
totals                 Sums of independent windowed integers, given their totals: log coefficients, marginals and exact
                       draws.
value_and_gradient     Log coefficients of blocks of cells given their totals, and their gradient, the posterior of each
                       cell.
"""
