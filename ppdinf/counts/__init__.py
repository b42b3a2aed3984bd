"""Tables whose distribution of counts survives privatization.

Rule: the histogram gets its own budget; everything after it is audited.

column_systems            the linear systems of an interior-point step for `ppdinf.counts.optimal`, without a
                          harmful subtraction
count_mechanism           mechanisms for one count: a row of probabilities of each released count for every true one
cut_noise                 symmetric noise on a count, cut at both ends: what falls below 0 or above n - 1 is
                          returned to the nearest end
discrete_gaussian_matrix  discrete Gaussian noise on a count, cut at both ends, to compare with
distribution              distributions of counts: how large a share of the cells holds each count
heuristic                 mechanisms with a given fixed point, one column at a time (Algorithm 1), with sums that
                          keep their digits
metrics                   distances between distributions of counts
optimal                   the mechanism of least error among those with a given fixed point: a linear programme,
                          solved by its structure
postprocessing            from a noisy histogram, with negative numbers and another total, to a distribution of
                          counts
privatizers               mechanisms for the histogram of counts, which is privatized first
runs                      what the rows of a mechanism still lack, as runs of rows with one rigid shape each
scales                    powers of exp(epsilon), and the scales that are built of them
staircase_matrix          staircase noise on a count, rounded and cut at both ends, to compare with
sums_of_scales            matrices of probabilities that are stated as sums of scales, and their largest ratio
theory                    representations of mechanisms by scales: their polytopes, dimensions and extreme points
truncated_geometric       double geometric noise, cut at both ends: a mechanism whose columns are the single-peaked
                          scales
two_stage                 tables whose histogram of counts survives: the histogram is privatized, then every cell,
                          with that fixed point
unfixed                   the least error of all mechanisms that satisfy epsilon, whatever becomes of the histogram
"""

from ppdinf.counts.count_mechanism import Audit as Audit
from ppdinf.counts.count_mechanism import CountMechanism as CountMechanism
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
    "Audit",
    "CountMechanism",
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
