"""The law of an answer given the records, exp(-rate |grad L(y)|_K / sigma(y)): its density, and a Markov chain.

Chains are used where no exact sampler is known. They start at the smallest gradient and move along directions that are
scaled by the derivative of the gradient there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from ppdinf.mechanisms.records.objectives import Objective
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.noise.real.k_norm_draws import K_NORMS
from ppdinf.noise.real.slice_lines import slice_lines

type Points = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GradientLaw:
    """Answers near the minimizer of an objective on records, within its ball."""

    objective: Objective
    records: Any
    norm: str
    rate: float

    def log_density(self, y: Points) -> Points:
        """Return the log density of answers without the normalizer, shape (n, d)."""
        size = np.linalg.norm(self.objective.gradient(self.records, y), K_NORMS[self.norm], axis=1)
        inside = np.linalg.norm(y, axis=1) <= self.objective.ball()
        return np.where(inside, -self.rate * size / self.objective.sensitivity(y, self.norm), -np.inf)

    def by_chain(self, basis: Points, draws: int, stream: BitStream) -> Points:
        """Draw answers in the span of orthonormal columns, each by a separate chain, shape (draws, d)."""
        m, radius = basis.shape[1], self.objective.ball()
        optimum = least_squares(
            lambda b: self.objective.gradient(self.records, (basis @ b)[None])[0],
            np.zeros(m),
            method="trf",
            max_nfev=200,
        )
        start = optimum.x * min(1.0, 0.99 * radius / max(np.linalg.norm(optimum.x), 1e-300))
        unit = self.objective.sensitivity((basis @ start)[None], self.norm)[0] / self.rate
        if K_NORMS[self.norm] != 2:
            unit *= m ** (-0.5 if self.norm == "l1" else 0.5)
        _, slopes, axes = np.linalg.svd(optimum.jac)
        widths = unit / np.maximum(slopes, unit * math.sqrt(m) / (2 * radius))
        ends = slice_lines(
            lambda b: self.log_density(b @ basis.T),
            np.tile(start, (draws, 1)),
            axes.T * widths,
            steps=lines_in(m),
            stream=stream,
            radius=radius,
        )
        return ends @ basis.T


def lines_in(dimensions: int) -> int:
    """Return the number of lines of a chain; nothing certifies that it is large enough."""
    return 50 * (dimensions + 1)
