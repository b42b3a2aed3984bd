"""Release mechanisms: one family per file.

Rule: the file that states the law of a mechanism states its guarantee. `plan_on` refuses noise that cannot be drawn.
The base class of all mechanisms is in ``ppdinf/mechanism.py``, because releases and their files depend on it.

base_measure             Weights of released counts that do not depend on the confidential table, such as Dirichlet-
                         multinomial weights.
bound_trees              Cells that bounds of two cells join to trees: total weights and exact draws.
conditioned              Congenial mechanisms: independent noise, conditioned on all public statements.
counting_queries         Counting queries, weighted numbers of records, and the changes of their answers by one person.
error_plan               The error for each privacy loss, and the loss for a required error.
expected_error           The size of the noise, computed before any privacy is spent.
few_given_rest           Exact noise under lower bounds and disjoint public sums of many cells: a few cells given the
                         others.
input_checks             Validation of a confidential table before noise is added.
k_norm_gradient          The K-norm gradient mechanism: publish an answer near the minimizer of an objective on records.
lattice_noise            Integer noise on the lattice that keeps all public sums: the generalized Laplace and Gaussian
                         mechanisms.
objectives               Objectives whose minimizer is published: gradients and their sensitivity to one record; means
                         and quantiles.
permutation_swapping     Data swapping that keeps margins: selected records of each stratum exchange their values of
                         some variables.
postprocessing           Deterministic steps after the noise: projection, rounding, TopDown.
real_noise               The law of real-valued noise under the public sums of one table, in multiples of a grid.
regressions              Regressions for the K-norm gradient mechanism: coefficients in a ball, records within stated
                         bounds.
shaped_noise             Noise whose shape is adapted to the changes by one person: the K-norm mechanism, and correlated
                         Gaussian noise.
subspace                 Base class of mechanisms with real-valued noise on the null space of public sums, which agents
                         can add in parts.
subspace_noise           Gaussian and Laplace noise on the null space of public sums, projected or extended.
suppression              Publication of the public statements alone.
table_mechanism          The base class of mechanisms that publish tables: release, simulation and inference derive from
                         the law.
table_sums               The total weight of all releases of a table, by elimination of cells whose noise is tilted
                         towards public sums.
transition               Cells released independently by a matrix of transition probabilities.
trees_given_sums         Integers in small trees of bounds, given a few public sums: draws and total weight.
wasserstein_exponential  The Wasserstein exponential mechanism on integer tables, with an l1, l2 or user-defined loss.
weighted                 Base class of mechanisms whose releases are weighted cell by cell within bounds.
"""

from ppdinf.laws import DiscreteGaussian, DoubleGeometric, Staircase
from ppdinf.mechanism import Mechanism
from ppdinf.mechanisms.base_measure import DirichletMultinomial
from ppdinf.mechanisms.conditioned import Conditioned
from ppdinf.mechanisms.error_plan import ErrorPlan
from ppdinf.mechanisms.k_norm_gradient import KNormGradient
from ppdinf.mechanisms.lattice_noise import GeneralizedGaussian, GeneralizedLaplace
from ppdinf.mechanisms.objectives import Gradient, Mean, Quantile
from ppdinf.mechanisms.permutation_swapping import PermutationSwapping
from ppdinf.mechanisms.postprocessing import PostProcessed, TopDown
from ppdinf.mechanisms.regressions import LinearRegression, LogisticRegression
from ppdinf.mechanisms.shaped_noise import CorrelatedGaussian, KNorm
from ppdinf.mechanisms.subspace_noise import SubspaceGaussian, SubspaceLaplace
from ppdinf.mechanisms.suppression import Suppression
from ppdinf.mechanisms.transition import Transition, random_rounding
from ppdinf.mechanisms.wasserstein_exponential import WassersteinExponential

__all__ = [
    "Conditioned", "CorrelatedGaussian", "DirichletMultinomial", "DiscreteGaussian", "DoubleGeometric", "ErrorPlan",
    "GeneralizedGaussian", "GeneralizedLaplace", "Gradient", "KNorm", "KNormGradient", "LinearRegression",
    "LogisticRegression", "Mean", "Mechanism", "PermutationSwapping", "PostProcessed", "Quantile", "Staircase",
    "SubspaceGaussian", "SubspaceLaplace", "Suppression", "TopDown", "Transition", "WassersteinExponential",
    "random_rounding",
]  # fmt: skip
