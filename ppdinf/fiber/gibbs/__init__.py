"""Gibbs updates of tables on a fiber with overlapping sums.

cell_quantiles    Total weight, cumulative shares and quantiles of the count of one cell given measurement and prior.
coarse_quantiles  Counts of one cell with a wide window that follow the parameters of their prior.
dispatch          The next table of a chain: an exact draw or Gibbs updates along random lines.
fiber             The fiber of a release: all tables that agree with the public information, within windows.
gaussian_block    Blocks of cells with a nearly Gaussian conditional law on the lattice of exact sums.
histogram_gibbs   Gibbs updates given noisy sums of the table's histogram of counts.
joint_move        Joint Metropolis-Hastings updates of a table and the parameters of its prior.
line_gibbs        Gibbs updates of a table along lines of its fiber, with exact full conditionals.
measured_sums     Gibbs updates along lines given noisy sums.
random_windows    Random truncation of windows, so that an update evaluates only counts near the table.
slice_walk        Slice sampling along lines, for wide windows.
table_diagram     Exact draws of a table from a decision diagram of all tables.
"""
