"""A potential by cell as a random variable that was observed, so that its table can be summed out with it.

PyMC adds potentials to the density of a model after all of its random variables have theirs, where a table that is
summed out is gone. What tells as much of the table is a variable with the potential for its log density, whatever its
value; that is observed to be 0, and drawn as 0.
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

__all__ = ["ObservedPotentialRV", "told"]


class ObservedPotentialRV(RandomVariable):
    """Numbers whose log densities are those given."""

    name = "told"
    signature = "()->()"
    dtype = "float64"
    _print_name: ClassVar[tuple[str, str]] = ("Potential", "\\operatorname{Potential}")

    @classmethod
    def rng_fn(
        cls, rng: np.random.Generator, density: NDArray[np.float64], size: tuple[int, ...] | None = None
    ) -> NDArray[np.float64]:
        """Draw zeros."""
        return np.zeros(np.shape(density) if size is None else size)


def told(density: TensorVariable) -> TensorVariable:
    """Return a random variable with these log densities, elementwise."""
    _, found = ObservedPotentialRV()(
        density.astype("float64"), rng=pt.random.shared_rng(seed=None), return_next_rng=True
    )
    return found


@_logprob.register(ObservedPotentialRV)
def _told_logp(
    op: ObservedPotentialRV,
    values: Sequence[TensorVariable],
    rng: Variable,
    size: Variable,
    density: TensorVariable,
    **kwargs: object,
) -> TensorVariable:
    return density


@numba_core_rv_funcify.register(ObservedPotentialRV)
def _told_numba(op: ObservedPotentialRV, node: Apply) -> tuple[Callable[[np.random.Generator, float], float], int]:
    @numba_njit
    def zero(rng, density):  # type: ignore[no-untyped-def]
        return 0.0

    return zero, 1
