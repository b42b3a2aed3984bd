"""Pictures of noise, chains, mechanisms and posteriors.

Rule: axes have units; what is drawn was computed elsewhere.

chains                  traces and ranks: what the chains did
count_mechanism_figure  pictures of mechanisms for single counts, and of what they do to a histogram
delta_z_figure          how much one person's secret can say about a count when persons' values hang together
error_plan_figure       which privacy loss gives which error
noise                   the law of the noise in one cell, as the mechanism draws it
noise_chains_figure     noise chains: how fast they converge, what they draw, how long they remember
posterior_table         A released table against the posterior of the confidential one, cell by cell
style                   one look for every figure: sizes, ink, and two colours that every eye tells apart
"""

from ppdinf.plots.chains import plot_chains as plot_chains
from ppdinf.plots.count_mechanism_figure import heat_map as heat_map
from ppdinf.plots.count_mechanism_figure import plot_count_mechanism as plot_count_mechanism
from ppdinf.plots.count_mechanism_figure import plot_histograms as plot_histograms
from ppdinf.plots.delta_z_figure import plot_delta_z as plot_delta_z
from ppdinf.plots.error_plan_figure import plot_plan as plot_plan
from ppdinf.plots.noise import plot_noise as plot_noise
from ppdinf.plots.noise_chains_figure import noise_tree as noise_tree
from ppdinf.plots.noise_chains_figure import plot_autocorrelation as plot_autocorrelation
from ppdinf.plots.noise_chains_figure import plot_noise_boxes as plot_noise_boxes
from ppdinf.plots.noise_chains_figure import plot_tv_bound as plot_tv_bound
from ppdinf.plots.posterior_table import plot_posterior_table as plot_posterior_table

__all__ = [
    "heat_map",
    "noise_tree",
    "plot_autocorrelation",
    "plot_chains",
    "plot_count_mechanism",
    "plot_delta_z",
    "plot_histograms",
    "plot_noise",
    "plot_noise_boxes",
    "plot_plan",
    "plot_posterior_table",
    "plot_tv_bound",
]
