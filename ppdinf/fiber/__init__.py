"""Integers with given sums: total weights and gradients, exact draws, Gibbs updates.

Rule: input and output are NumPy arrays; this package uses neither PyMC nor labels.

gibbs                 Gibbs updates of tables on a fiber with overlapping sums.
identified_sums       Exact ranges of sums over all tables that satisfy linear statements.
nested_sums           Exact evaluation and joint draws for sums of which any two are nested or disjoint.
sums_given_totals     Log probabilities, gradients and draws of cells given exact totals of disjoint groups.
sums_of_gamma_ratios  Cells whose log weights are ratios of gamma functions, given exact totals, at a few real nodes.
"""
