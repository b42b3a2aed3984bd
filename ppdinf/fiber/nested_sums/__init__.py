"""Exact evaluation and joint draws for sums of which any two are nested or disjoint.

downward_pass  Posteriors of all sums and cells of a forest, from the roots down, and exact joint draws.
join_tree      Nested sums as a forest of joins of two parts, with the factors of single sums, computed once for all
               weights.
nested_sums    Sums of windowed integers of which any two are nested or disjoint, and which are exact, bounded or noisy.
upward_pass    Tilts that move every sum to its posterior, and weights of all sums of a forest, from the cells up.
weight_rows    Rows of weights of cells and of joins, and their convolution.
"""
