"""Laws of noise and of published numbers: log weights up to a constant, supports, and bounds for samplers.

Rule: this package states laws. It does not draw noise.

additive_law         Laws of published numbers that depend only on the noise ``y - x``.
additive_noise       Independent integer noise with any distribution of finite support.
banded_noise         Integer noise whose distribution depends on the band of the count.
censored             The base class of laws that replace numbers below a limit by one mark.
chain_kernels        The same log masses for compiled Markov chains.
clipped              Noisy counts that are clipped from below.
discrete_gaussian    Discrete Gaussian noise: exp(-z^2 / (2 sigma^2)).
double_geometric     Double geometric noise: exp(-epsilon |z|), or l1 Laplace noise on a lattice.
gaussian             Real Gaussian noise on counts.
histogram_noise      Noisy sums of a table's histogram of counts.
indicator_law        The base class of laws that only exclude counts.
interval             Ranges of counts that are known with certainty.
joint_l2             l2 Laplace noise of several published numbers together.
l2_laplace           l2 Laplace noise of vectors: exp(-epsilon |z|_2).
laplace              Real Laplace noise on counts.
law                  The base classes `Law` and `IntegerLaw` (independent integer noise, cell by cell).
law_array            Laws whose scale differs from entry to entry.
likelihood           The likelihood of a mechanism's release as a function of the confidential cells.
noise_norm           Real noise whose log density is minus a norm of a linear image.
observation_model    The base classes of laws of published numbers given the counts.
random_rounding      Unbiased random rounding to multiples of a base.
randomized_response  Randomized response with two answers.
real_noise           The base class of laws of real noise on counts.
rounded              Deterministic rounding to multiples of a base.
staircase            Staircase noise: exp(-epsilon j) on the j-th stair.
thresholded          Numbers that are published only at or above a threshold.
transition_matrix    A transition matrix with the probability of every released count for every count.
"""

from ppdinf.laws.additive_noise import AdditiveNoise as AdditiveNoise
from ppdinf.laws.banded_noise import BandedNoise as BandedNoise
from ppdinf.laws.banded_noise import read_ptable as read_ptable
from ppdinf.laws.clipped import Clipped as Clipped
from ppdinf.laws.discrete_gaussian import DiscreteGaussian as DiscreteGaussian
from ppdinf.laws.double_geometric import DoubleGeometric as DoubleGeometric
from ppdinf.laws.gaussian import Gaussian as Gaussian
from ppdinf.laws.interval import Interval as Interval
from ppdinf.laws.joint_l2 import JointL2 as JointL2
from ppdinf.laws.l2_laplace import L2Laplace as L2Laplace
from ppdinf.laws.laplace import Laplace as Laplace
from ppdinf.laws.law import IntegerLaw as IntegerLaw
from ppdinf.laws.law import Law as Law
from ppdinf.laws.law_array import LawArray as LawArray
from ppdinf.laws.noise_norm import NoiseNorm as NoiseNorm
from ppdinf.laws.random_rounding import RandomRounding as RandomRounding
from ppdinf.laws.randomized_response import RandomizedResponse as RandomizedResponse
from ppdinf.laws.rounded import Rounded as Rounded
from ppdinf.laws.staircase import Staircase as Staircase
from ppdinf.laws.thresholded import Thresholded as Thresholded
from ppdinf.laws.transition_matrix import TransitionMatrix as TransitionMatrix

__all__ = [
    "LAPLACE", "AdditiveNoise", "BandedNoise", "Clipped", "DiscreteGaussian", "DoubleGeometric", "Gaussian",
    "IntegerLaw", "Interval", "JointL2", "L2Laplace", "Laplace", "Law", "LawArray", "NoiseNorm", "RandomRounding",
    "RandomizedResponse", "Rounded", "Staircase", "Thresholded", "TransitionMatrix", "read_ptable",
]  # fmt: skip

LAPLACE: dict[str, type[DoubleGeometric] | type[L2Laplace]] = {"l1": DoubleGeometric, "l2": L2Laplace}
"""Laws with mass proportional to exp(-epsilon |z|), by the name of the norm."""
