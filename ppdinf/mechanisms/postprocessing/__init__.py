"""What agencies do to noisy tables so that they agree with what is public: to compare with, and to reproduce."""

from ppdinf.mechanisms.postprocessing.controlled import controlled_rounding as controlled_rounding
from ppdinf.mechanisms.postprocessing.postprocessed import PostProcessed as PostProcessed
from ppdinf.mechanisms.postprocessing.postprocessed import PostProcessedRelease as PostProcessedRelease
from ppdinf.mechanisms.postprocessing.projection import onto_bounds as onto_bounds
from ppdinf.mechanisms.postprocessing.projection import onto_sums as onto_sums
from ppdinf.mechanisms.postprocessing.rounding import round_to_sums as round_to_sums
from ppdinf.mechanisms.postprocessing.simplex import onto_simplices as onto_simplices
from ppdinf.mechanisms.postprocessing.topdown import TopDown as TopDown

__all__ = [
    "PostProcessed", "PostProcessedRelease", "TopDown", "controlled_rounding", "onto_bounds", "onto_simplices",
    "onto_sums", "round_to_sums",
]  # fmt: skip
