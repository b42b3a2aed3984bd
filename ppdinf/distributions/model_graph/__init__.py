"""Rewriting of PyMC models: dependents of a table, marginalization, latent tables.

build_fiber         Fiber of a table from observations and a data model: windows, supports, moves, initial table.
counted_twice       Refusal of independent models of the shares of a public total.
data_model_draws    Draws of cells from the data model alone, for cells on which nothing published depends.
data_of_dependents  Log densities of the observed dependents of a table, as functions of its counts.
data_models         Data models written as expressions: shifted, clipped, with pymc.dims, multinomial with Poisson n.
dependents          Dependents of the confidential tables of a model, and their factors.
dims_of_parameters  Dimensions of the parameters of a data model, by the dims of named variables of the model.
latent_tables       Latent integers of plain models as tables with exactly known sums and optional releases.
marginal_rewrite    Marginal likelihood of a release and all dependents of its table.
model_hooks         Handling of variables that are added to a model with a marginalized table.
observed_potential  A potential split by cell as an observed random variable, so that its table can be marginalized.
plausible_windows   Windows of counts at the parameters that all data of a model make plausible.
predictions         A copy of a model for posterior predictive draws, in which every table is a variable.
prior_draws         Draws of the prior of a data model, and weights of counts under them.
renewed_windows     Recomputation of windows of counts after changes of a model's data.
shared_data         Digest of the data of a table's distribution, and conditions that they are unchanged.
truncation          Windows of counts from noise, public statements and the data model.
"""
