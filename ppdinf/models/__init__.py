"""The analyst's side: PyMC models for tables that are known only through their release."""

from ppdinf.models.partially_private import PartiallyPrivate as PartiallyPrivate
from ppdinf.models.partially_private import sample_confidential as sample_confidential

__all__ = ["PartiallyPrivate", "sample_confidential"]
