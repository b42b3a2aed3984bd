"""PyMC's view of a release: the confidential table as a variable, the released one as its observation.

`ConfidentialRV` wraps whatever elementwise distribution the analyst gave the confidential table and
gives it a type that the lattice Gibbs step recognises. `ReleasedRV` is the mechanism as a likelihood:
its density is zero unless the two tables agree on every public sum, and that alone puts the
confidential table on its fiber. Together they are p(x | theta) 1[A x = a] p(y | x), with the data model
not renormalised on the fiber, so that what the public sums say about theta counts once.
`MarginalRV` is the same pair with x summed out.
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

from ppdinf.models.marginal import logp_natural, logp_table
from ppdinf.models.natural import natural_form
from ppdinf.releases import Release
from ppdinf.samplers.fiber import Fiber

__all__ = ["ConfidentialRV", "MarginalRV", "ReleasedRV", "confidential", "marginal", "released", "window_logp"]


def window_logp(dist: Any, shape: tuple[int, ...], lower: NDArray[np.int64], width: int) -> Any:
    """Log density of every count of every window, symbolic, shape (width, *table shape).

    Parameters
    ----------
    dist : TensorVariable
        An elementwise distribution of the shape of the table.
    shape : tuple of int
        That shape.
    lower : array of int64, shape (d,)
        Smallest count of each window.
    width : int
    """
    value = dist.type()
    counts = (lower + np.arange(width)[:, None]).reshape(width, *shape)
    return vectorize_graph(logp(dist, value), {value: pt.constant(counts)})


class _WrappedRV(SymbolicRandomVariable):
    """An elementwise distribution of counts, with the fiber that its draws are held on.

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

    def __init__(self, *args: Any, base_op: Any, fiber: Fiber, start: NDArray[np.int64], **kwargs: Any) -> None:
        self.base_op, self.fiber, self.start = base_op, fiber, start
        super().__init__(*args, **kwargs)

    def base(self, inputs: Any) -> Any:
        """Rebuild the analyst's distribution on the inputs of a node."""
        return self.base_op.make_node(*inputs).default_output()


class ConfidentialRV(_WrappedRV):
    """A table of counts with any elementwise distribution, to be held on a fiber."""

    _print_name = ("Confidential", "\\operatorname{Confidential}")

    def log_data(self, table: Any) -> Any:
        """Log density under the data model of every count of every window, shape (width, *table shape)."""
        return window_logp(self.base(table.owner.inputs), self.start.shape, self.fiber.lower, self.fiber.width)


def confidential(dist: Any, fiber: Fiber, start: NDArray[np.int64]) -> Any:
    """Wrap an unnamed distribution, already of the shape of the table."""
    inputs, inner, node = _reopen(dist)
    return ConfidentialRV(
        inner, [node.default_output(), *_rngs(node.outputs)], base_op=node.op, fiber=fiber, start=start, ndim_supp=0
    )(*inputs)


@_logprob.register(ConfidentialRV)
def _confidential_logp(op: ConfidentialRV, values: Any, *inputs: Any, **kwargs: Any) -> Any:
    (value,) = values
    return logp(op.base(inputs), value)


@_support_point.register(ConfidentialRV)
def _confidential_support_point(op: ConfidentialRV, rv: Any, *inputs: Any) -> Any:
    return pt.constant(op.start)


class MarginalRV(_WrappedRV):
    """The noisy table with the confidential one summed out, where public sums do not link groups of cells.

    Attributes
    ----------
    release : Release
    block : array of int64, shape (d,)
        Group of each cell, -1 for cells under no public sum.
    total : array of int64
        Sum of each group.
    """

    _print_name = ("Released", "\\operatorname{Released}")

    def __init__(
        self, *args: Any, release: Release, block: NDArray[np.int64], total: NDArray[np.int64], **kwargs: Any
    ) -> None:
        self.release, self.block, self.total = release, block, total
        super().__init__(*args, **kwargs)

    def weights(self, inputs: Any) -> tuple[Any, Any, NDArray[np.float64] | None]:
        """Return log weights of all counts: ``(natural parameter, log normaliser, log h)`` or ``(None, table, None)``.

        Shapes (d,), (d,), (d, width), or a symbolic table of shape (d, width); noise is included.
        """
        base, fiber = self.base(inputs), self.fiber
        form = natural_form(base, self.start.shape, fiber.lower[:, None] + np.arange(fiber.width))
        if form is None:
            table = window_logp(base, self.start.shape, fiber.lower, fiber.width).reshape((fiber.width, -1)).T
            return None, table + fiber.log_noise, None
        return form.eta.ravel(), form.log_normaliser.ravel(), form.log_h + fiber.log_noise


def marginal(dist: Any, release: Release, fiber: Fiber, start: NDArray[np.int64]) -> Any:
    """Return the noisy table as a random variable whose confidential table is summed out."""
    inputs, inner, node = _reopen(dist)
    rng = pt.random.shared_rng(seed=None)
    next_rng, y = ReleasedRV(release)(node.default_output(), rng=rng, return_next_rng=True)
    structure = release.public.structure
    grouped = structure.partition[structure.blocks]
    _, groups = np.unique(structure.classes[grouped], return_inverse=True)
    block = np.full(fiber.lower.size, -1)
    block[grouped] = groups
    total = np.bincount(groups, weights=start.ravel()[grouped]).astype(np.int64)
    return MarginalRV(
        [*inner, rng], [y, *_rngs(node.outputs), next_rng], base_op=node.op, fiber=fiber, start=start, release=release,
        block=block, total=total, ndim_supp=len(release.dims),
    )(*inputs, rng)  # fmt: skip


@_logprob.register(MarginalRV)
def _marginal_logp(op: MarginalRV, values: Any, *inputs: Any, **kwargs: Any) -> Any:
    (y,) = values
    eta, normaliser, log_h = op.weights(inputs[:-1])
    place = {"lo": op.fiber.lower, "total": op.total, "block": op.block}
    if log_h is None:
        value = logp_table(normaliser, **place).sum()
    else:
        value = logp_natural(eta, log_h, **place).sum() - normaliser.sum()
    # the windows were laid out for this release: any other table has no density here
    return pt.switch(pt.all(pt.eq(y, op.release.table.values)), value, -np.inf)


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
        noise = self.release.mechanism.noise(self.release.kept, draws, seeded_tape(rng))
        return x + noise.reshape(shape)


def released(x: Any, release: Release) -> Any:
    """Return the noisy table as a random variable."""
    _, table = ReleasedRV(release)(x, rng=pt.random.shared_rng(seed=None), return_next_rng=True)
    return table


@_logprob.register(ReleasedRV)
def _released_logp(op: ReleasedRV, values: Any, rng: Any, size: Any, x: Any, **kwargs: Any) -> Any:
    (y,) = values
    system, noise = op.release.kept, y - x
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

    return random_fn, None  # never from PyTensor's cache on disk: the release is part of the function


def _reopen(dist: Any) -> tuple[list[Any], list[Any], Any]:
    """Open an unnamed distribution: outer inputs, inner inputs, and its node on the inner ones."""
    inputs = [pt.random.shared_rng(seed=None) if isinstance(inp.type, RandomType) else inp for inp in dist.owner.inputs]
    inner = [inp if isinstance(inp.type, RandomType) else inp.type() for inp in inputs]
    return inputs, inner, dist.owner.op.make_node(*inner)


def _rngs(outputs: list[Any]) -> list[Any]:
    return [out for out in outputs if isinstance(out.type, RandomType)]
