"""Release of tables that preserves the distribution of counts.

Rule: the histogram has a separate budget; everything after it is audited.

clipped_noise    Noise on one count, clipped at both ends, and the mechanism of smallest error without a fixed point.
count_mechanism  Mechanisms for one count: a matrix of probabilities of released counts given true counts.
distribution     Distributions of counts: the share of the cells with each count, from exact or noisy histograms, their
                 distances, and cells that are re-ranked to a distribution.
heuristic        Mechanisms with a given fixed point, column by column (Algorithm 1), with accurate sums.
noisy_histogram  Noise for a histogram of counts: privatizers measure sums of a histogram, and estimate the histogram
                 from them.
optimal          The mechanism of smallest error with a given fixed point, in closed form or by interior points.
scales           Powers of exp(epsilon), the scales that are built from them, and matrices of probabilities as sums of
                 scales.
theory           Representations of mechanisms by scales: polytopes, dimensions and extreme points.
two_stage        Tables with a privatized histogram: the histogram first, then the cells given it.
"""

from ppdinf.counts.clipped_noise import bounded_geometric as bounded_geometric
from ppdinf.counts.clipped_noise import discrete_gaussian as discrete_gaussian
from ppdinf.counts.clipped_noise import staircase as staircase
from ppdinf.counts.clipped_noise import truncated_geometric as truncated_geometric
from ppdinf.counts.clipped_noise import unfixed as unfixed
from ppdinf.counts.count_mechanism import CountMechanism as CountMechanism
from ppdinf.counts.count_mechanism import MechanismAudit as MechanismAudit
from ppdinf.counts.distribution import histogram as histogram
from ppdinf.counts.distribution import kolmogorov_smirnov as kolmogorov_smirnov
from ppdinf.counts.distribution import rerank as rerank
from ppdinf.counts.distribution import to_distribution as to_distribution
from ppdinf.counts.distribution import total_variation as total_variation
from ppdinf.counts.distribution import wasserstein as wasserstein
from ppdinf.counts.heuristic import heuristic as heuristic
from ppdinf.counts.noisy_histogram import noisy_histogram as noisy_histogram
from ppdinf.counts.optimal import optimal as optimal
from ppdinf.counts.scales import scale as scale
from ppdinf.counts.scales import scales as scales
from ppdinf.counts.scales import single_peaked as single_peaked
from ppdinf.counts.theory import affinely_simplified as affinely_simplified
from ppdinf.counts.theory import dimensions as dimensions
from ppdinf.counts.theory import extreme as extreme
from ppdinf.counts.theory import linearly_simplified as linearly_simplified
from ppdinf.counts.theory import representation as representation
from ppdinf.counts.two_stage import TwoStage as TwoStage
from ppdinf.counts.two_stage import budget_share as budget_share

__all__ = [
    "CountMechanism", "MechanismAudit", "TwoStage", "affinely_simplified", "bounded_geometric", "budget_share",
    "dimensions", "discrete_gaussian", "extreme", "heuristic", "histogram", "kolmogorov_smirnov", "linearly_simplified",
    "noisy_histogram", "optimal", "representation", "rerank", "scale", "scales", "single_peaked", "staircase",
    "to_distribution", "total_variation", "truncated_geometric", "unfixed", "wasserstein",
]  # fmt: skip
