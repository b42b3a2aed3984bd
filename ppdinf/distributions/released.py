"""The mechanism as a likelihood: the released table given the confidential one.

The density is zero unless the two agree on every public sum. The noise of some mechanisms has a simple density given
an auxiliary variable, which is then a variable of the model and the last input here as in
`ppdinf.distributions.confidential`. l2 Laplace noise is a mixture: given a half-normal scale its cells are independent
Gaussians on the lattice. Projected Laplace noise is independent in the cells given what the projection removed, t:
``p(y | x)`` is the integral of ``exp(-|y + R t - W x|_1 / s)`` over t, hence the mean of ``exp(|t|_1)`` times that over
Laplace draws t. Where the total weight of the releases of a table depends on the table, C(x), the likelihood divides
by it, and where noisy sums of the table's histogram of counts were published before, it has their law as well: both
look at the table as a whole (`_OfTable`).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._pymc_internals import (
    Apply,
    Op,
    RandomVariable,
    _logprob,
    numba_core_rv_funcify,
    numba_njit,
    register_funcify_and_cache_key,
)
from ppdinf.distributions.observed import Observed
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.releases import Release

__all__ = ["ReleasedRV", "mechanism_of", "released"]


def mechanism_of(release: Release) -> TableMechanism:
    """Return the mechanism of a release that has a likelihood."""
    assert isinstance(release.mechanism, TableMechanism), "what is about records has no likelihood of cells"
    return release.mechanism


class ReleasedRV(RandomVariable):
    """The noisy table given the confidential one; forward draws run the mechanism's own sampler.

    The auxiliary variable of some noise, a second input, serves its density alone.
    """

    name = "released"
    _print_name = ("Released", "\\operatorname{Released}")
    __props__ = ("name", "signature", "dtype", "inplace", "observed")

    def __init__(self, observed: Observed, ndim: int | None = None, **kwargs: Any) -> None:
        self.observed, release, likelihood = observed, observed.release, observed.likelihood
        kwargs.setdefault("dtype", release.table.dtype.name)
        axes = ",".join(f"x{k}" for k in range(len(release.dims) if ndim is None else ndim))
        variable = likelihood.auxiliary
        auxiliary = "" if variable is None else ",()" if variable.is_scalar else ",(t)"
        answers = axes if likelihood.query is None else ",".join(map(str, release.shape))
        kwargs.setdefault("signature", f"({axes}){auxiliary}->({answers})")
        super().__init__(**kwargs)

    def rng_fn(self, rng: np.random.Generator, x: NDArray[np.int64], *auxiliary: Any, size: Any = None) -> Any:
        """Release `x` again."""
        from ppdinf.noise.bits.tape import seeded_tape

        lead = x.shape[: x.ndim - self.ndims_params[0]] if size is None else tuple(size)
        draws = int(np.prod(lead))
        cells = np.broadcast_to(x, (*lead, *x.shape[x.ndim - self.ndims_params[0] :])).reshape(draws, -1)
        release, query = self.observed.release, self.observed.likelihood.query
        answers = cells if query is None else cells @ query.T
        drawn = mechanism_of(release).draw(release.kept, answers, draws, seeded_tape(rng), release.plan)
        return drawn.reshape(*lead, *release.shape)


def released(x: Any, observed: Observed, auxiliary: Any = None) -> Any:
    """Return the noisy table as a random variable."""
    inputs = [x] if auxiliary is None else [x, auxiliary]
    op = ReleasedRV(observed, ndim=x.ndim)
    _, table = op(*inputs, rng=pt.random.shared_rng(seed=None), return_next_rng=True)
    return table


@_logprob.register(ReleasedRV)
def _released_logp(op: ReleasedRV, values: Any, rng: Any, size: Any, x: Any, *auxiliary: Any, **kwargs: Any) -> Any:
    (y,), release, likelihood = values, op.observed.release, op.observed.likelihood
    system, integer = release.kept, release.mechanism.is_integer
    y, x = y.ravel(), x.ravel()
    answers = x if likelihood.query is None else pt.as_tensor(likelihood.query.toarray()) @ x
    rows, columns = system.A.nonzero()
    # whole noise sums to zero; real noise does so but for rounding, and its table has the sums read off the release
    moved, goal = (y - answers, 0) if integer else (answers, system.values)
    zeros = pt.constant(np.zeros(len(system.names), dtype=np.int64))
    sums = zeros[rows].inc(system.A.data * moved[columns])
    log_weight = likelihood.log_table(y, answers, *auxiliary)
    if likelihood.looks_at_table:
        log_weight += _OfTable(op.observed)(x)
    return pt.switch(pt.all(pt.eq(sums, goal)), log_weight, -np.inf)


class _OfTable(Op):
    """What a release tells of its table as a whole: law of noisy sums of its histogram, minus the log normaliser."""

    __props__ = ("observed",)

    def __init__(self, observed: Observed) -> None:
        self.observed = observed

    def make_node(self, x: Any) -> Apply:
        """One table in, one number out."""
        return Apply(self, [pt.as_tensor(x)], [pt.dscalar()])

    def log_weight(self, x: NDArray[np.int64]) -> float:
        """Ask the likelihood."""
        return self.observed.likelihood.log_of_table(x.ravel())

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        """One number."""
        outputs[0][0] = np.asarray(self.log_weight(inputs[0]))


@register_funcify_and_cache_key(_OfTable)
def _of_table_numba(op: _OfTable, node: Any, **kwargs: Any) -> Any:
    @numba_njit
    def of_table(x):  # type: ignore[no-untyped-def]
        with numba.objmode(value="float64"):
            value = op.log_weight(x)
        return np.asarray(value)

    return of_table, None  # never from PyTensor's cache on disk: the release is part of the function


@numba_core_rv_funcify.register(ReleasedRV)
def _released_numba(op: ReleasedRV, node: Any) -> Any:
    cell = numba.types.int64 if op.observed.release.mechanism.is_integer else numba.types.float64
    out_type = numba.types.Array(cell, len(op.observed.release.dims), "C")

    @numba_njit
    def of_table(rng, x):  # type: ignore[no-untyped-def]
        with numba.objmode(out=out_type):
            out = np.ascontiguousarray(op.rng_fn(rng, x))
        return out  # noqa: RET504  (numba's object mode hands over variables, not values)

    @numba_njit
    def of_table_and_auxiliary(rng, x, auxiliary):  # type: ignore[no-untyped-def]
        return of_table(rng, x)

    random_fn = of_table if op.observed.likelihood.auxiliary is None else of_table_and_auxiliary

    return random_fn, None  # never from PyTensor's cache on disk: the release is part of the function
