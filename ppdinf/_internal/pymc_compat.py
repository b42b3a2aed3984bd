"""Everything that ppdinf takes from inside PyMC and PyTensor: names that are not reached as ``pm.X`` or ``pt.X``.

The two may move or rename any of these from one version to the next; then this file alone breaks, at import, and says
here what each was for and what would stand in for it. No other module of ppdinf imports from a submodule of either.
The versions that were tried are the bounds in pyproject.toml and the newest ones (`.ci/run`).

`SymbolicRandomVariable`, `_logprob`, `_support_point`
    Density and start of distributions that PyMC has no class for: a table on a fiber, one that is summed out. Instead:
    ``pm.CustomDist``, whose variables have no type by which a step method could recognise them.
`MeasurableOp`, `ValuedRV`, `conditional_logp`, `logprob_rewrites_db`, `node_rewriter`, `in2out`, `FunctionGraph`,
`replace_rvs_by_values`, `transformed_conditional_logp`
    Sum a table out of a density after all that depends on it is known. Instead: a function that takes a model apart
    and builds another, as users of PyMC's own marginal models call it.
`InitialPoint`, `initial_point_rewrites_db`
    Start what depends on a table that is summed out from one that the release allows. Instead: chains that start from
    a table of the prior, which may be impossible.
`Elemwise`, `DimShuffle`, `CAReduce`, `LogSumExp`, `Sum`, `Alloc`, `Join`, `MakeVector`, `JoinDims`, `SplitDims`,
`Reshape`, `Shape`, `Shape_i`, `SpecifyShape`, `AdvancedSubtensor`, `Subtensor`, `indices_from_subtensor`, `ViewOp`,
`CheckParameterValue`, `Sigmoid`, `Add`, `Sub`, `Neg`, `Mul`, `TrueDiv`
    Which cell an element of a density looks at, and log odds behind a probability. Instead: every table that something
    depends on is a variable, and probabilities within 1e-16 of 1 are 1.
`change_dist_size`, `check_dist_not_registered`, `MissingInputError`
    Give an unnamed distribution the shape of the table, refuse a named one, or one of another shape. Instead: have
    users write ``shape=``.
`compile_pymc`, `reseed_rngs`, `inputvars`, `join_nonshared_inputs`, `get_value_vars_from_user_vars`
    Functions of a point of the model, with fresh random numbers at every call. Instead: ``pytensor.function`` with
    updates written out.
`CheckAndRaise`, `SharedVariable`
    Refuse to evaluate a density whose windows were computed from other data. Instead: compile again at every call.
`Transform`
    Effects that move in coordinates which depend on their spread. Instead: ``pm.distributions.transforms.Transform``.
`STEP_METHODS`, `BlockedStep`, `Competence`, `StepMethodState`, `dataclass_state`
    A step that PyMC assigns by itself and runs beside NUTS. Instead: a loop of our own around a point of the model.
`QuadPotentialFullAdapt`
    A dense metric beside another step. Instead: PyMC's diagonal one, which needs more gradients.
`CpuLeapfrogIntegrator`, `HMCStepData`, `RaveledVars`, `State`
    Steps of Hamiltonian paths that need fewer gradients than leapfrog ones. Instead: PyMC's own steps.
`BernoulliRV`, `BetaBinomialRV`, `BinomialRV`, `CustomDistRV`, `DiracDeltaRV`, `DirichletMultinomialRV`, `FlatRV`,
`GeometricRV`, `HalfFlatRV`, `HalfNormalRV`, `MultinomialRV`, `NegBinomialRV`, `NormalRV`, `PoissonRV`
    Which distribution a user gave. Instead: ``type(pm.Poisson.dist(1).owner.op)`` and its kin.
`Apply`, `Constant`, `DisconnectedType`, `Op`, `RandomType`, `RandomVariable`, `TensorVariable`, `Variable`,
`disconnected_type`, `grad_not_implemented`
    Ops and random variables of our own, with their gradients. PyTensor documents these; its paths to them still move.
`ancestors`, `graph_inputs`, `graph_replace`, `toposort`, `vectorize_graph`
    What depends on a table; one graph for all counts of a window. Instead: a walk over ``owner.inputs``; a scan.
`NUMBA_CONSTANT_SIZE_LIMIT`, `numba_core_rv_funcify`, `numba_njit`, `register_funcify_and_cache_key`,
`register_funcify_default_op_cache_key`
    Compiled forms of our Ops, and the size beyond which a constant keeps a model out of numba's cache. Instead:
    `Op.perform`, for which compiled code is left at every call.
"""

from pymc.blocking import RaveledVars
from pymc.distributions.continuous import FlatRV, HalfFlatRV
from pymc.distributions.custom import CustomDistRV
from pymc.distributions.distribution import DiracDeltaRV, SymbolicRandomVariable, _support_point
from pymc.distributions.multivariate import DirichletMultinomialRV
from pymc.distributions.shape_utils import change_dist_size
from pymc.initial_point import InitialPoint, initial_point_rewrites_db
from pymc.logprob.abstract import MeasurableOp, ValuedRV, _logprob
from pymc.logprob.basic import conditional_logp, transformed_conditional_logp
from pymc.logprob.rewriting import logprob_rewrites_db
from pymc.logprob.transforms import Transform
from pymc.logprob.utils import CheckParameterValue, replace_rvs_by_values
from pymc.pytensorf import compile as compile_pymc
from pymc.pytensorf import inputvars, join_nonshared_inputs, reseed_rngs
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.hmc.base_hmc import HMCStepData
from pymc.step_methods.hmc.integration import CpuLeapfrogIntegrator, State
from pymc.step_methods.hmc.quadpotential import QuadPotentialFullAdapt
from pymc.step_methods.state import dataclass_state
from pymc.util import check_dist_not_registered, get_value_vars_from_user_vars
from pytensor.compile.ops import ViewOp
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.gradient import DisconnectedType, disconnected_type, grad_not_implemented
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.traversal import ancestors, graph_inputs, toposort
from pytensor.graph.utils import MissingInputError
from pytensor.link.numba.dispatch.basic import (
    NUMBA_CONSTANT_SIZE_LIMIT,
    numba_njit,
    register_funcify_and_cache_key,
    register_funcify_default_op_cache_key,
)
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import Add, Mul, Neg, Sub, TrueDiv
from pytensor.scalar.math import Sigmoid
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.random.basic import (
    BernoulliRV,
    BetaBinomialRV,
    BinomialRV,
    GeometricRV,
    HalfNormalRV,
    MultinomialRV,
    NegBinomialRV,
    NormalRV,
    PoissonRV,
)
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.special import LogSumExp
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor, indices_from_subtensor
from pytensor.tensor.variable import TensorVariable

__all__ = [
    "NUMBA_CONSTANT_SIZE_LIMIT",
    "STEP_METHODS",
    "Add",
    "AdvancedSubtensor",
    "Alloc",
    "Apply",
    "BernoulliRV",
    "BetaBinomialRV",
    "BinomialRV",
    "BlockedStep",
    "CAReduce",
    "CheckAndRaise",
    "CheckParameterValue",
    "Competence",
    "Constant",
    "CpuLeapfrogIntegrator",
    "CustomDistRV",
    "DimShuffle",
    "DiracDeltaRV",
    "DirichletMultinomialRV",
    "DisconnectedType",
    "Elemwise",
    "FlatRV",
    "FunctionGraph",
    "GeometricRV",
    "HMCStepData",
    "HalfFlatRV",
    "HalfNormalRV",
    "InitialPoint",
    "Join",
    "JoinDims",
    "LogSumExp",
    "MakeVector",
    "MeasurableOp",
    "MissingInputError",
    "Mul",
    "MultinomialRV",
    "Neg",
    "NegBinomialRV",
    "NormalRV",
    "Op",
    "PoissonRV",
    "QuadPotentialFullAdapt",
    "RandomType",
    "RandomVariable",
    "RaveledVars",
    "Reshape",
    "Shape",
    "Shape_i",
    "SharedVariable",
    "Sigmoid",
    "SpecifyShape",
    "SplitDims",
    "State",
    "StepMethodState",
    "Sub",
    "Subtensor",
    "Sum",
    "SymbolicRandomVariable",
    "TensorVariable",
    "Transform",
    "TrueDiv",
    "ValuedRV",
    "Variable",
    "ViewOp",
    "_logprob",
    "_support_point",
    "ancestors",
    "change_dist_size",
    "check_dist_not_registered",
    "compile_pymc",
    "conditional_logp",
    "dataclass_state",
    "disconnected_type",
    "get_value_vars_from_user_vars",
    "grad_not_implemented",
    "graph_inputs",
    "graph_replace",
    "in2out",
    "indices_from_subtensor",
    "initial_point_rewrites_db",
    "inputvars",
    "join_nonshared_inputs",
    "logprob_rewrites_db",
    "node_rewriter",
    "numba_core_rv_funcify",
    "numba_njit",
    "register_funcify_and_cache_key",
    "register_funcify_default_op_cache_key",
    "replace_rvs_by_values",
    "reseed_rngs",
    "toposort",
    "transformed_conditional_logp",
    "vectorize_graph",
]
