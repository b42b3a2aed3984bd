"""The mechanism as a likelihood: the released table given the confidential table.

The density is zero unless the two tables have the same public sums and the table satisfies the public bounds. The noise
of some mechanisms has a simple density given an auxiliary variable. This variable is part of the model and the last
input here, as in `ppdinf.distributions.densities.confidential_rv`.

l2 Laplace noise is a scale mixture: given a half-normal scale, its cells are independent Gaussians on the lattice.
Projected Laplace noise is independent between cells given the projected component t: ``p(y | x)`` is the integral of
``exp(-|y + R t - W x|_1 / s)`` over t. It equals the mean of ``exp(|t|_1)`` times the integrand over Laplace draws t.

If the total weight C(x) of the releases of a table depends on the table, the likelihood is divided by C(x). If noisy
sums of the table's histogram of counts were published first, the likelihood includes their density. Both depend on
several cells (`ppdinf.distributions.observation.table_function`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numba
import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import (
    Apply,
    RandomVariable,
    TensorVariable,
    Variable,
    _logprob,
    numba_core_rv_funcify,
    numba_njit,
)
from ppdinf._internal.types import Array
from ppdinf.distributions.observation.observed import Observed, sums_of_cells


class ReleasedRV(RandomVariable):
    """The noisy table given the confidential table; forward draws use the mechanism's sampler."""

    name = "released"
    _print_name = ("Released", "\\operatorname{Released}")
    __props__ = ("name", "signature", "dtype", "inplace", "observed")

    def __init__(self, observed: Observed, ndim: int | None = None, **kwargs: str | bool) -> None:
        self.observed, noisy, likelihood = observed, observed.noisy, observed.likelihood
        kwargs.setdefault("dtype", noisy.dtype.name)
        axes = ",".join(f"x{k}" for k in range(noisy.ndim if ndim is None else ndim))
        variable = likelihood.auxiliary
        auxiliary = "" if variable is None else ",()" if variable.is_scalar else ",(t)"
        outputs_dims = axes if noisy.shape == observed.frame.shape else ",".join(map(str, noisy.shape))
        kwargs.setdefault("signature", f"({axes}){auxiliary}->({outputs_dims})")
        super().__init__(**kwargs)

    def rng_fn(self, rng: np.random.Generator, x: NDArray[np.int64], *further: Array | None) -> Array:
        """Release `x` again; `further` are the auxiliary variable, if there is one, and the size."""
        size = further[-1] if further else None
        lead = x.shape[: x.ndim - self.ndims_params[0]] if size is None else tuple(size)
        draws = int(np.prod(lead))
        cells = np.broadcast_to(x, (*lead, *x.shape[x.ndim - self.ndims_params[0] :])).reshape(draws, -1)
        return self.observed.draw(cells, rng).reshape(*lead, *self.observed.noisy.shape)


def released(x: TensorVariable, observed: Observed, auxiliary: TensorVariable | None = None) -> TensorVariable:
    """Return the noisy table as a random variable."""
    inputs = [x] if auxiliary is None else [x, auxiliary]
    op = ReleasedRV(observed, ndim=x.ndim)
    _, table = op(*inputs, rng=pt.random.shared_rng(seed=None), return_next_rng=True)
    return table


@_logprob.register(ReleasedRV)
def _released_logp(
    op: ReleasedRV,
    values: Sequence[TensorVariable],
    rng: Variable,
    size: Variable,
    x: TensorVariable,
    *auxiliary: TensorVariable,
    **kwargs: object,
) -> TensorVariable:
    (y,) = values
    log_density, system = op.observed.log_density(y.ravel(), x.ravel(), *auxiliary), op.observed.system
    log_density -= op.observed.log_constant or 0.0
    if not system.limits.size:
        return log_density
    within = pt.all(pt.ge(sums_of_cells(system.B, x.ravel()), system.limits))
    return pt.switch(within, log_density, -np.inf)


@numba_core_rv_funcify.register(ReleasedRV)
def _released_numba(op: ReleasedRV, node: Apply) -> tuple[Callable[..., Array], None]:
    cell = numba.types.int64 if op.observed.is_integer else numba.types.float64
    out_type = numba.types.Array(cell, op.observed.noisy.ndim, "C")

    @numba_njit
    def of_table(rng, x):  # type: ignore[no-untyped-def]
        with numba.objmode(out=out_type):
            out = np.ascontiguousarray(op.rng_fn(rng, x))
        return out  # noqa: RET504  (numba's object mode returns variables, not expressions)

    @numba_njit
    def of_table_and_auxiliary(rng, x, auxiliary):  # type: ignore[no-untyped-def]
        return of_table(rng, x)

    random_fn = of_table if op.observed.likelihood.auxiliary is None else of_table_and_auxiliary

    return random_fn, None  # excluded from PyTensor's disk cache: the release is part of the function
