"""Figures of noise, chains, mechanisms and posteriors.

Axes have units. The plotted values are computed in other subpackages.

chains                  Traces and ranks of chains.
count_mechanism_figure  Mechanisms for single counts, and their effect on a histogram.
delta_z_figure          Delta_z of a count for dependent persons.
error_plan_figure       Error of released cells against the privacy loss.
noise                   Distribution of the noise in one cell, drawn by the mechanism.
noise_chains_figure     Noise chains: convergence bounds, noise by cell, autocorrelation.
posterior_table         A released table and the posterior of the confidential table, cell by cell.
style                   Common style of all figures: sizes, ink, and two colours for colour-blind readers.
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
