"""PyMC models for confidential tables that are observed only through a release.

The subpackage holds the functions with which an analyst states, fits and compares models.

aggregates           Sums and ranks of posterior draws of a table, by label; estimates, intervals and probabilities.
compare              Bias, error, coverage and interval width of mechanisms and analyses over simulated releases.
effect_coordinates   Transforms of effects of labels under which NUTS takes long steps, given an approximate normal
                     likelihood.
formula              `fit`: a model of a release from a formula, and its PyMC code.
label_effects        Log rates with effects of labels, parametrized for NUTS at any amount of noise.
least_squares        Generalized least squares of published numbers with exact sums: estimates, standard errors,
                     covariances.
log_likelihood       Pointwise log likelihoods of a release by public sum or by cell, and exact leave-one-out predictive
                     densities.
missing_values       `marginalize_missing`: a model without the missing values of its observed variables.
model_order          Posterior draws in chains, and in the order of the dimensions and labels of a model.
neighbours           Neighbours of labels: edges of an adjacency, and the spectrum of an intrinsic autoregression (ICAR)
                     on them.
one_sided_test       Uniformly most powerful one-sided tests from a noisy count, with exact p-values.
partially_private    `PartiallyPrivate`, `ConstrainedCounts` and `Released`: tie a PyMC model of a confidential table to
                     what is public.
posterior_tables     Posterior draws of the confidential table, and their probability outside its truncation windows.
pymc_after_sampling  PyMC's `compute_log_likelihood` and `sample_posterior_predictive` for models with confidential
                     tables.
rates                A model of rates: Poisson counts with exchangeable gamma rates.
starts               Normal variables with initial values for chains.
whitening            Whitening of effects given a normal likelihood, and its gradients, as compiled kernels and PyTensor
                     Ops.
"""

from ppdinf.models import label_effects as label_effects
from ppdinf.models.aggregates import aggregate as aggregate
from ppdinf.models.aggregates import ranks as ranks
from ppdinf.models.aggregates import summary as summary
from ppdinf.models.compare import compare as compare
from ppdinf.models.formula import Fit as Fit
from ppdinf.models.formula import fit as fit
from ppdinf.models.label_effects import intercept_given_total as intercept_given_total
from ppdinf.models.label_effects import log_rates as log_rates
from ppdinf.models.least_squares import LeastSquares as LeastSquares
from ppdinf.models.least_squares import least_squares as least_squares
from ppdinf.models.log_likelihood import leave_one_out as leave_one_out
from ppdinf.models.log_likelihood import log_likelihood as log_likelihood
from ppdinf.models.log_likelihood import sample_release as sample_release
from ppdinf.models.missing_values import marginalize_missing as marginalize_missing
from ppdinf.models.one_sided_test import OneSidedTest as OneSidedTest
from ppdinf.models.partially_private import ConstrainedCounts as ConstrainedCounts
from ppdinf.models.partially_private import PartiallyPrivate as PartiallyPrivate
from ppdinf.models.partially_private import Released as Released
from ppdinf.models.posterior_tables import sample_confidential as sample_confidential

__all__ = [
    "ConstrainedCounts", "Fit", "LeastSquares", "OneSidedTest", "PartiallyPrivate", "Released", "aggregate", "compare",
    "fit", "intercept_given_total", "label_effects", "least_squares", "leave_one_out", "log_likelihood", "log_rates",
    "marginalize_missing", "ranks", "sample_confidential", "sample_release", "summary",
]  # fmt: skip
