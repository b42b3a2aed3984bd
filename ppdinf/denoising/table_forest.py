"""Exact draws of a table given its prior, if any two noisy or exact sums are nested or disjoint."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ppdinf.denoising.count_windows import CountWindows
from ppdinf.denoising.learned_prior import SWEEPS, FixedPrior, LearnedPrior
from ppdinf.fiber.nested_sums.nested_sums import Evaluated, NestedSums

type Reals = NDArray[np.float64]


class TableForest:
    """Sampler of tables whose sums are nested or disjoint."""

    plan = "drawn exactly given the prior: any two sums, noisy or exact, are nested or disjoint"

    def __init__(self, sums: NestedSums, windows: CountWindows) -> None:
        self.sums, self.counts, self.log_noise = sums, windows.counts, windows.log_noise
        self.largest = windows.largest
        likeliest = windows.log_noise.argmax(axis=1)
        self.start = windows.counts[np.arange(likeliest.size), likeliest]

    def chain(self, rng: np.random.Generator) -> Draws:
        """Start a chain of tables."""
        return Draws(self, rng)


class Draws:
    """Independent tables, each drawn given the current prior."""

    def __init__(self, forest: TableForest, rng: np.random.Generator) -> None:
        self._forest, self._rng, self.table = forest, rng, forest.start
        self._evaluated: Evaluated | None = None

    def advance(self, prior: LearnedPrior | FixedPrior, *, tune: bool) -> None:
        """Draw a table given its prior, then update a learned prior, four times; steps adapt only while tuning."""
        learned = isinstance(prior, LearnedPrior)
        for _ in range(SWEEPS if learned else 1):  # a fixed prior does not change: tables are independent
            if self._evaluated is None or learned:
                log_h, slope = prior.log_weights()
                weights = (self._forest.log_noise + log_h[self._forest.counts]).ravel()
                self._evaluated = self._forest.sums.evaluate(weights, slope)
            self.table = self._evaluated.draw(1, self._rng)[0]
            prior.update(self.table, self._rng, tune=tune)
