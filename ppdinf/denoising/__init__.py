"""The posterior of a table given everything published about it, without a user-written model.

The prior learns its parameters; the table is sampled given the prior. The two parts are independent of each other's
algorithms.

contradictions   Published numbers that the posterior contradicts, with a proved false-alarm rate.
count_priors     Priors of counts whose parameters are given.
count_windows    Windows of non-negative counts, from the published measurements alone.
denoise          `denoise`: the posterior of a table given everything published about it.
denoise_parts    `denoise_parts`: the posterior of a table that does not fit in memory, part by part.
denoised         The posterior of a table: draws, sums by label, estimates with intervals, exported tables.
gibbs_sweeps     Sweeps of a chain of tables and parameters of their prior, in one kernel.
identified_bounds  The smallest and largest value of every cell and sum, given everything certain.
impossible_numbers  Published numbers that no count can have by themselves.
joint_updates    Updates of the learned prior's parameters, each jointly with the table.
learned_prior    A prior of the cells that learns its level, spread and sparsity.
parameter_moves  Random-walk Metropolis steps of the prior's parameters given a table.
part_files       One part of a table: its source, and the files of its message and its draws.
part_sums        One part as a tree of nested sums: the weights of its total, and its cells given the total.
part_totals      The totals of all parts, given the weights of each total and what is known about their sums.
table_forest     Exact draws of a table given its prior, if any two noisy or exact sums are nested or disjoint.
table_gibbs      Gibbs and block steps of a table given its prior, for sums that overlap in any way.
"""

from ppdinf.denoising.count_priors import BinomialPrior as BinomialPrior
from ppdinf.denoising.denoise import denoise as denoise
from ppdinf.denoising.denoise_parts import DenoisedParts as DenoisedParts
from ppdinf.denoising.denoise_parts import denoise_parts as denoise_parts
from ppdinf.denoising.denoised import Denoised as Denoised
from ppdinf.denoising.identified_bounds import identified_bounds as identified_bounds

__all__ = ["BinomialPrior", "Denoised", "DenoisedParts", "denoise", "denoise_parts", "identified_bounds"]
