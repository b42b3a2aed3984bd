"""All private names of PyMC and PyTensor in use: names that are not available as ``pm.X`` or ``pt.X``.

PyMC and PyTensor may move or rename these names in any version. Then only this file breaks, at import. The list states
the purpose of each name and an alternative. No other module of ppdinf imports from a submodule of PyMC or PyTensor.
Tested versions are the bounds in pyproject.toml and the newest versions (`.ci/run`).

`SymbolicRandomVariable`, `_logprob`, `_support_point`
    Density and initial point of distributions without a class in PyMC, such as a table on a fiber and a marginalized
    table. Alternative: ``pm.CustomDist``, whose variables have no type that a step method can recognize.
`MeasurableOp`, `ValuedRV`, `conditional_logp`, `logprob_rewrites_db`, `node_rewriter`, `in2out`, `FunctionGraph`,
`replace_rvs_by_values`, `transformed_conditional_logp`
    Marginalize a table in a density after all variables that depend on it are known. Alternative: a function that
    transforms one model into another, as for PyMC's marginal models.
`NodeRewriter`, `OpToRewriterTracker`
    Cache the rewrites of each Op with weak references. Alternative: compiled models remain in memory.
`InitialPoint`, `initial_point_rewrites_db`
    Initialize variables that depend on a marginalized table at a table that the release allows. Alternative: start
    chains from a table of the prior, which may be impossible.
`Elemwise`, `DimShuffle`, `CAReduce`, `All`, `LogAddExp`, `LogSumExp`, `Sum`, `Alloc`, `Join`, `MakeVector`, `JoinDims`;
`SplitDims`, `Reshape`, `Shape`, `Shape_i`, `SpecifyShape`, `AdvancedSubtensor`, `Subtensor`, `indices_from_subtensor`;
`ViewOp`, `CheckParameterValue`, `ScalarFromTensor`, `Sigmoid`, `Cast`, `Add`, `Sub`, `Neg`, `Mul`, `TrueDiv`
    Find the cell that each element of a density depends on, and the log odds of a probability. Alternative: sample
    every table on which other variables depend, and treat probabilities within 1e-16 of 1 as 1.
`change_dist_size`, `rv_size_is_none`, `check_dist_not_registered`, `MissingInputError`
    Give an unnamed distribution the shape of the table, and refuse named distributions or other shapes. Alternative:
    require ``shape=`` from users.
`forward`, `log_density`
    Predictive draws and likelihoods of dependents that are equal for marginalized and sampled tables. Alternative:
    functions of ppdinf, which `pm.sample` does not call.
`compile_pymc`, `reseed_rngs`, `inputvars`, `join_nonshared_inputs`, `get_value_vars_from_user_vars`
    Functions of a point of the model, with new random numbers at every call. Alternative: ``pytensor.function`` with
    explicit updates.
`XRV`, `XTensorVariable`
    Convert distributions of `pymc.dims`. Alternative: users convert parameters by ``rate.values``.
`CheckAndRaise`, `SharedVariable`
    Refuse to evaluate a density whose truncated supports were computed from other data. Alternative: compile again at
    every call.
`Transform`
    Effects that are sampled in coordinates that depend on their scale. Alternative:
    ``pm.distributions.transforms.Transform``.
`STEP_METHODS`, `BlockedStep`, `Competence`, `StepMethodState`, `dataclass_state`
    A step that PyMC assigns automatically and combines with NUTS. Alternative: a sampling loop in ppdinf.
`QuadPotentialFullAdapt`
    A dense mass matrix combined with another step. Alternative: PyMC's diagonal matrix, which needs more gradients.
`SamplerWarning`, `WarningType`
    Warnings of a step method that PyMC logs in the main process. Alternative: none.
`fgraph_from_model`, `model_from_fgraph`
    Copy a model without some of its variables, as `pymc.do` does. Alternative: the user writes another model.
`CpuLeapfrogIntegrator`, `HMCStepData`, `RaveledVars`, `State`
    Steps of Hamiltonian trajectories that need fewer gradients than leapfrog steps. Alternative: PyMC's steps.
`BernoulliRV`, `BetaBinomialRV`, `BinomialRV`, `CustomDistRV`, `DiracDeltaRV`, `DirichletMultinomialRV`, `FlatRV`,
`GeometricRV`, `HalfFlatRV`, `HalfNormalRV`, `MultinomialRV`, `NegBinomialRV`, `NormalRV`, `PartialObservedRV`,
`PoissonRV`, `TruncatedRV`
    Recognize the distribution in a user's model. Alternative: ``type(pm.Poisson.dist(1).owner.op)`` and similar.
`Apply`, `Constant`, `DisconnectedType`, `NullTypeGradError`, `Op`, `RandomType`, `RandomVariable`, `TensorVariable`,
`Variable`, `disconnected_type`, `grad_not_implemented`
    Ops and random variables of ppdinf, with their gradients. PyTensor documents these names, but moves their modules.
`JAXOp`, `NullType`, `get_jaxified_graph`
    Evaluate Ops of ppdinf in JAX, for numpyro and blackjax. Alternative: refuse these samplers.
`ancestors`, `graph_inputs`, `graph_replace`, `toposort`, `vectorize_graph`
    Find the variables that depend on a table; build one graph for all counts of a truncated support. Alternative:
    traverse ``owner.inputs``; a scan.
`NUMBA_CONSTANT_SIZE_LIMIT`, `numba_core_rv_funcify`, `numba_njit`, `register_funcify_and_cache_key`,
`register_funcify_default_op_cache_key`
    Compiled forms of the Ops of ppdinf, and the size above which a constant excludes a model from numba's cache.
    Alternative: `Op.perform`, which leaves compiled code at every call.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytensor
from pymc.blocking import RaveledVars
from pymc.distributions.continuous import FlatRV, HalfFlatRV
from pymc.distributions.custom import CustomDistRV
from pymc.distributions.distribution import DiracDeltaRV, PartialObservedRV, SymbolicRandomVariable, _support_point
from pymc.distributions.multivariate import DirichletMultinomialRV
from pymc.distributions.shape_utils import change_dist_size, rv_size_is_none
from pymc.distributions.truncated import TruncatedRV
from pymc.initial_point import InitialPoint, initial_point_rewrites_db
from pymc.logprob.abstract import MeasurableOp, ValuedRV, _logprob
from pymc.logprob.basic import conditional_logp, transformed_conditional_logp
from pymc.logprob.rewriting import logprob_rewrites_db
from pymc.logprob.transforms import Transform
from pymc.logprob.utils import CheckParameterValue, replace_rvs_by_values
from pymc.model.fgraph import fgraph_from_model, model_from_fgraph
from pymc.pytensorf import compile as compile_pymc
from pymc.pytensorf import inputvars, join_nonshared_inputs, reseed_rngs
from pymc.sampling import forward
from pymc.stats import log_density
from pymc.stats.convergence import SamplerWarning, WarningType
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.hmc.base_hmc import HMCStepData
from pymc.step_methods.hmc.integration import CpuLeapfrogIntegrator, State
from pymc.step_methods.hmc.quadpotential import QuadPotentialFullAdapt
from pymc.step_methods.state import dataclass_state
from pymc.util import check_dist_not_registered, get_value_vars_from_user_vars
from pytensor.compile.ops import ViewOp
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.gradient import DisconnectedType, NullTypeGradError, disconnected_type, grad_not_implemented
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.null_type import NullType
from pytensor.graph.op import Op
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.rewriting.basic import NodeRewriter, OpToRewriterTracker, in2out, node_rewriter
from pytensor.graph.traversal import ancestors, graph_inputs, toposort
from pytensor.graph.utils import MissingInputError
from pytensor.link.jax.ops import JAXOp
from pytensor.link.numba.dispatch.basic import (
    NUMBA_CONSTANT_SIZE_LIMIT,
    numba_njit,
    register_funcify_and_cache_key,
    register_funcify_default_op_cache_key,
)
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import Add, Cast, Mul, Neg, Sub, TrueDiv
from pytensor.scalar.math import Sigmoid
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import All, Sum
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
from pytensor.tensor.special import LogAddExp, LogSumExp
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor, indices_from_subtensor
from pytensor.tensor.variable import TensorVariable
from pytensor.xtensor.type import XTensorVariable
from pytensor.xtensor.vectorization import XRV

if getattr(pytensor.config, "generated_src_dir", None) == "":
    # otherwise each compiled function leaves its source in the folder of temporary files
    pytensor.config.generated_src_dir = str(Path(pytensor.config.base_compiledir) / "sources")

__all__ = [
    "NUMBA_CONSTANT_SIZE_LIMIT",
    "STEP_METHODS",
    "XRV",
    "Add",
    "AdvancedSubtensor",
    "All",
    "Alloc",
    "Apply",
    "BernoulliRV",
    "BetaBinomialRV",
    "BinomialRV",
    "BlockedStep",
    "CAReduce",
    "Cast",
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
    "JAXOp",
    "Join",
    "JoinDims",
    "LogAddExp",
    "LogSumExp",
    "MakeVector",
    "MeasurableOp",
    "MissingInputError",
    "Mul",
    "MultinomialRV",
    "Neg",
    "NegBinomialRV",
    "NodeRewriter",
    "NormalRV",
    "NullType",
    "NullTypeGradError",
    "Op",
    "OpToRewriterTracker",
    "PartialObservedRV",
    "PoissonRV",
    "QuadPotentialFullAdapt",
    "RandomType",
    "RandomVariable",
    "RaveledVars",
    "Reshape",
    "SamplerWarning",
    "ScalarFromTensor",
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
    "TruncatedRV",
    "ValuedRV",
    "Variable",
    "ViewOp",
    "WarningType",
    "XTensorVariable",
    "_logprob",
    "_support_point",
    "ancestors",
    "change_dist_size",
    "check_dist_not_registered",
    "compile_pymc",
    "conditional_logp",
    "dataclass_state",
    "disconnected_type",
    "fgraph_from_model",
    "forward",
    "get_jaxified_graph",
    "get_value_vars_from_user_vars",
    "grad_not_implemented",
    "graph_inputs",
    "graph_replace",
    "in2out",
    "indices_from_subtensor",
    "initial_point_rewrites_db",
    "inputvars",
    "join_nonshared_inputs",
    "log_density",
    "logprob_rewrites_db",
    "model_from_fgraph",
    "node_rewriter",
    "numba_core_rv_funcify",
    "numba_njit",
    "register_funcify_and_cache_key",
    "register_funcify_default_op_cache_key",
    "replace_rvs_by_values",
    "reseed_rngs",
    "rv_size_is_none",
    "toposort",
    "transformed_conditional_logp",
    "vectorize_graph",
]


def get_jaxified_graph(inputs: list[Variable], outputs: list[Variable]) -> Callable[..., tuple[Any, ...]]:
    """Return a graph as a function of JAX arrays, with PyMC's function, which imports JAX."""
    from pymc.sampling.jax import get_jaxified_graph

    return get_jaxified_graph(inputs, outputs)
