"""PyMC's view of a release: the confidential table as a variable, the released one as its observation.

`ConfidentialRV` wraps whatever elementwise distribution the analyst gave the confidential table and
gives it a type that the lattice Gibbs step recognises. `ReleasedRV` is the mechanism as a likelihood:
its density is zero unless the two tables agree on every public sum, and that alone puts the
confidential table on its fiber. Together they are p(x | theta) 1[A x = a] p(y | x), with the data model
not renormalised on the fiber, so that what the public sums say about theta counts once.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.distributions.distribution import SymbolicRandomVariable, _support_point
from pymc.logprob.abstract import _logprob
from pymc.logprob.basic import logp
from pytensor.graph.replace import vectorize_graph
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType

from ppdinf.releases import Release
from ppdinf.samplers.fiber import Fiber

__all__ = ["ConfidentialRV", "ReleasedRV", "confidential", "released", "window_logp"]


class ConfidentialRV(SymbolicRandomVariable):
    """A table of counts with any elementwise distribution, to be held on a fiber.

    Attributes
    ----------
    base_op : Op
        The analyst's distribution.
    fiber : Fiber
        Public sums, windows, noise weights and moves.
    start : array of int64
        A feasible table.
    """

    default_output = 0
    _print_name = ("Confidential", "\\operatorname{Confidential}")

    def __init__(self, *args: Any, base_op: Any, fiber: Fiber, start: NDArray[np.int64], **kwargs: Any) -> None:
        self.base_op, self.fiber, self.start = base_op, fiber, start
        super().__init__(*args, ndim_supp=0, **kwargs)

    @property
    def fixed(self) -> NDArray[np.bool_]:
        """Cells that no other table on the fiber changes, shape (d,)."""
        return self.fiber.system.structure.fixed

    def window_logp(self, table: Any) -> Any:
        """Log density of every count of every window; see `window_logp`."""
        return window_logp(self.base(table.owner.inputs), self.fiber.lower, self.fiber.width)

    def base(self, inputs: list[Any]) -> Any:
        """Rebuild the analyst's distribution on `inputs`."""
        return self.base_op.make_node(*inputs).default_output()


def window_logp(dist: Any, lower: NDArray[np.int64], width: int) -> Any:
    """Log density of every count of every window, symbolic, shape (width, *table shape).

    Parameters
    ----------
    dist : TensorVariable
        An elementwise distribution of the shape of the table.
    lower : array of int64, shape (d,)
        Smallest count of each window.
    width : int
    """
    value = dist.type()
    counts = (lower + np.arange(width)[:, None]).reshape(width, *dist.type.shape)
    return vectorize_graph(logp(dist, value), {value: pt.constant(counts)})


def confidential(dist: Any, fiber: Fiber, start: NDArray[np.int64]) -> Any:
    """Wrap an unnamed distribution, already of the shape of the table."""
    inputs = [pt.random.shared_rng(seed=None) if isinstance(inp.type, RandomType) else inp for inp in dist.owner.inputs]
    inner = [inp if isinstance(inp.type, RandomType) else inp.type() for inp in inputs]
    node = dist.owner.op.make_node(*inner)
    table = node.default_output()
    outputs = [table, *(out for out in node.outputs if isinstance(out.type, RandomType))]
    return ConfidentialRV(inner, outputs, base_op=dist.owner.op, fiber=fiber, start=start)(*inputs)


@_logprob.register(ConfidentialRV)
def _confidential_logp(op: ConfidentialRV, values: Any, *inputs: Any, **kwargs: Any) -> Any:
    (value,) = values
    return logp(op.base(list(inputs)), value)


@_support_point.register(ConfidentialRV)
def _confidential_support_point(op: ConfidentialRV, rv: Any, *inputs: Any) -> Any:
    return pt.constant(op.start)


class ReleasedRV(RandomVariable):
    """The noisy table given the confidential one; forward draws run the mechanism's own sampler."""

    name = "released"
    dtype = "int64"
    _print_name = ("Released", "\\operatorname{Released}")
    __props__ = ("name", "signature", "dtype", "inplace", "release")

    def __init__(self, release: Release, **kwargs: Any) -> None:
        self.release = release
        axes = ",".join(f"d{k}" for k in range(len(release.dims)))
        kwargs.setdefault("signature", f"({axes})->({axes})")
        super().__init__(**kwargs)

    def rng_fn(self, rng: np.random.Generator, x: NDArray[np.int64], size: Any = None) -> NDArray[np.int64]:
        """Add fresh noise to `x`."""
        from ppdinf.samplers.tape import seeded_tape

        shape = x.shape if size is None else (*size, *x.shape[-len(self.release.dims) :])
        draws = int(np.prod(shape[: len(shape) - len(self.release.dims)]))
        noise = self.release.mechanism.noise(self.release.public, draws, seeded_tape(rng))
        return x + noise.reshape(shape)


def released(x: Any, release: Release) -> Any:
    """Return the noisy table as a random variable."""
    _, table = ReleasedRV(release)(x, rng=pt.random.shared_rng(seed=None), return_next_rng=True)
    return table


@_logprob.register(ReleasedRV)
def _released_logp(op: ReleasedRV, values: Any, rng: Any, size: Any, x: Any, **kwargs: Any) -> Any:
    (y,) = values
    system, noise = op.release.public, y - x
    rows, columns = system.A.nonzero()
    sums = pt.zeros(len(system.names), dtype="int64")[rows].inc(system.A.data * noise.ravel()[columns])
    return pt.switch(pt.all(pt.eq(sums, 0)), pt.sum(op.release.mechanism.potential(noise)), -np.inf)


@numba_core_rv_funcify.register(ReleasedRV)
def _released_numba(op: ReleasedRV, node: Any) -> Any:
    out_type = numba.types.Array(numba.types.int64, len(op.release.dims), "C")

    @numba_njit
    def random_fn(rng, x):  # type: ignore[no-untyped-def]
        with numba.objmode(out=out_type):
            out = np.ascontiguousarray(op.rng_fn(rng, x))
        return out  # noqa: RET504  (numba's object mode hands over variables, not values)

    return random_fn, 1
