"""Laws of noise and of published numbers: log weights up to a constant, supports, and bounds for samplers.

Rule: this package states laws. It does not draw noise.

additive_law       Noise that is added to a count, with a compiled kernel for Markov chains.
averaged           Averages over several years: a count divided by a known number, rounded to the printed decimals.
banded_noise       Integer noise with any distribution of finite support, which can depend on the band of the count.
censored           Numbers of another law, of which those below a limit are replaced: clipped, or not published below a
                   threshold.
discrete_gaussian  Discrete Gaussian noise: exp(-z^2 / (2 sigma^2)).
double_geometric   Double geometric noise: exp(-epsilon |z|), or l1 Laplace noise on a lattice.
interval           Laws that only exclude counts, and ranges of counts that are known with certainty, such as "1-9" or
                   "<5".
l2_laplace         l2 Laplace noise, exp(-epsilon |z|_2), of whole tables and of several published numbers together.
law                The base classes `Law` and `IntegerLaw` (independent integer noise, cell by cell).
law_array          Laws whose scale differs from entry to entry.
likelihood         The likelihood of a mechanism's release: the density of the release as a function of the confidential
                   cells.
noise_norm         Real noise whose log density is minus a norm of a linear image.
observation_model  The base classes of laws of published numbers given the counts.
preimage           The noisy tables that post-processing maps to one published table, as a likelihood of the
                   confidential cells.
real_noise         Real noise on counts, Gaussian or Laplace: published numbers are reals, and log weights are
                   quadratic.
rounded            Rounding of counts to a multiple of a base: to the nearest with a stated tie rule, down, up, or at
                   random.
sampled            Survey estimates: the number of sampled units times their weight.
staircase          Staircase noise: exp(-epsilon j) on the j-th stair.
suppressed         Numbers of another law, if the count is not suppressed.
synonyms           Names of papers for parameters of noise, and what they mean here.
transition_matrix  A transition matrix with the probability of every released count for every count, and randomized
                   response.
unknown_scale      Noise whose scale is a variable of a PyMC model.
"""

from ppdinf.laws.averaged import Averaged
from ppdinf.laws.banded_noise import AdditiveNoise, BandedNoise, read_ptable
from ppdinf.laws.censored import Clipped, Thresholded
from ppdinf.laws.discrete_gaussian import DiscreteGaussian
from ppdinf.laws.double_geometric import DoubleGeometric
from ppdinf.laws.interval import Interval
from ppdinf.laws.l2_laplace import JointL2, L2Laplace
from ppdinf.laws.law import IntegerLaw, Law
from ppdinf.laws.law_array import LawArray
from ppdinf.laws.noise_norm import NoiseNorm
from ppdinf.laws.real_noise import Gaussian, Laplace
from ppdinf.laws.rounded import RandomRounding, Rounded
from ppdinf.laws.sampled import Sampled
from ppdinf.laws.staircase import Staircase
from ppdinf.laws.suppressed import Suppressed
from ppdinf.laws.transition_matrix import RandomizedResponse, TransitionMatrix

__all__ = [
    "AdditiveNoise", "Averaged", "BandedNoise", "Clipped", "DiscreteGaussian", "DoubleGeometric", "Gaussian",
    "IntegerLaw", "Interval", "JointL2", "L2Laplace", "Laplace", "Law", "LawArray", "NoiseNorm", "RandomRounding",
    "RandomizedResponse", "Rounded", "Sampled", "Staircase", "Suppressed", "Thresholded", "TransitionMatrix",
    "read_ptable",
]  # fmt: skip

LAPLACE: dict[str, type[DoubleGeometric] | type[L2Laplace]] = {"l1": DoubleGeometric, "l2": L2Laplace}
"""Laws with mass proportional to ``exp(-epsilon |z|)``, by the name of the norm."""
