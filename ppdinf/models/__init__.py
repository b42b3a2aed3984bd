"""PyMC models for confidential tables that are observed only through a release.

The subpackage holds the functions with which an analyst states, fits and compares models.

aggregates            Sums and ranks of posterior draws of a table, by label; estimates, intervals and probabilities.
cell_log_likelihood   Log predictive density of each released cell given the others.
comparators           Analyses that ignore the privacy mechanism; baselines for comparisons, not for use.
compare               Bias, error, coverage and interval width of mechanisms and analyses over simulated releases.
constrained_counts    `ConstrainedCounts`: distribution of an integer table with exactly known sums and no noise.
dependent_likelihood  Pointwise log likelihoods of an observed dependent after marginalization of its table.
effects               Effects of labels: priors of neighbours and times, a rough fit, coordinates for NUTS.
label_effects         Log rates with effects of labels, parametrized for NUTS at any amount of noise.
leave_one_out         Exact leave-one-out predictive densities of public groups, by sampling again.
log_likelihood        Pointwise log likelihoods of a release, for ``az.loo`` and ``az.compare``: one for the cells of
                      each public sum.
mass_outside_windows  Posterior probability of counts outside the truncation of a confidential table.
missing_values        `marginalize_missing`: a model without the missing values of its observed variables.
model_order           Posterior draws in chains, and in the order of the dimensions and labels of a model.
one_sided_test        Uniformly most powerful one-sided tests from a noisy count, with exact p-values.
partially_private     `PartiallyPrivate`: ties a PyMC model of a confidential table to its release.
posterior_predictive  `pm.sample_posterior_predictive` for models with confidential tables: equal for marginalized and
                      sampled tables.
posterior_tables      Posterior draws of the confidential table, for marginalized and for sampled tables.
rates                 A model of rates: Poisson counts with exchangeable gamma rates.
released_table        `Released`: a mechanism's release of a table that is a variable of the model.
reparametrize         Intercept of a log-linear model, parametrized by the log of the expected public total.
scaled                A transform by constant factors, for variables of similar scales.
starts                Normal variables with initial values for chains.
"""

from ppdinf.models import label_effects as label_effects
from ppdinf.models import reparametrize as reparametrize
from ppdinf.models.aggregates import aggregate as aggregate
from ppdinf.models.aggregates import ranks as ranks
from ppdinf.models.aggregates import summary as summary
from ppdinf.models.compare import compare as compare
from ppdinf.models.constrained_counts import ConstrainedCounts as ConstrainedCounts
from ppdinf.models.label_effects import log_rates as log_rates
from ppdinf.models.leave_one_out import leave_one_out as leave_one_out
from ppdinf.models.log_likelihood import log_likelihood as log_likelihood
from ppdinf.models.log_likelihood import sample_release as sample_release
from ppdinf.models.missing_values import marginalize_missing as marginalize_missing
from ppdinf.models.one_sided_test import OneSidedTest as OneSidedTest
from ppdinf.models.partially_private import PartiallyPrivate as PartiallyPrivate
from ppdinf.models.posterior_tables import sample_confidential as sample_confidential
from ppdinf.models.released_table import Released as Released

__all__ = [
    "ConstrainedCounts",
    "OneSidedTest",
    "PartiallyPrivate",
    "Released",
    "aggregate",
    "compare",
    "label_effects",
    "leave_one_out",
    "log_likelihood",
    "log_rates",
    "marginalize_missing",
    "ranks",
    "reparametrize",
    "sample_confidential",
    "sample_release",
    "summary",
]  # fmt: skip
