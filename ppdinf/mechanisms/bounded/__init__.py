"""Mechanisms whose releases also satisfy bounds, or use a base measure.

base_measure             The interface of weights on released counts.
conditioned              Congenial mechanisms: independent noise, conditioned on all public statements.
dirichlet_multinomial    Dirichlet-multinomial base measures, computed from an earlier table.
few_given_rest           Exact noise under lower bounds and disjoint public sums of many cells: a few cells given the
                         others.
stated_loss              The law of the Wasserstein exponential mechanism with a user-defined loss, by enumeration of
                         all tables.
table_sums               The total weight of all releases of a table, by elimination.
tilting                  Exponential tilting of the noise, for public sums in the tail of the law of the unconditioned
                         sum.
wasserstein_exponential  The Wasserstein exponential mechanism on integer tables, with or without a base measure.
weighted                 Base class of mechanisms whose releases are weighted cell by cell within bounds.
"""
