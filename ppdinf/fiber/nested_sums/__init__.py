"""Exact evaluation and joint draws for sums of which any two are nested or disjoint.

downward_pass  posteriors of all sums and cells of a forest, from the roots down
evaluation     one evaluation of nested sums: total weights with bounds on their errors, posteriors, draws
join_tree      nested sums as a forest of joins of two, fixed once for all weights
joint_draws    exact joint draws of all cells of a forest
laminar        sums of cells of which any two are nested or disjoint, as a forest
nested_sums    sums of windowed integers of which any two are nested or disjoint, each known exactly, within bounds,
               or with noise
short_sums     weights of sums of two integers with short windows: every product
sum_factors    what is known of single sums: noisy values, seen through the law of their noise
tilts          tilts that bring every sum to where its posterior is: the saddlepoint of a tree
upward_pass    weights of all sums of a forest, from the cells up, trimmed with a bound on what that costs
weight_rows    rows of weights of cells and of joins: how they are kept, and those of both parts of a join
"""
