"""Measured and exact sums that nest, as a forest of which the total weight is known exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.errors import InvariantError
from ppdinf.fiber.laminar import Forest, forest_of
from ppdinf.fiber.nested_sums import LogTable, NestedSums, OutOfReachError
from ppdinf.invariants import System
from ppdinf.invariants.names import Joined
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, RandomRounding, Thresholded, TransitionMatrix
from ppdinf.laws.likelihood import Differences
from ppdinf.laws.thresholded import ABSENT
from ppdinf.measurements.entries import Entries, Form

__all__ = ["forest_of_sums", "nested_sums"]

NEGLIGIBLE = -700.0
"""Log weight at which the table of a law without a formula for its tails ends."""


def forest_of_sums(system: System, of_sums: Entries) -> Forest | None:
    """Arrange exact sums, bounds of sums and noisy sums as a forest, in this order; None where two overlap."""
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    bounds = system.B[linked]
    sign = np.array([bounds.data[start] for start in bounds.indptr[:-1]], dtype=np.int64)
    bounds = sp.csr_array(sp.diags_array(np.sign(sign), dtype=np.int64) @ bounds) if linked.size else bounds
    return forest_of(sp.csr_array(sp.vstack([system.A, bounds, of_sums.matrix], format="csr")))


def nested_sums(forest: Forest, system: System, of_sums: Entries, lower: NDArray[np.int64], width: int) -> NestedSums:
    """Lay out the forest for cells with windows of the same width, one after the other.

    Raises
    ------
    InvariantError
        What is known of the sums contradicts itself.
    """
    m, k = forest.parent.size, system.A.shape[0]
    least, most = np.full(m, -(2**60)), np.full(m, 2**60)
    exact = forest.of_row[:k]
    np.maximum.at(least, exact, system.values)
    np.minimum.at(most, exact, system.values)
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    for row, node in zip(linked, forest.of_row[k : k + linked.size], strict=True):
        if system.B.data[system.B.indptr[row]] > 0:
            least[node] = max(least[node], system.limits[row])
        else:
            most[node] = min(most[node], -system.limits[row])
    of_row = forest.of_row[k + linked.size :]
    laws: list[LogTable] = []
    sums, shifts, numbers = [], [], []
    for form, rows in of_sums.forms:
        for table, own, shift in _tables(form, of_sums.y[rows]):
            sums.append(of_row[rows[own]])
            shifts.append(shift)
            numbers.append(np.full(shift.size, len(laws)))
            laws.append(table)
    none = np.zeros(0, dtype=np.int64)
    measured = tuple(np.concatenate(part).astype(np.int64) if part else none for part in (sums, shifts, numbers))
    d = lower.size
    try:
        return NestedSums(
            low=lower, width=np.full(d, width), node=forest.node, parent=forest.parent, least=least, most=most,
            measured=measured, laws=laws,  # type: ignore[arg-type]
        )  # fmt: skip
    except OutOfReachError as error:
        names = Joined([system.names, [system.bound_names[int(row)] for row in linked], of_sums.names])
        at_fault = [names[int(row)] for row in np.flatnonzero(forest.of_row == error.node)[:2]]
        raise InvariantError(
            f"what is known of {' and '.join(map(repr, at_fault))} contradicts what was published of its parts, or "
            "their bounds: noise does not reach so far. Correct a value, or the scale of a law"
        ) from error


def _tables(form: Form, y: NDArray[np.int64]) -> list[tuple[LogTable, NDArray[Any], NDArray[np.int64]]]:
    """Tables of log weights of sums, each with the entries that have it and where it begins for each of them."""
    every = np.arange(y.size)
    if isinstance(form, RandomRounding):
        z = np.arange(-form.base + 1, form.base)
        return [(LogTable(form.log_weight(0, z)), every, y - form.base + 1)]
    if isinstance(form, TransitionMatrix):
        counts = np.arange(form.probabilities.shape[0])
        return [
            (LogTable(form.log_weight(np.full(counts.size, value), counts)), own, np.zeros(own.size, dtype=np.int64))
            for value in np.unique(y)
            for own in [np.flatnonzero(y == value)]
        ]
    if isinstance(form, Thresholded):
        absent = np.flatnonzero(y == ABSENT)
        far = form.law.tail_start(NEGLIGIBLE)
        s = form.threshold + np.arange(-far, far + 1)
        censored = LogTable(form.log_weight(np.full(s.size, ABSENT), s), left=(0.0, 0.0))
        there = np.flatnonzero(y != ABSENT)
        found = [(censored, absent, np.full(absent.size, s[0]))] if absent.size else []
        return [*found, *((table, there[own], at) for table, own, at in _tables(Differences(form.law), y[there]))]
    law = form.law
    if isinstance(law, DiscreteGaussian):
        bend = 1 / float(law.variance)
        return [(LogTable(np.zeros(1), left=(0.0, bend), right=(0.0, bend)), every, y)]
    if isinstance(law, DoubleGeometric):
        rate = float(law.epsilon)
        return [(LogTable(np.zeros(1), left=(rate, 0.0), right=(rate, 0.0)), every, y)]
    far = law.tail_start(NEGLIGIBLE)
    z = np.arange(-far, far + 1)
    return [(LogTable(law.log_weight(z.astype(np.float64))), every, y - far)]
