"""Published numbers, each of a sum of cells with its own noise distribution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import stats

from ppdinf._internal.values import Integers, Reals
from ppdinf.invariants.statement import Chosen
from ppdinf.laws.observation_model import ObservationModel
from ppdinf.laws.real_noise import RealNoise

TAIL_PROBABILITY = 1e-12
"""Probability that noise exceeds its support radius."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Published numbers, each of a sum of cells with its own noise distribution."""

    matrix: sp.csr_array
    names: Sequence[str]
    y: Integers | Reals
    forms: tuple[tuple[ObservationModel, Integers], ...]

    @property
    def are_independent(self) -> bool:
        """True if the noise of entries is independent, and False if several entries share a scale."""
        return all(form.is_independent for form, _ in self.forms)

    def of(self, form: ObservationModel, rows: Integers) -> NDArray[Any]:
        """Return the numbers of entries with a law, in the type of the law."""
        return self.y[rows].astype(form.dtype)

    @property
    def published(self) -> NDArray[np.object_]:
        """Published values: numbers, texts of ranges, and empty texts for unpublished numbers."""
        values = np.empty(self.y.size, dtype=object)
        for form, rows in self.forms:
            values[rows] = form.written(self.y[rows])
        return values

    def log_weights(self, sums: Integers) -> Reals:
        """Return the log weight of every entry given possible values of its sum, shape (k, ...)."""
        log_weights = np.empty(sums.shape)
        for form, rows in self.forms:
            y = self.of(form, rows).reshape(-1, *[1] * (sums.ndim - 1))
            log_weights[rows] = form.log_weight(y, sums[rows])
        return log_weights

    def support_bounds(self, tail_probability: float = TAIL_PROBABILITY) -> tuple[Reals, Reals]:
        """Return bounds on each sum given its entry; the sum exceeds each bound with at most `tail_probability`."""
        low, high = np.empty(self.y.size), np.empty(self.y.size)
        for form, rows in self.forms:
            low[rows], high[rows] = form.support_bounds(self.of(form, rows), tail_probability)
        return low, high

    def publish(self, sums: Integers, rng: np.random.Generator) -> NDArray[Any]:
        """Draw published numbers for given sums, shape (n, k), from the same laws."""
        drawn = np.empty(sums.shape, self.y.dtype)
        for form, rows in self.forms:
            drawn[:, rows] = form.publish(sums[:, rows], rng)
        return drawn

    def only(self, rows: Integers) -> Entries:
        """Return a subset of the entries, in the given order."""
        place = np.full(self.y.size, -1)
        place[rows] = np.arange(rows.size)
        forms = [(form, place[entries][place[entries] >= 0]) for form, entries in self.forms]
        names = Chosen(self.names, rows)
        return Entries(
            self.matrix[rows], names, self.y[rows], tuple((f, entries) for f, entries in forms if entries.size)
        )


RATE = 1 / 4000
"""False-alarm probability for each statement whose scales are independent of its published numbers."""


def scale_dependence(parts: Iterable[Entries]) -> str | None:
    """Return a sentence if the scales of a statement increase with its published numbers."""
    for part in parts:
        scale = np.full(part.y.size, np.nan)
        for form, rows in part.forms:
            law = getattr(form, "law", form)
            if isinstance(law, RealNoise):
                scale[rows] = law.log_weight(0.0, 1.0)  # increases with the scale
        used = np.flatnonzero(~np.isnan(scale))
        if not used.size:
            continue
        large, wide = (values[used] > np.median(values[used]) for values in (part.y, scale))
        if stats.hypergeom.sf((large & wide).sum() - 1, used.size, large.sum(), wide.sum()) < RATE:
            first = part.names[int(used[np.argmax(large & wide)])]
            return (
                f"larger published numbers have larger scales, for example {first!r}: margins of error of survey "
                "estimates depend on the sampled number, and sums are then biased towards 0; state survey estimates by "
                "ppd.laws.Sampled, and Gaussian or Laplace noise only if its scale was chosen without the counts"
            )
    return None
