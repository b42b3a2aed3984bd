"""Laws of noise and of published numbers: log weights up to a constant, supports, and bounds for samplers.

Rule: this package states laws. It does not draw noise.

additive_law       Laws of published numbers that depend only on the noise ``y - x``.
histogram_noise    Noisy sums of a table's histogram of counts.
integer_noise      Laws of integer noise, independent from cell to cell or joint.
law                The base classes `Law` and `IntegerLaw` (independent integer noise, cell by cell).
law_array          Laws whose scale differs from entry to entry.
likelihood         The likelihood of a mechanism's release as a function of the confidential cells.
observation_model  The base classes of laws of published numbers given the counts.
published          Laws of published numbers that are rounded, suppressed, clipped or randomly changed.
real_valued        Laws of real noise on counts.
"""

from ppdinf.laws.integer_noise.additive_noise import AdditiveNoise as AdditiveNoise
from ppdinf.laws.integer_noise.banded_noise import BandedNoise as BandedNoise
from ppdinf.laws.integer_noise.banded_noise import read_ptable as read_ptable
from ppdinf.laws.integer_noise.discrete_gaussian import DiscreteGaussian as DiscreteGaussian
from ppdinf.laws.integer_noise.double_geometric import DoubleGeometric as DoubleGeometric
from ppdinf.laws.integer_noise.joint_l2 import JointL2 as JointL2
from ppdinf.laws.integer_noise.l2_laplace import L2Laplace as L2Laplace
from ppdinf.laws.integer_noise.staircase import Staircase as Staircase
from ppdinf.laws.law import IntegerLaw as IntegerLaw
from ppdinf.laws.law import Law as Law
from ppdinf.laws.law_array import LawArray as LawArray
from ppdinf.laws.published.clipped import Clipped as Clipped
from ppdinf.laws.published.interval import Interval as Interval
from ppdinf.laws.published.random_rounding import RandomRounding as RandomRounding
from ppdinf.laws.published.randomized_response import RandomizedResponse as RandomizedResponse
from ppdinf.laws.published.rounded import Rounded as Rounded
from ppdinf.laws.published.sampled import Sampled as Sampled
from ppdinf.laws.published.suppressed import Suppressed as Suppressed
from ppdinf.laws.published.thresholded import Thresholded as Thresholded
from ppdinf.laws.published.transition_matrix import TransitionMatrix as TransitionMatrix
from ppdinf.laws.real_valued.gaussian import Gaussian as Gaussian
from ppdinf.laws.real_valued.laplace import Laplace as Laplace
from ppdinf.laws.real_valued.noise_norm import NoiseNorm as NoiseNorm

__all__ = [
    "AdditiveNoise", "BandedNoise", "Clipped", "DiscreteGaussian", "DoubleGeometric", "Gaussian",
    "IntegerLaw", "Interval", "JointL2", "L2Laplace", "Laplace", "Law", "LawArray", "NoiseNorm", "RandomRounding",
    "RandomizedResponse", "Rounded", "Sampled", "Staircase", "Suppressed", "Thresholded", "TransitionMatrix",
    "read_ptable",
]  # fmt: skip

LAPLACE: dict[str, type[DoubleGeometric] | type[L2Laplace]] = {"l1": DoubleGeometric, "l2": L2Laplace}
"""Laws with mass proportional to ``exp(-epsilon |z|)``, by the name of the norm."""
