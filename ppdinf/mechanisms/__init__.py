"""The curator's side: one family of mechanisms per file."""

from ppdinf.mechanisms.base import Mechanism as Mechanism
from ppdinf.mechanisms.laplace import GeneralizedLaplace as GeneralizedLaplace
from ppdinf.mechanisms.postprocessing import PostProcessed as PostProcessed
from ppdinf.mechanisms.postprocessing import TopDown as TopDown

__all__ = ["GeneralizedLaplace", "Mechanism", "PostProcessed", "TopDown"]
