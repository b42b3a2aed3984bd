"""Random variables and log densities as PyTensor expressions.

confidential_rv       `ConfidentialRV`: the random variable of a confidential table.
constant_indices      The cell of a table on which each element of a graph depends, from the graph's operations.
exponential_family    Data models of the form ``h(x) exp(eta x) / Z(eta)``, of which only eta varies.
factors               Densities of dependents of a confidential table, split by cell.
gamma_form            Data models and dependents whose log weights are ratios of gamma functions.
gamma_sums_op         PyTensor Op of sums of such cells: value and gradient in compiled code.
identical_cells       Cells with identical distributions, whose log densities are evaluated once.
marginal_logp         Marginal likelihood of a noisy table with public totals.
mechanism_rv          The release of a table that is a variable of the model, as a PyMC distribution.
nested_marginal_logp  Marginal likelihood of a table whose measured and exact sums nest.
released_rv           The mechanism as a likelihood: the released table given the confidential table.
stop_gradient         An identity through which no gradient flows.
sums_given_totals_op  PyTensor Op of sums given their totals: value and gradient in compiled code.
"""
