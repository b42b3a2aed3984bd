"""A potential split by cell as an observed random variable, so that its table can be marginalized.

PyMC adds potentials to the density of a model after the densities of random variables, when a marginalized table no
longer exists. An equivalent factor is a variable whose log density is the potential for every value. It is observed to
be 0 and drawn as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

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


class ObservedPotentialRV(RandomVariable):
    """Observed zeros with given log densities."""

    name = "observed_potential"
    signature = "()->()"
    dtype = "float64"
    _print_name: ClassVar[tuple[str, str]] = ("Potential", "\\operatorname{Potential}")

    @classmethod
    def rng_fn(
        cls, rng: np.random.Generator, density: NDArray[np.float64], size: tuple[int, ...] | None = None
    ) -> NDArray[np.float64]:
        """Return zeros."""
        return np.zeros(np.shape(density) if size is None else size)


def observed_potential(density: TensorVariable) -> TensorVariable:
    """Return a random variable with the given elementwise log densities."""
    _, variable = ObservedPotentialRV()(
        density.astype("float64"), rng=pt.random.shared_rng(seed=None), return_next_rng=True
    )
    return variable


@_logprob.register(ObservedPotentialRV)
def _observed_potential_logp(
    op: ObservedPotentialRV,
    values: Sequence[TensorVariable],
    rng: Variable,
    size: Variable,
    density: TensorVariable,
    **kwargs: object,
) -> TensorVariable:
    return density


@numba_core_rv_funcify.register(ObservedPotentialRV)
def _observed_potential_numba(
    op: ObservedPotentialRV, node: Apply
) -> tuple[Callable[[np.random.Generator, float], float], int]:
    @numba_njit
    def zero(rng, density):  # type: ignore[no-untyped-def]
        return 0.0

    return zero, 1
