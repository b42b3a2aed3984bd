"""Release of tables that preserves the distribution of counts.

Rule: the histogram has a separate budget; everything after it is audited.

column_systems            The linear systems of an interior-point step for `ppdinf.counts.optimal`.
count_mechanism           Mechanisms for one count: a matrix of probabilities of released counts given true counts.
cut_noise                 Symmetric noise on a count, clipped at both ends.
discrete_gaussian_matrix  Discrete Gaussian noise on a count, clipped at both ends, for comparison.
distribution              Distributions of counts: the share of the cells with each count.
heuristic                 Mechanisms with a given fixed point, column by column (Algorithm 1).
metrics                   Distances between distributions of counts.
optimal                   The mechanism of smallest error with a given fixed point, by linear programming.
postprocessing            From a noisy histogram to a distribution of counts.
privatizers               Noise for a histogram of counts, one method per file.
runs                      The remaining row sums of a mechanism as runs of rows with one rigid shape each.
scales                    Powers of exp(epsilon), and the scales that are built from them.
staircase_matrix          Staircase noise on a count, rounded and clipped at both ends, for comparison.
sums_of_scales            Matrices of probabilities as sums of scales, and their largest ratio.
theory                    Representations of mechanisms by scales: polytopes, dimensions and extreme points.
truncated_geometric       Double geometric noise on a count, clipped at both ends.
two_stage                 Tables with a privatized histogram: the histogram first, then the cells given it.
unfixed                   The mechanism of smallest error with epsilon and without a fixed point.
"""

from ppdinf.counts.count_mechanism import CountMechanism as CountMechanism
from ppdinf.counts.count_mechanism import MechanismAudit as MechanismAudit
from ppdinf.counts.discrete_gaussian_matrix import discrete_gaussian as discrete_gaussian
from ppdinf.counts.distribution import histogram as histogram
from ppdinf.counts.heuristic import heuristic as heuristic
from ppdinf.counts.metrics import kolmogorov_smirnov as kolmogorov_smirnov
from ppdinf.counts.metrics import total_variation as total_variation
from ppdinf.counts.metrics import wasserstein as wasserstein
from ppdinf.counts.optimal import optimal as optimal
from ppdinf.counts.postprocessing import to_distribution as to_distribution
from ppdinf.counts.privatizers import noisy_histogram as noisy_histogram
from ppdinf.counts.scales import scale as scale
from ppdinf.counts.scales import scales as scales
from ppdinf.counts.scales import single_peaked as single_peaked
from ppdinf.counts.staircase_matrix import staircase as staircase
from ppdinf.counts.theory import affinely_simplified as affinely_simplified
from ppdinf.counts.theory import dimensions as dimensions
from ppdinf.counts.theory import linearly_simplified as linearly_simplified
from ppdinf.counts.theory import representation as representation
from ppdinf.counts.truncated_geometric import truncated_geometric as truncated_geometric
from ppdinf.counts.two_stage import TwoStage as TwoStage
from ppdinf.counts.two_stage import budget_share as budget_share
from ppdinf.counts.unfixed import unfixed as unfixed

__all__ = [
    "CountMechanism",
    "MechanismAudit",
    "TwoStage",
    "affinely_simplified",
    "budget_share",
    "dimensions",
    "discrete_gaussian",
    "heuristic",
    "histogram",
    "kolmogorov_smirnov",
    "linearly_simplified",
    "noisy_histogram",
    "optimal",
    "representation",
    "scale",
    "scales",
    "single_peaked",
    "staircase",
    "to_distribution",
    "total_variation",
    "truncated_geometric",
    "unfixed",
    "wasserstein",
]
