"""PyMC representation of confidential tables: random variables, densities, and their dependents.

Expressions are symbolic. Every use of a table in a model enters its posterior, or is refused.

densities    Random variables and log densities as PyTensor expressions.
model_graph  Rewriting of PyMC models: dependents of a table, marginalization, latent tables.
observation  Observed data as constraints and likelihood terms on the cells of a confidential table.
"""

from ppdinf._internal import rewriter_cache as rewriter_cache  # releases of deleted models leave the memory
from ppdinf.distributions.model_graph import marginal_rewrite as marginal_rewrite  # registers the density with PyMC
