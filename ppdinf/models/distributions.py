"""PyMC's view of a release: the confidential table as a variable, the released one as its observation.

`ConfidentialRV` wraps whatever elementwise distribution the analyst gave the confidential table and
gives it a type that the lattice Gibbs step recognises. `ReleasedRV` is the mechanism as a likelihood:
its density is zero unless the two tables agree on every public sum, and that alone puts the
confidential table on its fiber. Together they are p(x | theta) 1[A x = a] p(y | x), with the data model
not renormalised on the fiber, so that what the public sums say about theta counts once.
`MarginalRV` is the same pair with x summed out.

l2 Laplace noise is a mixture: given a half-normal scale its cells are independent Gaussians on the lattice.
The scale is then a variable of the model, the last input of all three. Where the total weight of the releases of a
table depends on the table, C(x), the likelihood divides by it (`_log_normaliser`).
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
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.replace import vectorize_graph
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType

from ppdinf.models.marginal import logp_natural, logp_table
from ppdinf.models.natural import natural_form
from ppdinf.models.rows import elementwise
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
    release : Release
    fiber : Fiber
        Public sums, windows, noise weights and moves.
    start : array of int64
        A feasible table.
    """

    default_output = 0

    def __init__(
        self, *args: Any, base_op: Any, release: Release, fiber: Fiber, start: NDArray[np.int64], **kwargs: Any
    ) -> None:
        self.base_op, self.release, self.fiber, self.start = base_op, release, fiber, start
        super().__init__(*args, **kwargs)

    def base(self, inputs: Any) -> tuple[Any, Any]:
        """Rebuild the analyst's distribution on the inputs of a node: its cells, and what to take off (`rows`)."""
        mixture = self.release.mechanism.is_mixture
        dist = self.base_op.make_node(*(inputs[:-1] if mixture else inputs)).default_output()
        return elementwise(dist, self.start.shape)

    def log_mixed(self, inputs: Any) -> Any:
        """Log weights of the noise given the mixing scale, symbolic, shape (d, width); 0 where there is none."""
        if not self.release.mechanism.is_mixture:
            return 0.0
        y, fiber = self.release.table.values.reshape(-1, 1), self.fiber
        return self.release.mechanism.potential(y - fiber.lower[:, None] - np.arange(fiber.width), inputs[-1])


class ConfidentialRV(_WrappedRV):
    """A table of counts with any elementwise distribution, to be held on a fiber."""

    _print_name = ("Confidential", "\\operatorname{Confidential}")

    def log_data(self, table: Any) -> Any:
        """Log density of every count of every window but for the fiber's own weights, shape (width, *table shape)."""
        inputs, shape = table.owner.inputs, self.start.shape
        data = window_logp(self.base(inputs)[0], shape, self.fiber.lower, self.fiber.width)
        mixed = self.log_mixed(inputs)
        return data if isinstance(mixed, float) else data + mixed.T.reshape((self.fiber.width, *shape))


def confidential(dist: Any, release: Release, fiber: Fiber, start: NDArray[np.int64], scale: Any = None) -> Any:
    """Wrap an unnamed distribution, already of the shape of the table."""
    inputs, inner, node = _reopen(dist)
    outputs = [node.default_output(), *_rngs(node.outputs)]
    mixing = [] if scale is None else [scale]
    return ConfidentialRV(
        [*inner, *(v.type() for v in mixing)], outputs, base_op=node.op, release=release, fiber=fiber, start=start,
        ndim_supp=0, on_unused_input="ignore",
    )(*inputs, *mixing)  # fmt: skip


@_logprob.register(ConfidentialRV)
def _confidential_logp(op: ConfidentialRV, values: Any, *inputs: Any, **kwargs: Any) -> Any:
    (value,) = values
    cells, log_sums = op.base(inputs)
    return logp(cells, value) - log_sums / op.start.size


@_support_point.register(ConfidentialRV)
def _confidential_support_point(op: ConfidentialRV, rv: Any, *inputs: Any) -> Any:
    return pt.constant(op.start)


class MarginalRV(_WrappedRV):
    """The noisy table with the confidential one summed out, where public sums do not link groups of cells.

    Attributes
    ----------
    block : array of int64, shape (d,)
        Group of each cell, -1 for cells under no public sum.
    total : array of int64
        Sum of each group.
    """

    _print_name = ("Released", "\\operatorname{Released}")

    def __init__(self, *args: Any, block: NDArray[np.int64], total: NDArray[np.int64], **kwargs: Any) -> None:
        self.block, self.total = block, total
        super().__init__(*args, **kwargs)

    def weights(self, inputs: Any) -> tuple[Any, Any, NDArray[np.float64] | None]:
        """Log weights of all counts: ``(natural parameter, log normaliser, log h)`` or ``(None, table, None)``.

        Shapes (d,), (d,), (d, width), or a symbolic table of shape (d, width); noise is included.
        """
        (base, _), fiber = self.base(inputs), self.fiber
        form = natural_form(base, self.start.shape, fiber.lower[:, None] + np.arange(fiber.width))
        if form is None or self.release.mechanism.is_mixture:
            table = window_logp(base, self.start.shape, fiber.lower, fiber.width).reshape((fiber.width, -1)).T
            return None, table + fiber.log_noise + self.log_mixed(inputs), None
        return form.eta.ravel(), form.log_normaliser.ravel(), form.log_h + fiber.log_noise


def marginal(dist: Any, release: Release, fiber: Fiber, start: NDArray[np.int64], scale: Any = None) -> Any:
    """Return the noisy table as a random variable whose confidential table is summed out."""
    inputs, inner, node = _reopen(dist)
    rng = pt.random.shared_rng(seed=None)
    mixing = [] if scale is None else [scale]
    given = [v.type() for v in mixing]
    next_rng, y = ReleasedRV(release)(node.default_output(), *given, rng=rng, return_next_rng=True)
    structure = release.public.structure
    grouped = structure.partition[structure.blocks]
    _, groups = np.unique(structure.classes[grouped], return_inverse=True)
    block = np.full(fiber.lower.size, -1)
    block[grouped] = groups
    total = np.bincount(groups, weights=start.ravel()[grouped]).astype(np.int64)
    return MarginalRV(
        [*inner, *given, rng], [y, *_rngs(node.outputs), next_rng], base_op=node.op, fiber=fiber, start=start,
        release=release, block=block, total=total, ndim_supp=len(release.dims),
    )(*inputs, *mixing, rng)  # fmt: skip


@_logprob.register(MarginalRV)
def _marginal_logp(op: MarginalRV, values: Any, *inputs: Any, **kwargs: Any) -> Any:
    (y,) = values
    eta, normaliser, log_h = op.weights(inputs[:-1])
    place = {"lo": op.fiber.lower, "total": op.total, "block": op.block}
    if log_h is None:
        value = logp_table(normaliser, **place).sum()
    else:
        value = logp_natural(eta, log_h, **place).sum() - normaliser.sum()
    value -= op.base(inputs[:-1])[1]
    # the windows were laid out for this release: any other table has no density here
    return pt.switch(pt.all(pt.eq(y, op.release.table.values)), value, -np.inf)


class ReleasedRV(RandomVariable):
    """The noisy table given the confidential one; forward draws run the mechanism's own sampler.

    The mixing scale of l2 noise, a second input, serves its density alone.
    """

    name = "released"
    _print_name = ("Released", "\\operatorname{Released}")
    __props__ = ("name", "signature", "dtype", "inplace", "release")

    def __init__(self, release: Release, **kwargs: Any) -> None:
        self.release = release
        kwargs.setdefault("dtype", release.table.dtype.name)
        axes = ",".join(f"d{k}" for k in range(len(release.dims)))
        scale = ",()" if release.mechanism.is_mixture else ""
        kwargs.setdefault("signature", f"({axes}){scale}->({axes})")
        super().__init__(**kwargs)

    def rng_fn(self, rng: np.random.Generator, x: NDArray[np.int64], *scale: Any, size: Any = None) -> Any:
        """Release `x` again."""
        from ppdinf.samplers.tape import seeded_tape

        shape = x.shape if size is None else (*size, *x.shape[-len(self.release.dims) :])
        draws = int(np.prod(shape[: len(shape) - len(self.release.dims)]))
        cells = np.broadcast_to(x, shape).reshape(draws, -1)
        mechanism, kept = self.release.mechanism, self.release.kept
        return mechanism.draw(kept, cells, draws, seeded_tape(rng), self.release.plan).reshape(shape)


def released(x: Any, release: Release, scale: Any = None) -> Any:
    """Return the noisy table as a random variable."""
    inputs = [x] if scale is None else [x, scale]
    _, table = ReleasedRV(release)(*inputs, rng=pt.random.shared_rng(seed=None), return_next_rng=True)
    return table


@_logprob.register(ReleasedRV)
def _released_logp(op: ReleasedRV, values: Any, rng: Any, size: Any, x: Any, *scale: Any, **kwargs: Any) -> Any:
    (y,) = values
    system, noise, mechanism = op.release.kept, y - x, op.release.mechanism
    rows, columns = system.A.nonzero()
    # whole noise sums to zero; real noise does so but for rounding, and its table has the sums read off the release
    moved, goal = (noise, 0) if mechanism.is_integer else (x, system.values)
    zeros = pt.constant(np.zeros(len(system.names), dtype=np.int64))
    sums = zeros[rows].inc(system.A.data * moved.ravel()[columns])
    log_weight = pt.sum(mechanism.potential(noise, *scale))
    if op.release.depends_on_table:
        log_weight -= _LogNormaliser(op.release)(x)
    return pt.switch(pt.all(pt.eq(sums, goal)), log_weight, -np.inf)


class _LogNormaliser(Op):
    """Logarithm of the total weight of all releases of a table, C(x)."""

    __props__ = ("release",)

    def __init__(self, release: Release) -> None:
        self.release = release

    def make_node(self, x: Any) -> Apply:
        """One table in, one number out."""
        return Apply(self, [pt.as_tensor(x)], [pt.dscalar()])

    def log_normaliser(self, x: NDArray[np.int64]) -> float:
        """Ask the mechanism; 0 where it has no sum: the table's step does without it, for all else it is constant."""
        value = self.release.mechanism.log_normaliser(self.release.kept, x.ravel())
        return 0.0 if value is None or np.isnan(value) else float(value)

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        """One number."""
        outputs[0][0] = np.asarray(self.log_normaliser(inputs[0]))


@register_funcify_and_cache_key(_LogNormaliser)
def _log_normaliser_numba(op: _LogNormaliser, node: Any, **kwargs: Any) -> Any:
    @numba_njit
    def log_normaliser(x):  # type: ignore[no-untyped-def]
        with numba.objmode(value="float64"):
            value = op.log_normaliser(x)
        return np.asarray(value)

    return log_normaliser, None  # never from PyTensor's cache on disk: the release is part of the function


@numba_core_rv_funcify.register(ReleasedRV)
def _released_numba(op: ReleasedRV, node: Any) -> Any:
    cell = numba.types.int64 if op.release.mechanism.is_integer else numba.types.float64
    out_type = numba.types.Array(cell, len(op.release.dims), "C")

    @numba_njit
    def of_table(rng, x):  # type: ignore[no-untyped-def]
        with numba.objmode(out=out_type):
            out = np.ascontiguousarray(op.rng_fn(rng, x))
        return out  # noqa: RET504  (numba's object mode hands over variables, not values)

    @numba_njit
    def of_table_and_scale(rng, x, scale):  # type: ignore[no-untyped-def]
        return of_table(rng, x)

    random_fn = of_table_and_scale if op.release.mechanism.is_mixture else of_table

    return random_fn, None  # never from PyTensor's cache on disk: the release is part of the function


def _reopen(dist: Any) -> tuple[list[Any], list[Any], Any]:
    """Open an unnamed distribution: outer inputs, inner inputs, and its node on the inner ones."""
    inputs = [pt.random.shared_rng(seed=None) if isinstance(inp.type, RandomType) else inp for inp in dist.owner.inputs]
    inner = [inp if isinstance(inp.type, RandomType) else inp.type() for inp in inputs]
    return inputs, inner, dist.owner.op.make_node(*inner)


def _rngs(outputs: list[Any]) -> list[Any]:
    return [out for out in outputs if isinstance(out.type, RandomType)]
