"""The curator's side: one family of mechanisms per file.

Rule: a promise is stated where its law is; what cannot be drawn is refused by the plan.

bounded          mechanisms whose releases also satisfy bounds, or use a base measure
counting_queries  counting queries: weighted numbers of records, computed from the cells of a table
error_plan       which loss gives which error, and which loss an error needs
expected_error   how large noise is, before any privacy is spent
input_checks     what is checked of a table before noise is added
kept_sums        checks that drawn tables keep what is public
lattice          integer noise on the lattice that keeps all public sums
postprocessing   None
real             real-valued noise on the subspace that keeps all public sums
records          mechanisms for estimates from individual records: means, quantiles, regressions
suppression      nothing but what is public
table_mechanism  what mechanisms that publish tables share: release, simulation, density
transition       cells released one by one by a matrix
"""

from ppdinf.laws import DiscreteGaussian as DiscreteGaussian
from ppdinf.laws import DoubleGeometric as DoubleGeometric
from ppdinf.laws import Staircase as Staircase
from ppdinf.mechanisms.bounded.conditioned import Conditioned as Conditioned
from ppdinf.mechanisms.bounded.dirichlet_multinomial import DirichletMultinomial as DirichletMultinomial
from ppdinf.mechanisms.bounded.wasserstein_exponential import WassersteinExponential as WassersteinExponential
from ppdinf.mechanisms.lattice.generalized_gaussian import GeneralizedGaussian as GeneralizedGaussian
from ppdinf.mechanisms.lattice.generalized_laplace import GeneralizedLaplace as GeneralizedLaplace
from ppdinf.mechanisms.postprocessing import PostProcessed as PostProcessed
from ppdinf.mechanisms.postprocessing import TopDown as TopDown
from ppdinf.mechanisms.real.correlated_gaussian import CorrelatedGaussian as CorrelatedGaussian
from ppdinf.mechanisms.real.k_norm import KNorm as KNorm
from ppdinf.mechanisms.real.subspace_gaussian import SubspaceGaussian as SubspaceGaussian
from ppdinf.mechanisms.real.subspace_laplace import SubspaceLaplace as SubspaceLaplace
from ppdinf.mechanisms.records.k_norm_gradient import KNormGradient as KNormGradient
from ppdinf.mechanisms.records.mean import Mean as Mean
from ppdinf.mechanisms.records.objectives import Gradient as Gradient
from ppdinf.mechanisms.records.quantile import Quantile as Quantile
from ppdinf.mechanisms.records.regressions import LinearRegression as LinearRegression
from ppdinf.mechanisms.records.regressions import LogisticRegression as LogisticRegression
from ppdinf.mechanisms.suppression import Suppression as Suppression
from ppdinf.mechanisms.transition import Transition as Transition
from ppdinf.mechanisms.transition import random_rounding as random_rounding
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
