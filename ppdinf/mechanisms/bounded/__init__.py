"""Mechanisms whose releases also satisfy bounds, or use a base measure.

base_measure             Weights of released counts that do not depend on the confidential table, such as Dirichlet-
                         multinomial weights.
conditioned              Congenial mechanisms: independent noise, conditioned on all public statements.
few_given_rest           Exact noise under lower bounds and disjoint public sums of many cells: a few cells given the
                         others.
table_sums               The total weight of all releases of a table, by elimination of cells whose noise is tilted
                         towards public sums.
wasserstein_exponential  The Wasserstein exponential mechanism on integer tables, with an l1, l2 or user-defined loss.
weighted                 Base class of mechanisms whose releases are weighted cell by cell within bounds.
"""
