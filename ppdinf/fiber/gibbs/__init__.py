"""Gibbs updates of tables on a fiber with overlapping sums.

cell_quantiles   counts of one cell given its own measurement and a prior: what they weigh in all, shares below a
                 count, quantiles
coarse_quantiles counts of one cell with a wide window that follow the parameters of their prior
dispatch         where a walk along random lines of its fiber takes a table, whatever the noise
fiber            the fiber of a release: all tables that agree with what is public, within reach of the noise
gaussian_block   cells whose law, given all others, is near a Gaussian on the lattice of exact sums: where they may
                 go together
histogram_gibbs  walk a table of which noisy sums of its histogram of counts are known besides, by exact full
                 conditionals
joint_move       move a table and the parameters of its prior together, by Metropolis and Hastings
line_gibbs       walk a table along lines of its fiber, by exact full conditionals
measured_sums    walk a table of which noisy sums are known, by exact full conditionals along lines
random_windows   windows cut at random, so that a walk weighs only counts near where its table is
slice_walk       move a table along lines by slice sampling, where windows are wide
table_diagram    exact draws of a table from a decision diagram of all tables
"""
