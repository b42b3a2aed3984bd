"""PyMC's view of a release: the confidential table as a variable, the released one as its observation.

`ConfidentialRV` wraps whatever elementwise distribution the analyst gave the confidential table and
gives it a type that the lattice Gibbs step recognises. `ReleasedRV` is the mechanism as a likelihood:
its density is zero unless the two tables agree on every public sum, and that alone puts the
confidential table on its fiber. Together they are p(x | theta) 1[A x = a] p(y | x), with the data model
not renormalised on the fiber, so that what the public sums say about theta counts once.
`MarginalRV` is the same pair with x summed out.

The noise of some mechanisms has a simple density given an auxiliary variable, which is then a variable of the model
and the last input of all three. l2 Laplace noise is a mixture: given a half-normal scale its cells are independent
Gaussians on the lattice. Projected Laplace noise is independent in the cells given what the projection removed, t:
``p(y | x)`` is the integral of ``exp(-|y + R t - W x|_1 / s)`` over t, hence the mean of ``exp(|t|_1)`` times that over
Laplace draws t. Where the total weight of the releases of a
table depends on the table, C(x), the likelihood divides by it (`_log_normaliser`).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
import scipy.sparse as sp
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

from ppdinf.models.answers import query_of
from ppdinf.models.marginal import logp_natural, logp_table
from ppdinf.models.natural import natural_form
from ppdinf.models.rows import elementwise
from ppdinf.releases import Release
from ppdinf.samplers.fiber import Fiber
from ppdinf.samplers.noise_norm import NoiseNorm

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
        dist = self.base_op.make_node(*(inputs[:-1] if has_auxiliary(self.release) else inputs)).default_output()
        return elementwise(dist, self.start.shape)

    def log_given(self, inputs: Any) -> Any:
        """Log weights of the noise given the auxiliary variable, symbolic, shape (d, width); 0 where there is none."""
        if self.fiber.coupling is not None or not has_auxiliary(self.release):
            return 0.0
        counts = self.fiber.lower[:, None] + np.arange(self.fiber.width)
        y, mechanism = self.release.table.values.ravel(), self.release.mechanism
        if mechanism.is_mixture:
            return mechanism.potential(y[:, None] - counts, inputs[-1])
        return mechanism.potential(unprojected(y, self.release, inputs[-1])[:, None] - counts)


class ConfidentialRV(_WrappedRV):
    """A table of counts with any elementwise distribution, to be held on a fiber."""

    _print_name = ("Confidential", "\\operatorname{Confidential}")

    def log_data(self, table: Any) -> Any:
        """Log density of every count of every window but for the fiber's own weights, shape (width, *table shape)."""
        inputs, shape = table.owner.inputs, self.start.shape
        data = window_logp(self.base(inputs)[0], shape, self.fiber.lower, self.fiber.width)
        noise = self.log_given(inputs)
        return data if isinstance(noise, float) else data + noise.T.reshape((self.fiber.width, *shape))

    def noise_image(self, table: Any) -> Any:
        """Where noise couples the cells, the image of the release under its norm, shape (k,); elsewhere empty."""
        coupling = self.release.mechanism.coupling
        if coupling is None:
            return pt.constant(np.zeros(0))
        y = self.release.table.values.ravel()
        shifted = unprojected(y, self.release, table.owner.inputs[-1]) if has_auxiliary(self.release) else y
        return _image(coupling, shifted)


def has_auxiliary(release: Release) -> bool:
    """Whether the density of the noise is stated given a further variable of the model."""
    return release.mechanism.is_mixture or release.mechanism.shifts is not None


def unprojected(y: Any, release: Release, t: Any) -> Any:
    """Undo the projection of the noise in a released table, shape (d,), symbolic."""
    return y + pt.as_tensor(sp.csr_array(release.mechanism.shifts).toarray()) @ t


def _image(norm: NoiseNorm, z: Any) -> Any:
    """Image of a vector of noise under the matrix of its norm, symbolic."""
    return pt.as_tensor(norm.matrix.toarray()) @ z


def confidential(dist: Any, release: Release, fiber: Fiber, start: NDArray[np.int64], auxiliary: Any = None) -> Any:
    """Wrap an unnamed distribution, already of the shape of the table."""
    inputs, inner, node = _reopen(dist)
    outputs = [node.default_output(), *_rngs(node.outputs)]
    given = [] if auxiliary is None else [auxiliary]
    return ConfidentialRV(
        [*inner, *(v.type() for v in given)], outputs, base_op=node.op, release=release, fiber=fiber, start=start,
        ndim_supp=0, on_unused_input="ignore",
    )(*inputs, *given)  # fmt: skip


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
        if form is None or has_auxiliary(self.release):
            table = window_logp(base, self.start.shape, fiber.lower, fiber.width).reshape((fiber.width, -1)).T
            return None, table + fiber.log_noise + self.log_given(inputs), None
        return form.eta.ravel(), form.log_normaliser.ravel(), form.log_h + fiber.log_noise


def marginal(dist: Any, release: Release, fiber: Fiber, start: NDArray[np.int64], auxiliary: Any = None) -> Any:
    """Return the noisy table as a random variable whose confidential table is summed out."""
    inputs, inner, node = _reopen(dist)
    rng = pt.random.shared_rng(seed=None)
    outer = [] if auxiliary is None else [auxiliary]
    given = [v.type() for v in outer]
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
    )(*inputs, *outer, rng)  # fmt: skip


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
    value += _taken_off(op.release, inputs[-2])  # the auxiliary variable, where there is one
    # the windows were laid out for this release: any other table has no density here
    return pt.switch(pt.all(pt.eq(y, op.release.table.values)), value, -np.inf)


class ReleasedRV(RandomVariable):
    """The noisy table given the confidential one; forward draws run the mechanism's own sampler.

    The auxiliary variable of some noise, a second input, serves its density alone.
    """

    name = "released"
    _print_name = ("Released", "\\operatorname{Released}")
    __props__ = ("name", "signature", "dtype", "inplace", "release")

    def __init__(self, release: Release, ndim: int | None = None, **kwargs: Any) -> None:
        self.release, self.query = release, query_of(release)
        kwargs.setdefault("dtype", release.table.dtype.name)
        axes = ",".join(f"x{k}" for k in range(len(release.dims) if ndim is None else ndim))
        auxiliary = ",()" if release.mechanism.is_mixture else ",(t)" if has_auxiliary(release) else ""
        answers = axes if self.query is None else ",".join(map(str, release.shape))
        kwargs.setdefault("signature", f"({axes}){auxiliary}->({answers})")
        super().__init__(**kwargs)

    def rng_fn(self, rng: np.random.Generator, x: NDArray[np.int64], *auxiliary: Any, size: Any = None) -> Any:
        """Release `x` again."""
        from ppdinf.samplers.tape import seeded_tape

        lead = x.shape[: x.ndim - self.ndims_params[0]] if size is None else tuple(size)
        draws = int(np.prod(lead))
        cells = np.broadcast_to(x, (*lead, *x.shape[x.ndim - self.ndims_params[0] :])).reshape(draws, -1)
        answers = cells if self.query is None else cells @ self.query.T
        mechanism, kept = self.release.mechanism, self.release.kept
        drawn = mechanism.draw(kept, answers, draws, seeded_tape(rng), self.release.plan)
        return drawn.reshape(*lead, *self.release.shape)


def released(x: Any, release: Release, auxiliary: Any = None) -> Any:
    """Return the noisy table as a random variable."""
    inputs = [x] if auxiliary is None else [x, auxiliary]
    op = ReleasedRV(release, ndim=x.ndim)
    _, table = op(*inputs, rng=pt.random.shared_rng(seed=None), return_next_rng=True)
    return table


@_logprob.register(ReleasedRV)
def _released_logp(op: ReleasedRV, values: Any, rng: Any, size: Any, x: Any, *auxiliary: Any, **kwargs: Any) -> Any:
    (y,) = values
    if op.query is not None:
        x = (pt.as_tensor(op.query.toarray()) @ x.ravel()).reshape(op.release.shape)
    system, noise, mechanism = op.release.kept, y - x, op.release.mechanism
    rows, columns = system.A.nonzero()
    # whole noise sums to zero; real noise does so but for rounding, and its table has the sums read off the release
    moved, goal = (noise, 0) if mechanism.is_integer else (x, system.values)
    zeros = pt.constant(np.zeros(len(system.names), dtype=np.int64))
    sums = zeros[rows].inc(system.A.data * moved.ravel()[columns])
    if mechanism.shifts is not None:
        noise = unprojected(noise.ravel(), op.release, *auxiliary)
    if (coupling := mechanism.coupling) is None:
        log_weight = pt.sum(mechanism.potential(noise, *auxiliary))
    else:
        log_weight = coupling.of(_image(coupling, noise.ravel()))
    log_weight += _taken_off(op.release, *auxiliary)
    if op.release.depends_on_table:
        log_weight -= _LogNormaliser(op.release)(x)
    return pt.switch(pt.all(pt.eq(sums, goal)), log_weight, -np.inf)


def _taken_off(release: Release, *auxiliary: Any) -> Any:
    """Minus the log prior of what a projection removed: the density of the noise given it has to be without that."""
    return 0.0 if release.mechanism.shifts is None else abs(auxiliary[0]).sum()


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
    def of_table_and_auxiliary(rng, x, auxiliary):  # type: ignore[no-untyped-def]
        return of_table(rng, x)

    random_fn = of_table_and_auxiliary if has_auxiliary(op.release) else of_table

    return random_fn, None  # never from PyTensor's cache on disk: the release is part of the function


def _reopen(dist: Any) -> tuple[list[Any], list[Any], Any]:
    """Open an unnamed distribution: outer inputs, inner inputs, and its node on the inner ones."""
    inputs = [pt.random.shared_rng(seed=None) if isinstance(inp.type, RandomType) else inp for inp in dist.owner.inputs]
    inner = [inp if isinstance(inp.type, RandomType) else inp.type() for inp in inputs]
    return inputs, inner, dist.owner.op.make_node(*inner)


def _rngs(outputs: list[Any]) -> list[Any]:
    return [out for out in outputs if isinstance(out.type, RandomType)]
