"""The curator's side: one family of mechanisms per file."""

from ppdinf.mechanisms.base import Mechanism as Mechanism
from ppdinf.mechanisms.laplace import GeneralizedLaplace as GeneralizedLaplace

__all__ = ["GeneralizedLaplace", "Mechanism"]
