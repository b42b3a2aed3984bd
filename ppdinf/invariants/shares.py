"""Printed percentages of sums of the table: the denominators are unknown, and the limits are inequalities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ppdinf.errors import LabelError
from ppdinf.invariants.matrices import LinearBound
from ppdinf.invariants.public import Public
from ppdinf.tables.count_ranges import missing_values
from ppdinf.tables.percentages import Share


def shares(values: pd.Series[Any], within: str | Sequence[str] = (), *, per: int = 100) -> Public:
    """State printed percentages of cells in sums that are not published.

    A percentage r of d decimals states that ``(r - h) n <= 100 x <= (r + h) n`` with ``h = 10**-d / 2``, for the count
    x of the cell and the sum n, and that n is at least 1. Any rule of ties is allowed.

    Parameters
    ----------
    values : pandas.Series
        Texts as for `ppdinf.percentages`, with all labels of all dimensions in the order of the table. Missing values
        state nothing.
    within : str or sequence of str
        Dimensions whose labels distinguish the denominators: percentages of the pupils of each school are within
        ``"school"``. By default, the denominator is the total.
    per : int, default 100

    Raises
    ------
    CountError
        A value is not a percentage.
    LabelError
        `within` is not a level of the index of `values`.

    See Also
    --------
    ppdinf.percentages : Percentages of known numbers of persons, which are ranges of counts.
    ppdinf.invariants.inequality

    Examples
    --------
    >>> import pandas as pd, ppdinf as ppd
    >>> printed = pd.Series(["25.0", "75.0"], index=pd.Index(["yes", "no"], name="answer"))
    >>> seen = ppd.Measurements({"answer": ["yes", "no"]}, bounds=ppd.invariants.shares(printed))
    >>> ppd.identified_bounds(seen).lower.tolist()
    [1, 3]
    """
    dims = [within] if isinstance(within, str) else list(within)
    for name in dims:
        if name not in values.index.names:
            raise LabelError(f"percentages within {name!r} need a level {name!r} of the index of values")
    group = values.groupby(dims, sort=False).ngroup().to_numpy() if dims else np.zeros(values.size, np.int64)
    printed = ~missing_values(values.to_numpy(object))
    rows: list[tuple[str, dict[int, int], int]] = []  # name, weights of cells, limit
    for number in dict.fromkeys(group[printed].tolist()):
        members = np.flatnonzero(group == number).tolist()
        rows.append((f"persons of the percentage at {values.index[members[0]]}", dict.fromkeys(members, 1), 1))
        for k in np.flatnonzero(printed & (group == number)).tolist():
            share = Share.of(str(values.iloc[k]))
            for limit, sign, words in ((share.low, 1, "at least"), (share.high, -1, "at most")):
                if limit is not None:  # sign * (per * x - limit * n) >= 0, with integer weights
                    weights = dict.fromkeys(members, -sign * limit.numerator)
                    weights[k] += sign * per * limit.denominator
                    name = f"share at {values.index[k]} {words} {float(limit):g}"
                    rows.append((name, weights, int(share.is_strict)))
    B = sp.lil_array((len(rows), values.size), dtype=np.int64)
    for place, (_, weights, _) in enumerate(rows):
        B[place, list(weights)] = list(weights.values())
    entries = B.tocoo()
    row, column, weight = (tuple(part.tolist()) for part in (entries.row, entries.col, entries.data))
    cells = tuple(values.index.get_level_values(0) if values.index.nlevels == 1 else values.index)
    names, limits = tuple(name for name, *_ in rows), tuple(limit for *_, limit in rows)
    return Public((LinearBound(names, row, column, weight, values.size, cells, limits),))
