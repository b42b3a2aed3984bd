"""PyMC's view of a release: the confidential table as a variable, the released one as its observation.

`ConfidentialRV` wraps whatever elementwise distribution the analyst gave the confidential table and
gives it a type that the lattice Gibbs step recognises. `ReleasedRV` (`ppdinf.models.released`) is the mechanism:
its density is zero unless the two tables agree on every public sum, and that alone puts the
confidential table on its fiber. Together they are p(x | theta) 1[A x = a] p(y | x), with the data model
not renormalised on the fiber, so that what the public sums say about theta counts once.
`MarginalRV` is the same pair with x summed out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc import logp

from ppdinf._pymc_internals import RandomType, SymbolicRandomVariable, _logprob, _support_point, vectorize_graph
from ppdinf.models.marginal import fixed, logp_natural, logp_table
from ppdinf.models.natural import natural_form
from ppdinf.models.released import ReleasedRV, has_auxiliary, noise_image, taken_off, unprojected
from ppdinf.models.rows import elementwise
from ppdinf.releases import Release
from ppdinf.samplers.fiber import Fiber

__all__ = ["ConfidentialRV", "MarginalRV", "confidential", "log_density", "marginal", "window_logp"]


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
    return log_density(dist, pt.constant((lower + np.arange(width)[:, None]).reshape(width, *shape)))


def log_density(dist: Any, counts: Any) -> Any:
    """Log density of tables of counts, symbolic, shape (n, *table shape), under an elementwise distribution."""
    value = dist.type()
    return vectorize_graph(logp(dist, value), {value: counts})


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


class ConfidentialRV(_WrappedRV):
    """A table of counts with any elementwise distribution, to be held on a fiber."""

    _print_name = ("Confidential", "\\operatorname{Confidential}")

    def conditional(self, table: Any) -> list[Any]:
        """State the law of the table given the parameters, symbolic, as walks along its lines need it.

        Log weights of all counts, shape (d, width); and, where noise couples the cells, the image of the release under
        its norm, shape (k,).
        """
        inputs, fiber = table.owner.inputs, self.fiber
        eta, log_weights, log_h = self.weights(inputs)
        if log_h is not None:
            counts = fiber.lower[:, None] + np.arange(fiber.width)
            ends = (pt.constant(end, dtype="float64") for end in (-1e100, 1e100))  # a rate of 0 leaves the count 0
            log_weights = fixed(log_h, "log_h") + pt.clip(eta, *ends)[:, None] * counts
        norm = self.release.mechanism.coupling
        if fiber.coupling is None or norm is None:
            return [log_weights]
        y = self.release.table.values.ravel()
        shifted = unprojected(y, self.release, inputs[-1]) if has_auxiliary(self.release) else y
        return [log_weights, noise_image(norm, shifted)]


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
    value += taken_off(op.release, inputs[-2])  # the auxiliary variable, where there is one
    # the windows were laid out for this release: any other table has no density here
    return pt.switch(pt.all(pt.eq(y, op.release.table.values)), value, -np.inf)


def _reopen(dist: Any) -> tuple[list[Any], list[Any], Any]:
    """Open an unnamed distribution: outer inputs, inner inputs, and its node on the inner ones."""
    inputs = [pt.random.shared_rng(seed=None) if isinstance(inp.type, RandomType) else inp for inp in dist.owner.inputs]
    inner = [inp if isinstance(inp.type, RandomType) else inp.type() for inp in inputs]
    return inputs, inner, dist.owner.op.make_node(*inner)


def _rngs(outputs: list[Any]) -> list[Any]:
    return [out for out in outputs if isinstance(out.type, RandomType)]
