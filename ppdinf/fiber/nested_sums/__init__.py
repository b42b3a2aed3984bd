"""Exact evaluation and joint draws for sums of which any two are nested or disjoint.

downward_pass  Posteriors of all sums and cells of a forest, from the roots down.
evaluation     One evaluation of nested sums: total weights with error bounds, posteriors, draws.
join_tree      Nested sums as a forest of joins of two parts, computed once for all weights.
joint_draws    Exact joint draws of all cells of a forest.
laminar        Sums of cells of which any two are nested or disjoint, as a forest.
nested_sums    The class `NestedSums`: integers with nested sums that are exact, bounded or noisy.
short_sums     Convolution of two short rows of weights, by all products.
sum_factors    Factors of single sums: noisy values, as log weights of every integer.
tilts          Tilts that move every sum to its posterior: the saddlepoint of a tree.
upward_pass    Weights of all sums of a forest, from the cells up, trimmed with an error bound.
weight_rows    Rows of weights of cells and of joins.
"""
