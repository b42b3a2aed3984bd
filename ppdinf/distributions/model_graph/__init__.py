"""Rewriting of PyMC models: dependents of a table, marginalization, latent tables.

build_fiber         from what was observed and a data model to a fiber: windows, supports, moves and a table to
                    start from
data_model_draws    draws of cells that nothing published depends on
dependents          what else in a model depends on its confidential tables, and what that tells about them
latent_tables       latent integers of plain models, as tables of which exact sums, and perhaps releases, are known
marginal_rewrite    the marginal likelihood of a release: its confidential table summed out, with everything that
                    depends on it
model_hooks         what is added to a model while one of its tables is summed out
observed_potential  a potential by cell as a random variable that was observed, so that its table can be summed out
                    with it
renewed_windows     windows of counts are computed again when the data of a model have changed
shared_data         data that the distribution of a table depends on: a digest of their values, and conditions that
                    they are the same
truncation          windows of counts: where noise, public statements and the data model let each confidential count
                    be
"""
