"""The analyst's side: PyMC models for tables that are known only through their release.

Rule: what an analyst writes, reads and compares.

aggregates            sums and ranks of posterior draws of a table, by label; estimates, intervals and probabilities
                      computed from draws
comparators           what analysts do with a noisy table who do not condition on how it was made: to compare with,
                      not to use
compare               how ways of publishing and of reading a table compare: bias, error, coverage and width over
                      simulated releases
constrained_counts    `ConstrainedCounts`: a data model for integers of which exact sums are known, and nothing else
coordinates           coordinates of effects of labels in which NUTS takes long steps, with what is told of them
log_likelihood        pointwise log likelihoods of a release, for ``az.loo`` and ``az.compare``: one for the cells
                      of each public sum
mass_outside_windows  posterior probability outside the windows of counts of a confidential table
one_sided_test        one-sided tests from a noisy count: exact p-values, and no test of the same release is more
                      powerful
partially_private     `PartiallyPrivate`: one line that ties a PyMC model for a confidential table to its release
posterior_tables      posterior draws of the confidential table, whichever way the model was fitted
rates                 A ready model of rates: Poisson counts in a table, cells alike but not the same
ready                 log rates with effects of labels, in coordinates that suit NUTS, however much a release tells
released_table        `Released`: a mechanism's release of a table that is itself a variable of the model
reparametrize         the intercept of a log-linear model whose expected total is pinned down by a public one
standardise           independent normal variables as what is standard normal once something is told of them: values
                      and gradients
standardise_op        the same as Ops of PyTensor: compiled once per installation
starts                normal variables with a start of their own, that of chains which nobody gave another
"""

from ppdinf.models import ready as ready
from ppdinf.models import reparametrize as levels
from ppdinf.models.aggregates import aggregate as aggregate
from ppdinf.models.aggregates import ranks as ranks
from ppdinf.models.aggregates import summary as summary
from ppdinf.models.compare import compare as compare
from ppdinf.models.constrained_counts import ConstrainedCounts as ConstrainedCounts
from ppdinf.models.log_likelihood import log_likelihood as log_likelihood
from ppdinf.models.log_likelihood import sample_release as sample_release
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
    "levels",
    "log_likelihood",
    "ranks",
    "ready",
    "sample_confidential",
    "sample_release",
    "summary",
]  # fmt: skip
