"""Guarantees, and the arithmetic of their parameters.

Rule: statements about mechanisms, never draws of noise.

accounting               Composition of several releases, and budgets.
audit                    Audits by enumeration of all pairs of tables and all releases of a mechanism.
condition_output         The guarantee of a release conditioned on public information.
conditioning             The effect of conditioning noise on public information, on the loss and on protected tables.
conditioning_blocks      Gamma, the cost of conditioning noise on bounds, by blocks.
delta_z                  Sensitivity given public information: the distance by which a secret moves a law.
disclosure_limits        Disclosure limits as public information: k-anonymity and t-closeness of a count.
discrete_gaussian_scale  The scale of discrete Gaussian noise on one count for a given epsilon and delta.
ellipsoid                The smallest ellipsoid around a set of points and their negatives, with a certificate.
gaussian_calibration     The standard deviation of Gaussian noise for (epsilon, delta) differential privacy.
guarantees               Statements of guarantees and conversions between them.
sensitivity              The largest change of the answers to a linear query by one person.
wasserstein_distance     Infinity-Wasserstein distance between discrete laws.
"""

from ppdinf._internal.rationals import as_fraction as as_fraction
from ppdinf.privacy.accounting.composition import compose as compose
from ppdinf.privacy.accounting.composition import compose_parallel as compose_parallel
from ppdinf.privacy.accounting.composition import compose_partition as compose_partition
from ppdinf.privacy.accounting.ledger import Ledger as Ledger
from ppdinf.privacy.audit import Audit as Audit
from ppdinf.privacy.audit import audit as audit
from ppdinf.privacy.condition_output import condition_output as condition_output
from ppdinf.privacy.conditioning import ConditioningCost as ConditioningCost
from ppdinf.privacy.conditioning import Erosion as Erosion
from ppdinf.privacy.conditioning import conditioning_cost as conditioning_cost
from ppdinf.privacy.conditioning import erosion as erosion
from ppdinf.privacy.conditioning import posterior_range as posterior_range
from ppdinf.privacy.delta_z import delta_z as delta_z
from ppdinf.privacy.delta_z import delta_z_counts as delta_z_counts
from ppdinf.privacy.delta_z import delta_z_normal as delta_z_normal
from ppdinf.privacy.delta_z import secret_pair as secret_pair
from ppdinf.privacy.disclosure_limits import KAnonymity as KAnonymity
from ppdinf.privacy.disclosure_limits import TCloseness as TCloseness
from ppdinf.privacy.disclosure_limits import condition_pairs as condition_pairs
from ppdinf.privacy.gaussian_calibration import gaussian_delta as gaussian_delta
from ppdinf.privacy.gaussian_calibration import gaussian_sigma as gaussian_sigma
from ppdinf.privacy.guarantees.conversion import zcdp_delta as zcdp_delta
from ppdinf.privacy.guarantees.conversion import zcdp_epsilon as zcdp_epsilon
from ppdinf.privacy.guarantees.conversion import zcdp_rho as zcdp_rho
from ppdinf.privacy.guarantees.guarantee import Guarantee as Guarantee
from ppdinf.privacy.guarantees.release_guarantee import ReleaseGuarantee as ReleaseGuarantee
from ppdinf.privacy.guarantees.restatement import to_approximate as to_approximate
from ppdinf.privacy.guarantees.restatement import to_event as to_event
from ppdinf.privacy.guarantees.restatement import to_zcdp as to_zcdp
from ppdinf.privacy.sensitivity import sensitivity as sensitivity
from ppdinf.privacy.sensitivity import sensitivity_polytope as sensitivity_polytope
from ppdinf.privacy.wasserstein_distance import wasserstein_infinity as wasserstein_infinity

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
    "delta_z",
    "delta_z_counts",
    "delta_z_normal",
    "erosion",
    "gaussian_delta",
    "gaussian_sigma",
    "posterior_range",
    "secret_pair",
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
