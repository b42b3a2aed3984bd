"""Gibbs updates of tables on a fiber with overlapping sums.

cell_quantiles   Total weight, shares and quantiles of the count of one cell given its measurement and a prior, over all
                 counts or at knots.
fiber            The fiber of a release: all tables within windows that agree with what is public, and their decision
                 diagram.
histogram_gibbs  Gibbs updates given noisy sums of the table's histogram of counts.
joint_move       Joint Metropolis-Hastings updates of a table and the parameters of its prior, with blocks of nearly
                 Gaussian cells.
line_gibbs       Gibbs updates of a table along lines of its fiber, with exact full conditionals.
measured_sums    Gibbs updates along lines given noisy sums.
slice_walk       Slice sampling along lines, for wide windows.
table_update     The next table of a chain: an exact draw from a decision diagram, or Gibbs updates along random lines
                 within random windows.
"""
