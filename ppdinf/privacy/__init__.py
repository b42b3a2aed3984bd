"""Guarantees, and the arithmetic of their parameters.

Rule: statements about mechanisms, never draws of noise.

audit                 Audits by enumeration of all pairs of tables and all releases of a mechanism.
budget                A budget of privacy loss, and the ledger of all releases of one table.
composition           The joint guarantee of several releases.
conditioning          Gamma, the additional privacy loss of noise conditioned on public bounds, and the tables that
                      public sums leave protected.
gaussian_calibration  The scale of normal and of discrete Gaussian noise for (epsilon, delta) differential privacy.
guarantee             The statement of a guarantee: loss, distance, protected and unprotected information.
lattice_gaussian      Gaussian noise on a lattice {z : A z = 0}: its delta, the scale for a required delta, and tails.
posterior_bounds      Bounds on posterior probabilities by the privacy loss.
pufferfish            Pufferfish privacy given public information: disclosure limits, conditioned laws and outputs, and
                      the sensitivity Delta_z.
release_guarantee     The guarantee of one release, at the nearest other table that the public sums allow.
restatement           Restatement of a guarantee in zCDP, at one distance, for models of the data, or as an event of
                      dp-accounting.
sensitivity           The changes of the answers to a linear query by one person: the largest change, all changes, and
                      an ellipsoid around them.
unit_loss             The privacy loss of one protected unit, from the neighbour relation and its number of records, and
                      numbers of a loss in words.
wasserstein_distance  Infinity-Wasserstein distance between discrete laws.
zcdp                  From zero-concentrated to approximate differential privacy, and back.
"""

from ppdinf._internal.rationals import as_fraction
from ppdinf.privacy.audit import Audit, audit
from ppdinf.privacy.budget import Ledger
from ppdinf.privacy.composition import compose, compose_parallel
from ppdinf.privacy.composition import compose_partition as compose_partition
from ppdinf.privacy.conditioning import ConditioningCost, Erosion, conditioning_cost, erosion
from ppdinf.privacy.gaussian_calibration import gaussian_delta, gaussian_sigma
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.lattice_gaussian import tail_bound
from ppdinf.privacy.posterior_bounds import posterior_distance, posterior_range
from ppdinf.privacy.pufferfish import (
    KAnonymity,
    TCloseness,
    condition_output,
    condition_pairs,
    delta_z,
    delta_z_counts,
    delta_z_normal,
    secret_pair,
)
from ppdinf.privacy.release_guarantee import ReleaseGuarantee
from ppdinf.privacy.restatement import to_approximate, to_event, to_pufferfish, to_zcdp
from ppdinf.privacy.sensitivity import sensitivity, sensitivity_polytope
from ppdinf.privacy.wasserstein_distance import wasserstein_infinity
from ppdinf.privacy.zcdp import zcdp_delta, zcdp_epsilon, zcdp_rho

__all__ = [
    "Audit", "ConditioningCost", "Erosion", "Guarantee", "KAnonymity", "Ledger", "ReleaseGuarantee", "TCloseness",
    "as_fraction", "audit", "compose", "compose_parallel", "condition_output", "condition_pairs", "conditioning_cost",
    "delta_z", "delta_z_counts", "delta_z_normal", "erosion", "gaussian_delta", "gaussian_sigma", "posterior_distance",
    "posterior_range", "secret_pair", "sensitivity", "sensitivity_polytope", "tail_bound", "to_approximate", "to_event",
    "to_pufferfish", "to_zcdp", "wasserstein_infinity", "zcdp_delta", "zcdp_epsilon", "zcdp_rho",
]  # fmt: skip
