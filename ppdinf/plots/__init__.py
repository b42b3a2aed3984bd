"""Figures of noise, chains, mechanisms and posteriors.

Axes have units. The plotted values are computed in other subpackages.

noise        Noise of a mechanism in one cell, errors of released cells against the privacy loss, and of methods.
posterior    The posterior: the confidential table cell by cell, and traces and ranks of chains.
style        Common style of all figures: sizes, ink, and two colours for colour-blind readers.
uncertainty  Estimates of cells and areas, with the uncertain and the disclosed ones marked.
"""

from ppdinf.plots.noise import plot_noise, plot_plan, plot_scores
from ppdinf.plots.posterior import plot_chains, plot_posterior_table
from ppdinf.plots.uncertainty import plot_cells, plot_intervals, plot_map

__all__ = [
    "plot_cells", "plot_chains", "plot_intervals", "plot_map",
    "plot_noise", "plot_plan", "plot_posterior_table", "plot_scores",
]  # fmt: skip
