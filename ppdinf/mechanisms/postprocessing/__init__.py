"""Noise first, repair afterwards: what other curators do, with its guarantee and its bias.

Rule: post-processing reads the noisy table and what is public, nothing else.

controlled         controlled rounding: a real table and all its sums, each rounded to a neighbouring whole number
postprocessed      post-processed noise: independent noise in every cell, then made to agree with what is public
processed_release  a post-processed table as it is published, with the noisy table that inference starts from
projection         nearest real table, in weighted squares, that agrees with public sums and bounds
rounding           whole counts from a real table with public sums: the floor of each, plus a 0/1 table that
                   restores the sums
simplex            nearest non-negative numbers with public sums over disjoint groups, by sorting
target             the tables without negative cells that agree with everything public: what agencies project onto
                   and round into
topdown            top-down estimation: every level of a hierarchy is measured with noise, and fitted below the
                   level above
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
