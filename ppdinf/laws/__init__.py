"""Laws of noise, stated once: weights up to the normaliser, how far noise reaches, what samplers may ask.

Rule: what a law weighs, how far it reaches, what samplers may ask of it; nothing here draws.

additive_law       published numbers whose noise alone decides what they weigh
chain_kernels      the same weights for compiled chains
discrete_gaussian  exp(-z^2 / (2 sigma^2))
double_geometric   exp(-epsilon |z|), l1 Laplace noise once it is held on a lattice
histogram_noise    noisy sums of a table's histogram of counts
joint_l2           l2 Laplace noise of several published numbers together
l2_laplace         exp(-epsilon |z|_2) of whole vectors
law                what a law states; `IntegerLaw`: independent whole numbers, cell by cell
law_array          laws whose scale differs from entry to entry
likelihood         what inference asks of a mechanism, in the terms of these
noise_norm         minus a norm of a linear image of real noise
observation_model  what a law of published numbers states
random_rounding    random rounding to multiples of a base, whatever the count
staircase          exp(-epsilon times the number of the stair)
thresholded        noisy counts of which those below a threshold were not published
transition_matrix  a probability of every released count for every count
"""

from ppdinf.laws.discrete_gaussian import DiscreteGaussian as DiscreteGaussian
from ppdinf.laws.double_geometric import DoubleGeometric as DoubleGeometric
from ppdinf.laws.joint_l2 import JointL2 as JointL2
from ppdinf.laws.l2_laplace import L2Laplace as L2Laplace
from ppdinf.laws.law import IntegerLaw as IntegerLaw
from ppdinf.laws.law import Law as Law
from ppdinf.laws.law_array import LawArray as LawArray
from ppdinf.laws.noise_norm import NoiseNorm as NoiseNorm
from ppdinf.laws.random_rounding import RandomRounding as RandomRounding
from ppdinf.laws.staircase import Staircase as Staircase
from ppdinf.laws.thresholded import Thresholded as Thresholded
from ppdinf.laws.transition_matrix import TransitionMatrix as TransitionMatrix

__all__ = [
    "LAPLACE", "DiscreteGaussian", "DoubleGeometric", "IntegerLaw", "JointL2", "L2Laplace", "Law", "LawArray",
    "NoiseNorm", "RandomRounding", "Staircase", "Thresholded", "TransitionMatrix",
]  # fmt: skip

LAPLACE: dict[str, type[DoubleGeometric] | type[L2Laplace]] = {"l1": DoubleGeometric, "l2": L2Laplace}
"""Noise with mass proportional to exp(-epsilon |z|), by the norm."""
