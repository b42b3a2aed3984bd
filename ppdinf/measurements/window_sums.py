"""Published sums along a dimension: cumulative sums, rolling sums, and changes of rolling sums."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ppdinf._internal.values import Integers
from ppdinf.errors import LabelError

_WINDOW = re.compile(r"(?:(.+)=)?([^:=]+):(?:all|([1-9]\d*)(:change)?)")


class Window(NamedTuple):
    """Sums over the last `length` labels of a dimension, over all labels until each, or changes of sums."""

    column: str | None
    dim: str
    length: int | None
    is_change: bool

    @classmethod
    def of(cls, text: str) -> Window:
        """Read ``date:7``, ``week:all``, or, for another column, ``change=date:7:change``."""
        found = _WINDOW.fullmatch(text)
        if found is None:
            raise LabelError(f"--over (over=) must be such as date:7, week:all or change=date:7:change, found {text!r}")
        return cls(found[1], found[2], int(found[3]) if found[3] else None, bool(found[4]))

    @property
    def earlier(self) -> int:
        """Number of labels before the first published label that the first sum contains."""
        return 0 if self.length is None else self.length * (1 + self.is_change) - 1

    def matrix(self, labels: int, before: int) -> Integers:
        """Return the sums, shape (labels, before + labels)."""
        ends = before + np.arange(labels)[:, None] - np.arange(before + labels)  # labels until the end of the window
        if self.length is None:
            return (ends >= 0).astype(np.int64)
        return (ends >= 0) - (1 + self.is_change) * (ends >= self.length) + self.is_change * (ends >= 2 * self.length)


def in_order_of_time(labels: Sequence[str], window: Window) -> list[str]:
    """Sort numbers and ISO dates, of which none is absent; other labels remain in the order of the file."""
    names = pd.Series(labels, dtype=object)
    times = pd.to_numeric(names, errors="coerce")
    if times.isna().any():
        times = pd.to_datetime(names, format="ISO8601", errors="coerce")
        if times.isna().any():
            return list(labels)
        is_monthly = times.dt.day.nunique() == 1
        times = times.dt.year * 12 + times.dt.month if is_monthly else times
    order = times.sort_values()
    ordered, steps = names[order.index].tolist(), np.diff(order.to_numpy())
    if window.length is not None and np.unique(steps).size > 1:
        raise LabelError(
            f"{window.dim!r} has a gap before {ordered[int(steps.argmax()) + 1]!r}: a window contains {window.length} "
            "labels, so that absent labels must be added"
        )
    return ordered


def printed_sums(
    labels: Mapping[str, Sequence[str]], own: Collection[str], windows: Sequence[Window], column: str | None = None
) -> sp.csr_array:
    """Return the sums of cells that a column of a file prints, None for its values, one per combination of `own`."""
    over = {window.dim: window for window in windows if window.column == column}
    factors = [sp.eye_array(1, dtype=np.int64)]
    for dim, names in labels.items():
        before = max((window.earlier for window in windows if window.dim == dim), default=0)
        if dim not in own:
            factors.append(sp.csr_array(np.ones((1, len(names)), dtype=np.int64)))
        elif dim in over:
            factors.append(sp.csr_array(over[dim].matrix(len(names), before)))
        else:
            factors.append(sp.eye_array(len(names), before + len(names), k=before, dtype=np.int64))
    return sp.csr_array(reduce(sp.kron, factors))
