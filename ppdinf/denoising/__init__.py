"""The posterior of a table given everything published about it, without a user-written model.

The prior learns its parameters; the table is sampled given the prior. The two parts are independent of each other's
algorithms.

count_windows    Windows of non-negative counts, from the published measurements alone.
denoise          `denoise`: the posterior of a table given everything published about it.
denoised         The posterior of a table: draws, sums by label, estimates with intervals, exported tables.
gibbs_sweeps     Sweeps of a chain of tables and parameters of their prior, in one kernel.
identified_bounds  The smallest and largest value of every cell and sum, given everything certain.
joint_updates    Updates of the learned prior's parameters, each jointly with the table.
learned_prior    A prior of the cells that learns its level, spread and sparsity.
parameter_moves  Random-walk Metropolis steps of the prior's parameters given a table.
table_forest     Exact draws of a table given its prior, if any two noisy or exact sums are nested or disjoint.
table_gibbs      Gibbs and block steps of a table given its prior, for sums that overlap in any way.
"""

from ppdinf.denoising.denoise import denoise as denoise
from ppdinf.denoising.denoised import Denoised as Denoised
from ppdinf.denoising.identified_bounds import identified_bounds as identified_bounds

__all__ = ["Denoised", "denoise", "identified_bounds"]
