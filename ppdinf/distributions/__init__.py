"""PyMC representation of confidential tables: random variables, densities, and their dependents.

Expressions are symbolic. Every use of a table in a model enters its posterior, or is refused.

build_fiber            Fiber of a table within its windows: weights of counts, supports, moves, initial table.
confidential_rv        `ConfidentialRV`: the random variable of a confidential table.
data_model_checks      Refusals of data models: other shapes or dimensions, rows without public totals, a total counted
                       twice.
data_models            Data models: the distribution that a user passes, as a distribution of the cells of a table in
                       double precision.
factors                Densities of dependents of a confidential table, split by the cell on which each element depends.
latent_tables          Latent integers of plain models as tables with exactly known sums and optional releases.
linked_tables          Tables whose cells are binomial or Poisson given single cells of another table.
marginal_logp          Marginal likelihood of a noisy table with public totals.
marginal_rewrite       Marginal likelihood of a release and all dependents of its table.
marginalization        Decide whether a table is marginalized: when it is created, and whenever a variable is added to
                       its model.
noise_scales           Published numbers whose noise has a scale that the model learns.
observed               Published numbers as observations of the confidential cells: the base class, and releases.
observed_measurements  Measurements of one table as observations of its cells.
ops                    PyTensor Ops of densities of tables: values and gradients in compiled code.
predictions            Forward draws: cells from the data model alone, and a copy of a model in which every table is a
                       variable.
published_ranges       Ranges of counts that published numbers permit.
random_variables       Random variables of what is observed: releases of tables, and potentials split by cell.
renewed_windows        Windows of counts computed again before a density is built, for present data and plausible
                       parameters.
tables                 The confidential tables of a model, their dependents, and the data from which their windows were
                       computed.
tied_cells             Cells that exact sums tie to each other: one integer for each group of tied cells, and sums of
                       the integers.
weight_forms           Log weights of counts as exponential families, or as ratios of gamma functions, which are summed
                       fast.
windows                Windows of counts: which counts of each cell a table can have when it is marginalized or sampled.
"""

from ppdinf._internal import pymc_patches as pymc_patches  # releases of deleted models leave the memory
from ppdinf.distributions import marginal_rewrite as marginal_rewrite  # registers the density with PyMC
