"""Post-processing of noisy tables as other curators use it, with its guarantee and its bias.

Rule: post-processing reads the noisy table and the public statements, nothing else.

postprocessed  Independent noise in every cell, then projection and rounding onto the tables that satisfy all public
               statements.
projection     Projection and rounding onto public sums and bounds.
topdown        Top-down estimation: every level of a hierarchy is measured with noise and fitted below the level above.
"""

from ppdinf.mechanisms.postprocessing.postprocessed import PostProcessed, PostProcessedRelease
from ppdinf.mechanisms.postprocessing.projection import (
    controlled_rounding,
    onto_bounds,
    onto_simplices,
    onto_sums,
    round_to_sums,
)
from ppdinf.mechanisms.postprocessing.topdown import TopDown

__all__ = [
    "PostProcessed", "PostProcessedRelease", "TopDown", "controlled_rounding", "onto_bounds", "onto_simplices",
    "onto_sums", "round_to_sums",
]  # fmt: skip
