"""Tables whose histogram of counts survives: mechanisms with a fixed point, and the theory behind them.

N. Kohli, P. Laskowski, "Preserving target distributions with differentially private count mechanisms".
"""

from ppdinf.counts.count_mechanism import Audit as Audit
from ppdinf.counts.count_mechanism import CountMechanism as CountMechanism
from ppdinf.counts.discrete_gaussian import discrete_gaussian as discrete_gaussian
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
from ppdinf.counts.staircase import staircase as staircase
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
