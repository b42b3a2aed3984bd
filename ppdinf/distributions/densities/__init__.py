"""Random variables and log densities as PyTensor expressions.

confidential_rv       PyMC's view of a confidential table: a random variable of which the released one is an
                      observation
constant_indices      which cell each element of a graph depends on
exponential_family    data models of the form ``h(x) exp(eta x) / Z(eta)``: only eta varies, so no table of
                      densities is rebuilt
factors               densities of what depends on a confidential table, taken apart by cell
identical_cells       cells that have the same law whatever the parameters are, so that one of them tells what the
                      counts of all weigh
marginal_logp         marginal likelihood of a noisy table with public totals, as a differentiable PyTensor
                      expression
mechanism_rv          a mechanism's law as a PyMC distribution: the release of a table that is itself a variable
nested_marginal_logp  marginal likelihood of a table whose measured and exact sums nest, as a differentiable
                      PyTensor expression
released_rv           the mechanism as a likelihood: the released table given the confidential one
stop_gradient         A value set apart from the parameters that it was computed from: no gradient flows through it
sums_given_totals_op  sums given their totals as an Op of PyTensor: value and gradient, in compiled code
"""
