"""Guarantees, and the exact parameters they are stated in."""

from ppdinf.privacy.guarantee import Guarantee as Guarantee
from ppdinf.privacy.guarantee import ReleaseGuarantee as ReleaseGuarantee
from ppdinf.privacy.parameters import as_fraction as as_fraction
from ppdinf.privacy.wasserstein import wasserstein_infinity as wasserstein_infinity

__all__ = ["Guarantee", "ReleaseGuarantee", "as_fraction", "wasserstein_infinity"]
