"""Noisy sums of given tables, drawn again by the laws of what was published."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ppdinf.laws import IntegerLaw, RandomRounding, Thresholded, TransitionMatrix
from ppdinf.laws.thresholded import ABSENT
from ppdinf.measurements.entries import Entries, Form

__all__ = ["published_again"]

NEGLIGIBLE = -60.0  # log weight beyond which noise is not tabulated


def published_again(entries: Entries, sums: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw what would be published of other sums.

    Parameters
    ----------
    entries : Entries
        Laws of k published numbers.
    sums : array of int64, shape (n, k)
    rng : numpy.random.Generator

    Returns
    -------
    array of int64, shape (n, k)
        `ppdinf.laws.thresholded.ABSENT` for what stays below its threshold.
    """
    drawn = np.empty(sums.shape, dtype=np.int64)
    for form, rows in entries.forms:
        drawn[:, rows] = _of_form(form, sums[:, rows], rng)
    return drawn


def _of_form(form: Form, sums: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    if isinstance(form, RandomRounding):
        above = sums % form.base
        return sums - above + form.base * (rng.random(sums.shape) < above / form.base)
    if isinstance(form, TransitionMatrix):
        rows = np.cumsum(form.probabilities, axis=1)[sums]
        return (rng.random(sums.shape)[..., None] * rows[..., -1:] >= rows).sum(axis=-1)
    if isinstance(form, Thresholded):
        noisy = sums + _noise(form.law, sums.shape, rng)
        return np.where(noisy >= form.threshold, noisy, ABSENT)
    return sums + _noise(form.law, sums.shape, rng)


def _noise(law: IntegerLaw, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
    """Noise by inversion, in double precision: a model's own draws, no release."""
    far = law.tail_start(NEGLIGIBLE)
    below = np.cumsum(np.exp(law.log_weight(np.arange(-far, far + 1).astype(np.float64))))
    return np.minimum(np.searchsorted(below, rng.random(shape) * below[-1], side="right"), 2 * far) - far
