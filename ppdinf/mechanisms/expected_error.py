"""How large the noise of a mechanism is, before anything is released: from its law and the labels, never from counts.

A cell in no public sum has the law of the noise itself, ``w(z)``. Under one public sum of n cells with independent
weights (l1 Laplace, Gaussian) a cell has the law ``w(z) W(-z)``, W the n - 1 fold convolution of w, by the fast Fourier
transform. Where public sums cross, and for other noise, the law is read off simulated draws around an empty table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppdinf.errors import PrivacyError
from ppdinf.invariants import System
from ppdinf.invariants.system import bind
from ppdinf.laws import IntegerLaw
from ppdinf.mechanisms.counting_queries import answer
from ppdinf.tables import labelled_cells

if TYPE_CHECKING:
    from ppdinf.mechanisms.table_mechanism import TableMechanism

__all__ = ["cell_law", "expected_error"]

PROBABILITY = 0.9
VALUES, FEWEST, MOST = 200_000, 200, 4000  # simulated noise values in all, and bounds on draws
RARE = 1e-15


def expected_error(mechanism: TableMechanism, table: Any, sizes: Sequence[int] = (10, 100, 1000)) -> pd.DataFrame:
    """Tabulate the error of released cells; see `Mechanism.expected_error`."""
    if not mechanism.is_translation_invariant:
        raise PrivacyError(
            f"how far releases of {type(mechanism).__name__} are off may depend on the counts, or on records: simulate "
            "them around a table that is public already, (mechanism.simulate(old, draws=1000, rng=1) - old).std('draw')"
        )
    shaped = isinstance(table, tuple) and all(isinstance(size, int) for size in table)
    frame, _ = labelled_cells(np.zeros(table, dtype=np.int64) if shaped else table)
    blank = frame.table(np.zeros(frame.size, dtype=np.int64))  # from here on: labels alone
    answers, zeros = labelled_cells(answer(mechanism.queries, blank), nonnegative=False)
    system = bind(mechanism.public, answers, zeros)
    settled = mechanism.on(system)
    law = getattr(settled, "law", None)
    kinds, sums = _kinds(system)
    drawn, rows = None, {}
    values: NDArray[Any]
    for kind in dict.fromkeys(kinds):
        cells = np.flatnonzero(kinds == kind)
        size = int(sums[cells[0]])
        if size == 0:
            values, mass = np.zeros(1), np.ones(1)
        elif size > 0 and isinstance(law, IntegerLaw):
            values, mass = cell_law(law, size)
        else:
            if drawn is None:
                draws = int(np.clip(VALUES // answers.size, FEWEST, MOST))
                drawn = mechanism.simulate(blank, draws=draws, rng=1).values.reshape(draws, -1)
            values = drawn[:, cells].ravel()
            mass = np.full(values.size, 1 / values.size)
        sd = float(np.sqrt(mass @ values.astype(float) ** 2))
        relative = {f"cv_{count}": sd / count for count in sizes}
        rows[kind] = {"cells": cells.size, "sd": sd, "half_width": _half_width(values, mass), **relative}
        rows[kind]["exact"] = size == 0 or (size > 0 and isinstance(law, IntegerLaw))
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("noise of cells")


def cell_law(law: IntegerLaw, cells: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Law of the noise of one cell among `cells` under one public sum; 1: a cell in no public sum.

    Parameters
    ----------
    law : IntegerLaw
        Whose cells are independent but for the sum.
    cells : int

    Returns
    -------
    values : array of int64
        Those that have a probability above 1e-15, about.
    mass : array of float64
        Their probabilities.

    Examples
    --------
    >>> from ppdinf.laws import DoubleGeometric
    >>> values, mass = cell_law(DoubleGeometric(1), 2)  # z and -z: weight exp(-2 |z|)
    >>> round(float(mass[values == 1][0] / mass[values == 0][0] * np.exp(2)), 9)
    1.0
    """
    reach = law.half_width(cells, RARE)
    values = np.arange(-reach, reach + 1)
    mass = np.exp(law.log_weight(values.astype(float)))
    if cells > 1:
        spread = np.sqrt(mass @ values**2.0 / mass.sum())
        # wide enough that sums of all cells do not meet themselves on the circle of the transform
        around = 1 << int(np.ceil(np.log2(4 * reach + 24 * spread * np.sqrt(cells) + 2)))
        circle = np.zeros(around)
        circle[values % around] = mass / mass.sum()
        others = np.fft.irfft(np.fft.rfft(circle) ** (cells - 1), around)
        mass = mass * np.maximum(others[(-values) % around], 0)
    return values, mass / mass.sum()


def _kinds(system: System) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """Say what holds the noise of each cell, and how many cells share its sum: 0 if fixed, -1 where sums cross."""
    structure = system.structure
    linked = np.bincount(structure.blocks)[structure.blocks]
    one_sum = structure.partition[structure.blocks]
    sums = np.where(one_sum, structure.class_sizes[structure.classes], np.where(linked == 1, 1, -1))
    sums = np.where(structure.fixed, 0, sums)
    said = {0: "fixed by public sums", 1: "in no public sum"}
    kinds = [
        said.get(n, f"in a public sum of {n} cells") if n >= 0 else f"in sums that cross, {k} cells"
        for n, k in zip(sums.tolist(), linked.tolist(), strict=True)
    ]
    return np.array(kinds, dtype=object), sums


def _half_width(values: NDArray[Any], mass: NDArray[np.float64]) -> float:
    """Smallest distance that noise stays within with probability 90 %."""
    distance = np.abs(values)
    order = np.argsort(distance, kind="stable")
    within = np.cumsum(mass[order])
    return float(distance[order][min(int(np.searchsorted(within, PROBABILITY - 1e-12)), within.size - 1)])
