"""Gibbs updates of tables on a fiber with overlapping sums.

cell_quantiles   Total weight, shares and quantiles of the count of one cell given its measurement and a prior, over all
                 counts or at knots.
fiber            The fiber of a release: all tables within windows that agree with what is public, and their decision
                 diagram.
joint_move       Joint Metropolis-Hastings updates of a table and the parameters of its prior, with blocks of nearly
                 Gaussian cells.
line_gibbs       Gibbs updates of a table along lines of its fiber.
measured_sums    Noisy sums of a table, and their log weights along lines.
table_update     The next table of a chain: an exact draw from a decision diagram, or Gibbs updates along random lines
                 within random windows.
"""
