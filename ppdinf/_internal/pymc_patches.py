"""All functions of PyMC and PyTensor that the package replaces, each with the reason.

Functions of PyMC run unchanged for models without confidential tables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import pymc as pm

from ppdinf._internal.pymc_compat import (
    Apply,
    Constant,
    FunctionGraph,
    NodeRewriter,
    Op,
    OpToRewriterTracker,
    Subtensor,
    forward,
    indices_from_subtensor,
    local_dimshuffle_subtensor,
    local_useless_switch,
    log_density,
)


class Patch(NamedTuple):
    """Places of a function that is replaced, the reason, and what would make the replacement unnecessary."""

    owners: tuple[Any, ...]
    attribute: str
    reason: str
    unnecessary: str


PATCHES = {
    "add_named_variable": Patch(
        (pm.Model,),
        "add_named_variable",
        "Variables that users add after a table are checked when they are named: they are marginalized with the table, "
        "make it a variable, or are refused. Otherwise a density without the table could be wrong silently.",
        "Marginalization as an explicit transform of a complete model, as in "
        "https://github.com/pymc-devs/pymc-extras/pull/688; users would then call one more function.",
    ),
    "logp": Patch(
        (pm.Model, pm.FrozenModel),
        "logp",
        "Windows of counts are computed from the data of a model, which pm.set_data and pm.do can change.",
        "pm.set_data as a transform of models, https://github.com/pymc-devs/pymc/issues/7279.",
    ),
    "sample_posterior_predictive": Patch(
        (pm, forward),
        "sample_posterior_predictive",
        "Dependents and releases are drawn from posterior draws of a marginalized table, not from its prior.",
        "PyMC support of `conditional` models, https://github.com/pymc-devs/pymc-extras/pull/688.",
    ),
    "compute_log_likelihood": Patch(
        (pm, log_density),
        "compute_log_likelihood",
        "The likelihood of a dependent is that after marginalization of its table, for both forms of a model.",
        "A dispatch of pointwise likelihoods by the type of a variable. No issue proposes one.",
    ),
    "sample_smc": Patch(
        (pm, pm.smc),
        "sample_smc",
        "Prior draws of a table that is a variable do not have its public sums, so that every particle has weight 0.",
        "Draws from the prior as a method of each random variable. No issue proposes it.",
    ),
    "get_trackers": Patch(
        (OpToRewriterTracker,),
        "get_trackers",
        "PyTensor caches the rewrites of every Op without limit. Ops of a model contain its release, so every compiled "
        "model would stay in memory.",
        "Weak references in the cache, which https://github.com/pymc-devs/pytensor/pull/1660 introduced for the "
        "trackers themselves only.",
    ),
    "local_dimshuffle_subtensor": Patch(
        (local_dimshuffle_subtensor,),
        "fn",
        "PyTensor computes x[::-1][:1].squeeze() as x[0] if the length of x is known. The density of a dependent on a "
        "reversed table could use the wrong cell silently.",
        "A rewrite that uses the last element for slices with a negative step. No issue proposes one.",
    ),
    "local_useless_switch": Patch(
        (local_useless_switch,),
        "fn",
        "PyTensor appends the traces of switch(c, 0, 0) to that of its own constant 0, which doubles with each switch: "
        "24 GB for the gradient of one small model.",
        "Traces without repetitions, or copied by rewriters in general as in "
        "https://github.com/pymc-devs/pytensor/issues/737.",
    ),
}


def replace(name: str, special: Callable[..., Any], concerns: Callable[..., bool]) -> None:
    """Replace a function of PyMC by `special(own, *args, **kwargs)` where `concerns(*args, **kwargs)` is true."""
    patch = PATCHES[name]
    for owner in dict.fromkeys(patch.owners):
        setattr(owner, patch.attribute, _guarded(getattr(owner, patch.attribute), special, concerns))


def _guarded(own: Callable[..., Any], special: Callable[..., Any], concerns: Callable[..., bool]) -> Callable[..., Any]:
    @wraps(own)
    def function(*args: Any, **kwargs: Any) -> Any:
        return special(own, *args, **kwargs) if concerns(*args, **kwargs) else own(*args, **kwargs)

    return function


# -- the cache of rewrites, with weak references to the Ops ----------------------------------------------

_trackers: WeakKeyDictionary[OpToRewriterTracker, WeakKeyDictionary[Op, list[NodeRewriter]]] = WeakKeyDictionary()


def _get_trackers(tracker: OpToRewriterTracker) -> Callable[[Op], list[NodeRewriter]]:
    by_op = _trackers.setdefault(tracker, WeakKeyDictionary())

    def of_op(op: Op) -> list[NodeRewriter]:
        found = by_op.get(op)
        if found is None:
            found = by_op[op] = tracker._get_trackers(op)
        return found

    return of_op


def _clear(tracker: OpToRewriterTracker, cached: Any) -> None:
    """Discard the cache that PyTensor sets, initially and after changes of the rewrites."""
    _trackers.pop(tracker, None)


setattr(OpToRewriterTracker, PATCHES["get_trackers"].attribute, property(_get_trackers, _clear))


# -- a rewrite of squeezed slices that ignores negative steps ---------------------------------------------


def _squeezes_steps(fgraph: FunctionGraph, node: Apply) -> bool:
    """Return whether the squeezed input is a slice such as ``x[:-2:-1]``, which may start at the last element."""
    read = node.inputs[0].owner
    if read is None or not isinstance(read.op, Subtensor):
        return False
    indices = indices_from_subtensor(read.inputs[1:], read.op.idx_list)
    return any(isinstance(index, slice) and index.start is None and index.step is not None for index in indices)


def _keep(own: Callable[..., Any], fgraph: FunctionGraph, node: Apply) -> bool:
    """Do not rewrite a node."""
    return False


replace("local_dimshuffle_subtensor", _keep, _squeezes_steps)


# -- a rewrite that doubles the trace of a constant --------------------------------------------------------


def _chooses_one_constant(fgraph: FunctionGraph, node: Apply) -> bool:
    """Return whether both values of a switch are the same constant, of the type of the result."""
    _, left, right = node.inputs
    return isinstance(left, Constant) and left.type == node.outputs[0].type and left.equals(right)


replace("local_useless_switch", lambda own, fgraph, node: [node.inputs[1]], _chooses_one_constant)
