"""Guarantees, and the exact parameters they are stated in."""

from ppdinf.privacy.audit import Audit as Audit
from ppdinf.privacy.audit import audit as audit
from ppdinf.privacy.composition import compose as compose
from ppdinf.privacy.composition import compose_parallel as compose_parallel
from ppdinf.privacy.composition import to_approximate as to_approximate
from ppdinf.privacy.composition import to_event as to_event
from ppdinf.privacy.composition import to_zcdp as to_zcdp
from ppdinf.privacy.condition_output import condition_output as condition_output
from ppdinf.privacy.conditioning import ConditioningCost as ConditioningCost
from ppdinf.privacy.conditioning import Erosion as Erosion
from ppdinf.privacy.conditioning import conditioning_cost as conditioning_cost
from ppdinf.privacy.conditioning import erosion as erosion
from ppdinf.privacy.conditioning import posterior_range as posterior_range
from ppdinf.privacy.conversion import zcdp_delta as zcdp_delta
from ppdinf.privacy.conversion import zcdp_epsilon as zcdp_epsilon
from ppdinf.privacy.conversion import zcdp_rho as zcdp_rho
from ppdinf.privacy.delta_z import count_pair as count_pair
from ppdinf.privacy.delta_z import delta_z as delta_z
from ppdinf.privacy.delta_z import delta_z_counts as delta_z_counts
from ppdinf.privacy.delta_z import delta_z_normal as delta_z_normal
from ppdinf.privacy.disclosure_limits import KAnonymity as KAnonymity
from ppdinf.privacy.disclosure_limits import TCloseness as TCloseness
from ppdinf.privacy.disclosure_limits import condition_pairs as condition_pairs
from ppdinf.privacy.gaussian_calibration import gaussian_delta as gaussian_delta
from ppdinf.privacy.gaussian_calibration import gaussian_sigma as gaussian_sigma
from ppdinf.privacy.guarantee import Guarantee as Guarantee
from ppdinf.privacy.guarantee import ReleaseGuarantee as ReleaseGuarantee
from ppdinf.privacy.ledger import Ledger as Ledger
from ppdinf.privacy.sensitivity import sensitivity as sensitivity
from ppdinf.privacy.sensitivity import sensitivity_polytope as sensitivity_polytope
from ppdinf.privacy.wasserstein import wasserstein_infinity as wasserstein_infinity
from ppdinf.rationals import as_fraction as as_fraction

__all__ = [
    "Audit",
    "ConditioningCost",
    "Erosion",
    "Guarantee",
    "KAnonymity",
    "Ledger",
    "ReleaseGuarantee",
    "TCloseness",
    "as_fraction",
    "audit",
    "compose",
    "compose_parallel",
    "condition_output",
    "condition_pairs",
    "conditioning_cost",
    "count_pair",
    "delta_z",
    "delta_z_counts",
    "delta_z_normal",
    "erosion",
    "gaussian_delta",
    "gaussian_sigma",
    "posterior_range",
    "sensitivity",
    "sensitivity_polytope",
    "to_approximate",
    "to_event",
    "to_zcdp",
    "wasserstein_infinity",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
