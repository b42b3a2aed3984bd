"""What PyMC has to know of a confidential table: random variables, densities, what depends on them.

Rule: symbolic; whatever a user makes of the table enters its law or is refused.

densities    random variables and log densities as PyTensor expressions
model_graph  rewriting of PyMC models: dependents of a table, marginalization, latent tables
observation  observed data as constraints and likelihood terms on the cells of a confidential table
"""
