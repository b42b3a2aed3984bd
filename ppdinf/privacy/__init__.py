"""Guarantees, and the exact parameters they are stated in."""

from ppdinf.privacy.guarantee import Guarantee as Guarantee
from ppdinf.privacy.guarantee import ReleaseGuarantee as ReleaseGuarantee
from ppdinf.privacy.parameters import as_fraction as as_fraction

__all__ = ["Guarantee", "ReleaseGuarantee", "as_fraction"]
