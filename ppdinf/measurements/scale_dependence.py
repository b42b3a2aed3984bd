"""Scales of real noise that increase with the published numbers, as survey margins do."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy import stats

from ppdinf.laws.real_valued.real_noise import RealNoise
from ppdinf.measurements.entries import Entries

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
