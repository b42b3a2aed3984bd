"""The curator's side: one family of mechanisms per file."""

from ppdinf.mechanisms.base import Mechanism as Mechanism
from ppdinf.mechanisms.gaussian import GeneralizedGaussian as GeneralizedGaussian
from ppdinf.mechanisms.k_norm_gradient import KNormGradient as KNormGradient
from ppdinf.mechanisms.laplace import GeneralizedLaplace as GeneralizedLaplace
from ppdinf.mechanisms.objectives import Gradient as Gradient
from ppdinf.mechanisms.objectives import Mean as Mean
from ppdinf.mechanisms.objectives import Quantile as Quantile
from ppdinf.mechanisms.postprocessing import PostProcessed as PostProcessed
from ppdinf.mechanisms.postprocessing import TopDown as TopDown
from ppdinf.mechanisms.regressions import LinearRegression as LinearRegression
from ppdinf.mechanisms.regressions import LogisticRegression as LogisticRegression
from ppdinf.mechanisms.subspace_gaussian import SubspaceGaussian as SubspaceGaussian
from ppdinf.mechanisms.subspace_laplace import SubspaceLaplace as SubspaceLaplace

__all__ = [
    "GeneralizedGaussian",
    "GeneralizedLaplace",
    "Gradient",
    "KNormGradient",
    "LinearRegression",
    "LogisticRegression",
    "Mean",
    "Mechanism",
    "PostProcessed",
    "Quantile",
    "SubspaceGaussian",
    "SubspaceLaplace",
    "TopDown",
]
