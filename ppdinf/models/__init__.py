"""The analyst's side: PyMC models for tables that are known only through their release."""

from ppdinf.models.compare import compare as compare
from ppdinf.models.log_likelihood import log_likelihood as log_likelihood
from ppdinf.models.log_likelihood import sample_release as sample_release
from ppdinf.models.one_sided_test import OneSidedTest as OneSidedTest
from ppdinf.models.partially_private import PartiallyPrivate as PartiallyPrivate
from ppdinf.models.posterior_tables import sample_confidential as sample_confidential

__all__ = ["OneSidedTest", "PartiallyPrivate", "compare", "log_likelihood", "sample_confidential", "sample_release"]
