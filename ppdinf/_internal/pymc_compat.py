"""Names of PyMC and PyTensor: those of documented packages, and all private names in use.

PyMC and PyTensor may move or rename private names in any version. Then only this file breaks, at import. The list
states the purpose of each private name and an alternative. No other module of ppdinf imports from a submodule of PyMC
or PyTensor. Tested versions are the bounds in pyproject.toml and the newest versions (`.ci/run`).

`_logprob`, `_support_point`
    Density and initial point of distributions without a class in PyMC, such as a table on a fiber and a marginalized
    table. Alternative: ``pm.CustomDist``, whose variables have no type that a step method can recognize.
`MeasurableOp`, `ValuedRV`, `logprob_rewrites_db`, `in2out`, `replace_rvs_by_values`
    Marginalize a table in a density after all variables that depend on it are known. Alternative: a function that
    transforms one model into another, as for PyMC's marginal models.
`NodeRewriter`, `OpToRewriterTracker`
    Cache the rewrites of each Op with weak references. Alternative: compiled models remain in memory.
`InitialPoint`, `initial_point_rewrites_db`
    Initialize variables that depend on a marginalized table at a table that the release allows. Alternative: start
    chains from a table of the prior, which may be impossible.
`All`, `LogAddExp`, `LogSumExp`, `Sum`, `Alloc`, `Join`, `MakeVector`, `JoinDims`, `SplitDims`, `Reshape`, `Shape`,
`Shape_i`, `SpecifyShape`, `AdvancedSubtensor`, `Subtensor`, `indices_from_subtensor`, `CheckParameterValue`,
`ScalarFromTensor`
    Find the cell that each element of a density depends on, and the log odds of a probability. Alternative: sample
    every table on which other variables depend, and treat probabilities within 1e-16 of 1 as 1.
`change_dist_size`, `rv_size_is_none`, `check_dist_not_registered`, `MissingInputError`
    Give an unnamed distribution the shape of the table, and refuse named distributions or other shapes. Alternative:
    require ``shape=`` from users.
`forward`, `log_density`
    Predictive draws and likelihoods of dependents that are equal for marginalized and sampled tables. Alternative:
    functions of ppdinf, which `pm.sample` does not call.
`reseed_rngs`, `get_value_vars_from_user_vars`
    Functions of a point of the model, with new random numbers at every call. Alternative: ``pytensor.function`` with
    explicit updates.
`XRV`, `XTensorVariable`
    Convert distributions of `pymc.dims`. Alternative: users convert parameters by ``rate.values``.
`CheckAndRaise`
    Refuse to evaluate a density whose truncated supports were computed from other data. Alternative: compile again at
    every call.
`Competence`, `StepMethodState`, `dataclass_state`
    A step that PyMC assigns automatically and combines with NUTS. Alternative: a sampling loop in ppdinf.
`QuadPotentialFullAdapt`
    A dense mass matrix combined with another step. Alternative: PyMC's diagonal matrix, which needs more gradients.
`SamplerWarning`, `WarningType`
    Warnings of a step method that PyMC logs in the main process. Alternative: none.
`CpuLeapfrogIntegrator`, `HMCStepData`, `RaveledVars`, `State`
    Steps of Hamiltonian trajectories that need fewer gradients than leapfrog steps. Alternative: PyMC's steps.
`CustomDistRV`, `PartialObservedRV`
    Recognize the distribution in a user's model. Alternative: ``type(pm.Poisson.dist(1).owner.op)`` and similar.
`RandomType`, `RandomVariable`
    Ops and random variables of ppdinf, with their gradients. PyTensor documents these names, but moves their modules.
`JAXOp`, `get_jaxified_graph`
    Evaluate Ops of ppdinf in JAX, for numpyro and blackjax. Alternative: refuse these samplers.
`toposort`
    Find the variables that depend on a table; build one graph for all counts of a truncated support. Alternative:
    traverse ``owner.inputs``; a scan.
`NUMBA_CONSTANT_SIZE_LIMIT`, `numba_core_rv_funcify`, `numba_njit`, `register_funcify_and_cache_key`,
`register_funcify_default_op_cache_key`
    Compiled forms of the Ops of ppdinf, and the size above which a constant excludes a model from numba's cache.
    Alternative: `Op.perform`, which leaves compiled code at every call.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pymc as pm
import pytensor
from pymc import SymbolicRandomVariable
from pymc import compile as compile_pymc
from pymc.blocking import RaveledVars
from pymc.distributions.custom import CustomDistRV
from pymc.distributions.distribution import PartialObservedRV, _support_point
from pymc.distributions.shape_utils import change_dist_size, rv_size_is_none
from pymc.distributions.transforms import Transform
from pymc.initial_point import InitialPoint, initial_point_rewrites_db
from pymc.logprob import conditional_logp, transformed_conditional_logp
from pymc.logprob.abstract import MeasurableOp, ValuedRV, _logprob
from pymc.logprob.rewriting import logprob_rewrites_db
from pymc.logprob.utils import CheckParameterValue, replace_rvs_by_values
from pymc.model.fgraph import fgraph_from_model, model_from_fgraph
from pymc.pytensorf import inputvars, join_nonshared_inputs, reseed_rngs
from pymc.sampling import forward
from pymc.stats import log_density
from pymc.stats.convergence import SamplerWarning, WarningType
from pymc.step_methods import STEP_METHODS, BlockedStep
from pymc.step_methods.compound import Competence, StepMethodState
from pymc.step_methods.hmc.base_hmc import HMCStepData
from pymc.step_methods.hmc.integration import CpuLeapfrogIntegrator, State
from pymc.step_methods.hmc.quadpotential import QuadPotentialFullAdapt
from pymc.step_methods.state import dataclass_state
from pymc.util import check_dist_not_registered, get_value_vars_from_user_vars
from pytensor.compile import SharedVariable, ViewOp
from pytensor.gradient import DisconnectedType, NullType, NullTypeGradError, disconnected_type, grad_not_implemented
from pytensor.graph import (
    Apply,
    Constant,
    FunctionGraph,
    Op,
    Variable,
    ancestors,
    graph_inputs,
    graph_replace,
    node_rewriter,
    vectorize_graph,
)
from pytensor.graph.rewriting.basic import NodeRewriter, OpToRewriterTracker, in2out
from pytensor.graph.traversal import toposort
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
from pytensor.scalar import Add, Cast, Mul, Neg, Sigmoid, Sub, TrueDiv
from pytensor.tensor import TensorVariable
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import All, Sum
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.special import LogAddExp, LogSumExp
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor, indices_from_subtensor
from pytensor.xtensor.type import XTensorVariable
from pytensor.xtensor.vectorization import XRV

# rewrites, by their names in PyTensor's registry
local_useless_switch = pytensor.compile.optdb["canonicalize"]["local_useless_switch"]
local_dimshuffle_subtensor = pytensor.compile.optdb["uncanonicalize"]["local_dimshuffle_subtensor"]

# distributions in a user's model, by their public classes
BernoulliRV = type(pm.Bernoulli.rv_op)
BetaBinomialRV = type(pm.BetaBinomial.rv_op)
BinomialRV = type(pm.Binomial.rv_op)
DiracDeltaRV = pm.DiracDelta.rv_type
DirichletMultinomialRV = pm.DirichletMultinomial.rv_type
FlatRV = type(pm.Flat.rv_op)
GeometricRV = type(pm.Geometric.rv_op)
HalfFlatRV = type(pm.HalfFlat.rv_op)
HalfNormalRV = type(pm.HalfNormal.rv_op)
MixtureRV = pm.Mixture.rv_type.__base__  # also of hurdle models
MultinomialRV = type(pm.Multinomial.rv_op)
NegBinomialRV = type(pm.NegativeBinomial.rv_op)
NormalRV = type(pm.Normal.rv_op)
PoissonRV = type(pm.Poisson.rv_op)
TruncatedRV = pm.Truncated.rv_type

if getattr(pytensor.config, "generated_src_dir", None) == "":
    # otherwise each compiled function leaves its source in the folder of temporary files
    pytensor.config.generated_src_dir = str(Path(pytensor.config.base_compiledir) / "sources")


def compile_interpreted(inputs: Sequence[Variable], outputs: Any, **options: Any) -> Callable[..., Any]:
    """Compile a function for few calls, which PyTensor interprets."""
    # otherwise inner functions, such as softmax, are built by a C compiler: half a minute in a new installation
    with pytensor.config.change_flags(cxx=""):
        return compile_pymc(inputs, outputs, mode="FAST_COMPILE", **options)


def get_jaxified_graph(inputs: list[Variable], outputs: list[Variable]) -> Callable[..., tuple[Any, ...]]:
    """Return a graph as a function of JAX arrays, with PyMC's function, which imports JAX."""
    from pymc.sampling.jax import get_jaxified_graph

    return get_jaxified_graph(inputs, outputs)
