"""The posterior of a table given everything published about it, without a user-written model.

The prior learns its parameters; the table is sampled given the prior. The two parts are independent of each other's
algorithms.

contradictory_numbers  Published numbers that no table of counts has, and published numbers that the posterior
                       contradicts.
count_windows          Windows of non-negative counts, from the published measurements alone.
denoise                `denoise`: the posterior of a table given everything published about it.
denoise_parts          `denoise_parts`: the exact posterior of a table that does not fit in memory, part by part, from
                       files to Parquet.
denoised               The posterior of a table: draws, sums by label, estimates with intervals, exported tables.
identified_bounds      The smallest and largest value of every cell and sum, given everything certain.
learned_prior          A prior of the cells that learns its level, spread and sparsity, and the updates of its
                       parameters given a table.
part_sums              The parts of a table: weights of the total of each part, totals of all parts, and cells given the
                       totals.
table_gibbs            Gibbs and block steps of a table and its prior, for noisy sums that overlap in any way.
"""

from ppdinf.denoising.denoise import denoise
from ppdinf.denoising.denoise_parts import DenoisedParts, denoise_parts
from ppdinf.denoising.denoised import Denoised
from ppdinf.denoising.identified_bounds import identified_bounds
from ppdinf.denoising.part_sums import BinomialPrior

__all__ = ["BinomialPrior", "Denoised", "DenoisedParts", "denoise", "denoise_parts", "identified_bounds"]
