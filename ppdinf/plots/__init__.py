"""Figures of noise, chains, mechanisms and posteriors.

Axes have units. The plotted values are computed in other subpackages.

area_map           Estimates of areas on a map.
chains             Traces and ranks of chains.
error_plan_figure  Error of released cells against the privacy loss.
noise              Distribution of the noise in one cell, drawn by the mechanism.
posterior_table    A released table and the posterior of the confidential table, cell by cell.
style              Common style of all figures: sizes, ink, and two colours for colour-blind readers.
uncertainty_grid   The cells of a table whose uncertainty is large compared with their counts.
"""

from ppdinf.plots.area_map import plot_map as plot_map
from ppdinf.plots.chains import plot_chains as plot_chains
from ppdinf.plots.error_plan_figure import plot_plan as plot_plan
from ppdinf.plots.noise import plot_noise as plot_noise
from ppdinf.plots.posterior_table import plot_posterior_table as plot_posterior_table
from ppdinf.plots.uncertainty_grid import plot_cells as plot_cells

__all__ = ["plot_cells", "plot_chains", "plot_map", "plot_noise", "plot_plan", "plot_posterior_table"]
