"""Whole numbers with given sums: their total weight and its gradient, draws, walks.

Rule: NumPy in and out; neither PyMC nor labels.

count_pairs        pairs of counts of which the second is part of the first, for example cases and deaths
gibbs              gibbs updates of tables on a fiber with overlapping sums
nested_sums        exact evaluation and joint draws for sums of which any two are nested or disjoint
sums_given_totals  log probabilities and gradients of cells given exact totals of disjoint groups
"""
