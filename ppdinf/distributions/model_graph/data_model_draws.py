"""Draws of cells from the data model alone, for cells on which nothing published depends.

Given the parameters such a cell is independent of all others. Its posterior is its data model, without truncation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import RandomType, TensorVariable, Variable, compile_pymc, graph_inputs, reseed_rngs
from ppdinf._internal.types import Array
from ppdinf.distributions.model_graph.prior_draws import subset_distribution
from ppdinf.errors import ModelError

SEEDS = 2**63


def uninformed_cells(table: TensorVariable) -> TensorVariable:
    """Return the distribution of the cells on which nothing published depends, a symbolic vector."""
    law = table.owner.op
    dist, cells = law.base(table.owner.inputs)[0], np.flatnonzero(law.fiber.uninformed)
    alone = subset_distribution(dist, law.start.shape, cells)
    return dist.ravel()[cells] if alone is None else alone


class DataModelDraws:
    """A compiled function that draws cells given the values of the inputs of their distribution."""

    def __init__(self, cells: TensorVariable, inputs: Sequence[Variable], **compile_kwargs: object) -> None:
        self._rngs = [x for x in graph_inputs([cells]) if isinstance(x.type, RandomType)]
        self._function = compile_pymc(list(inputs), cells, on_unused_input="ignore", **compile_kwargs)

    def __call__(self, values: Sequence[Array], rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the cells once."""
        reseed_rngs(self._rngs, int(rng.integers(SEEDS)))
        try:
            return np.asarray(self._function(*values), dtype=np.int64)
        except NotImplementedError as error:
            raise ModelError(
                "cells on which nothing published depends are drawn from their distribution, which has no draws: give "
                "pm.CustomDist a function random=, or make bounds on the cells public"
            ) from error
