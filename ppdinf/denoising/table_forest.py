"""Exact draws of a table given its prior, if any two noisy or exact sums are nested or disjoint."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ppdinf.denoising.count_windows import CountWindows
from ppdinf.denoising.learned_prior import LearnedPrior
from ppdinf.fiber.nested_sums.nested_sums import NestedSums

__all__ = ["TableForest"]

type Reals = NDArray[np.float64]


class TableForest:
    """Sampler of tables whose sums are nested or disjoint.

    Attributes
    ----------
    plan : str
        Description of the sampler.
    largest : int
        Largest count of any window.

    Parameters
    ----------
    sums : NestedSums
    windows : CountWindows
    """

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
        self._given: tuple[object, object] = (None, None)

    def __getstate__(self) -> dict[str, object]:
        """Omit attributes that can be recomputed."""
        return {name: value for name, value in self.__dict__.items() if name != "_evaluated"} | {"_given": (None, None)}

    def sweep(self, log_h: Reals, slope: Reals) -> None:
        """Draw a table given log weights ``log_h[x] + slope[i] x`` of the prior."""
        if self._given[0] is not log_h or self._given[1] is not slope:  # a flat prior does not change
            weights = (self._forest.log_noise + log_h[self._forest.counts]).ravel()
            self._given, self._evaluated = (log_h, slope), self._forest.sums.evaluate(weights, slope)
        self.table = self._evaluated.draw(1, self._rng)[0]

    def move_with(self, prior: LearnedPrior | None, log_h: Reals, slope: Reals, *, tune: bool) -> None:
        """Do nothing: the table is drawn anew whenever the prior has changed."""
