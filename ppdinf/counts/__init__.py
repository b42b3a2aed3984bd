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

from ppdinf.counts.clipped_noise import bounded_geometric, discrete_gaussian, staircase, truncated_geometric, unfixed
from ppdinf.counts.count_mechanism import CountMechanism, MechanismAudit
from ppdinf.counts.distribution import (
    histogram,
    kolmogorov_smirnov,
    rerank,
    to_distribution,
    total_variation,
    wasserstein,
)
from ppdinf.counts.heuristic import heuristic
from ppdinf.counts.noisy_histogram import noisy_histogram
from ppdinf.counts.optimal import optimal
from ppdinf.counts.scales import scale, scales, single_peaked
from ppdinf.counts.theory import affinely_simplified, dimensions, extreme, linearly_simplified, representation
from ppdinf.counts.two_stage import TwoStage, budget_share

__all__ = [
    "CountMechanism", "MechanismAudit", "TwoStage", "affinely_simplified", "bounded_geometric", "budget_share",
    "dimensions", "discrete_gaussian", "extreme", "heuristic", "histogram", "kolmogorov_smirnov", "linearly_simplified",
    "noisy_histogram", "optimal", "representation", "rerank", "scale", "scales", "single_peaked", "staircase",
    "to_distribution", "total_variation", "truncated_geometric", "unfixed", "wasserstein",
]  # fmt: skip
