"""Figures of noise, chains, mechanisms and posteriors.

Axes have units. The plotted values are computed in other subpackages.

chains             Traces and ranks of chains.
error_plan_figure  Error of released cells against the privacy loss.
noise              Distribution of the noise in one cell, drawn by the mechanism.
posterior_table    A released table and the posterior of the confidential table, cell by cell.
style              Common style of all figures: sizes, ink, and two colours for colour-blind readers.
"""

from ppdinf.plots.chains import plot_chains as plot_chains
from ppdinf.plots.error_plan_figure import plot_plan as plot_plan
from ppdinf.plots.noise import plot_noise as plot_noise
from ppdinf.plots.posterior_table import plot_posterior_table as plot_posterior_table

__all__ = ["plot_chains", "plot_noise", "plot_plan", "plot_posterior_table"]
