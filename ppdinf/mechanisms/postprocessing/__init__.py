"""Post-processing of noisy tables as other curators use it, with its guarantee and its bias.

Rule: post-processing reads the noisy table and the public statements, nothing else.

controlled        Controlled rounding: a real table and all its sums, each rounded to a neighbouring integer.
feasible_tables   The set of non-negative tables that satisfy all public statements: projection and rounding.
postprocessed     Independent noise in every cell, then a projection onto the public statements.
processed_release A post-processed table together with its noisy table, which inference uses.
projection        Weighted least-squares projection onto public sums and bounds.
rounding          Rounding of a real table to integers that have the public sums.
simplex           Projection onto non-negative numbers with public sums over disjoint groups, by sorting.
topdown           Top-down estimation: every level of a hierarchy is measured with noise and fitted below the level
                  above.
"""

from ppdinf.mechanisms.postprocessing.controlled import controlled_rounding as controlled_rounding
from ppdinf.mechanisms.postprocessing.postprocessed import PostProcessed as PostProcessed
from ppdinf.mechanisms.postprocessing.processed_release import PostProcessedRelease as PostProcessedRelease
from ppdinf.mechanisms.postprocessing.projection import onto_bounds as onto_bounds
from ppdinf.mechanisms.postprocessing.projection import onto_sums as onto_sums
from ppdinf.mechanisms.postprocessing.rounding import round_to_sums as round_to_sums
from ppdinf.mechanisms.postprocessing.simplex import onto_simplices as onto_simplices
from ppdinf.mechanisms.postprocessing.topdown import TopDown as TopDown

__all__ = [
    "PostProcessed", "PostProcessedRelease", "TopDown", "controlled_rounding", "onto_bounds", "onto_simplices",
    "onto_sums", "round_to_sums",
]  # fmt: skip
