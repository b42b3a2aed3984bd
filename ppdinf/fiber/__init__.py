"""Integers with given sums: total weights and gradients, exact draws, Gibbs updates.

Rule: input and output are NumPy arrays; this package uses neither PyMC nor labels.

fixed_nodes        Sums of cells given their total, from nodes that are fixed when a model is built.
gamma_ratios       Log weights that are ratios of gamma functions, with bounds off the real line.
gamma_sums         Sums of cells whose log weights are ratios of gamma functions: value and gradient.
gibbs              Gibbs updates of tables on a fiber with overlapping sums.
identified_sums    Exact ranges of sums over all tables that satisfy linear statements.
nested_sums        Exact evaluation and joint draws for sums of which any two are nested or disjoint.
node_plans         Choice of fixed nodes: Gauss rules of the noise on panels of integers.
sums_given_totals  Log probabilities, gradients and draws of cells given exact totals of disjoint groups.
"""
