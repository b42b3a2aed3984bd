"""The curator's side: one family of mechanisms per file.

Rule: a promise is stated where its law is; what cannot be drawn is refused by the plan.

table_mechanism      what mechanisms that publish tables share: release, simulation, density
border               what is checked of a table before noise is added
kept_sums            checks that drawn tables keep what is public
lattice_noise        whole noise that is the same around every table: laplace, gaussian
weighted             whole tables weighted by noise, within bounds: conditioned, wasserstein (stated_loss, base_measure,
                     dirichlet_multinomial, summing_out, tilting, l2_normaliser)
transition           cells released one by one by a matrix
suppression          nothing but what is public
subspace             real noise on the null space of public sums: subspace_gaussian, subspace_laplace,
                     correlated_gaussian, k_norm (real_noise, on_grid, moves_within, counting_queries, shared_key)
k_norm_gradient      answers about records (objectives, mean, quantile, regressions, gradient_law)
postprocessing/      noise, then made to agree with what is public
expected_error       how large noise is, before any privacy is spent
error_plan           which loss gives which error, and which loss an error needs
"""

from ppdinf.laws import DiscreteGaussian as DiscreteGaussian
from ppdinf.laws import DoubleGeometric as DoubleGeometric
from ppdinf.laws import Staircase as Staircase
from ppdinf.mechanisms.conditioned import Conditioned as Conditioned
from ppdinf.mechanisms.correlated_gaussian import CorrelatedGaussian as CorrelatedGaussian
from ppdinf.mechanisms.dirichlet_multinomial import DirichletMultinomial as DirichletMultinomial
from ppdinf.mechanisms.gaussian import GeneralizedGaussian as GeneralizedGaussian
from ppdinf.mechanisms.k_norm import KNorm as KNorm
from ppdinf.mechanisms.k_norm_gradient import KNormGradient as KNormGradient
from ppdinf.mechanisms.laplace import GeneralizedLaplace as GeneralizedLaplace
from ppdinf.mechanisms.mean import Mean as Mean
from ppdinf.mechanisms.objectives import Gradient as Gradient
from ppdinf.mechanisms.postprocessing import PostProcessed as PostProcessed
from ppdinf.mechanisms.postprocessing import TopDown as TopDown
from ppdinf.mechanisms.quantile import Quantile as Quantile
from ppdinf.mechanisms.regressions import LinearRegression as LinearRegression
from ppdinf.mechanisms.regressions import LogisticRegression as LogisticRegression
from ppdinf.mechanisms.subspace_gaussian import SubspaceGaussian as SubspaceGaussian
from ppdinf.mechanisms.subspace_laplace import SubspaceLaplace as SubspaceLaplace
from ppdinf.mechanisms.suppression import Suppression as Suppression
from ppdinf.mechanisms.transition import Transition as Transition
from ppdinf.mechanisms.transition import random_rounding as random_rounding
from ppdinf.mechanisms.wasserstein import WassersteinExponential as WassersteinExponential
from ppdinf.releases.mechanism import Mechanism as Mechanism

__all__ = [
    "Conditioned",
    "CorrelatedGaussian",
    "DirichletMultinomial",
    "DiscreteGaussian",
    "DoubleGeometric",
    "GeneralizedGaussian",
    "GeneralizedLaplace",
    "Gradient",
    "KNorm",
    "KNormGradient",
    "LinearRegression",
    "LogisticRegression",
    "Mean",
    "Mechanism",
    "PostProcessed",
    "Quantile",
    "Staircase",
    "SubspaceGaussian",
    "SubspaceLaplace",
    "Suppression",
    "TopDown",
    "Transition",
    "WassersteinExponential",
    "random_rounding",
]
