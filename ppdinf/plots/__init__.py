"""Figures of releases, their noise and the posteriors drawn from them."""

from ppdinf.plots.chains import plot_chains as plot_chains
from ppdinf.plots.delta_z import plot_delta_z as plot_delta_z
from ppdinf.plots.noise import plot_noise as plot_noise
from ppdinf.plots.posterior_table import plot_posterior_table as plot_posterior_table

__all__ = ["plot_chains", "plot_delta_z", "plot_noise", "plot_posterior_table"]
