"""The posterior of a table given everything published about it, without writing a model.

Rule: the prior learns, the table moves given it; neither knows how the other does.

count_windows    windows of counts from 0 on, by what was published alone
denoise          `denoise`: the posterior of a table given everything published about it
denoised         the posterior of a table: draws, sums by label, estimates with intervals, tables for others to read
learned_prior    a prior of the cells of a table that learns its level, spread and sparsity
parameter_moves  parameters of the learned prior given a table: random-walk Metropolis steps
table_forest     a table given its prior, drawn exactly: any two sums, noisy or exact, are nested or disjoint
table_walk       a table given its prior, by a walk on its fiber, along lines and of cells at once: sums may overlap
                 in any way
"""

from ppdinf.denoising.denoise import denoise as denoise
from ppdinf.denoising.denoised import Denoised as Denoised

__all__ = ["Denoised", "denoise"]
