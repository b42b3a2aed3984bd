"""Counting queries: weighted numbers of records, computed from the cells of a table."""

from __future__ import annotations

import numpy as np
import xarray as xr

from ppdinf._internal.arrays import numbers
from ppdinf.errors import CountError, InvariantError, PrivacyError
from ppdinf.tables.labels import LARGEST
from ppdinf.tables.table import TableLike, labelled_cells

LARGEST_WEIGHT = 10**6

type Query = tuple[tuple[int, ...], ...]


def counting_query(query: object) -> Query | None:
    """Validate a query matrix, one row per answer and one column per cell; None means the cells themselves."""
    if query is None:
        return None
    matrix = numbers(query.toarray() if hasattr(query, "toarray") else query, "a query", integer=True)
    if matrix.ndim != 2 or not matrix.size or matrix.min() < 0:
        raise PrivacyError("a query must be a matrix of non-negative integers: one row per answer, one column per cell")
    if matrix.max() > LARGEST_WEIGHT:
        raise PrivacyError("a weight of the query exceeds 1,000,000: state it in a larger unit")
    return tuple(tuple(row) for row in matrix.tolist())


def answer(query: Query | None, table: TableLike, *, nonnegative: bool = True) -> TableLike:
    """Compute the answers to a query: a vector with the dimension ``answer``, or the table itself without a query."""
    if query is None:
        return table
    frame, cells = labelled_cells(table, nonnegative=nonnegative)
    if len(query[0]) != frame.size:
        raise InvariantError(f"the query has {len(query[0])} columns, the table has {frame.size} cells")
    answers = [sum(weight * cell for weight, cell in zip(row, cells.tolist(), strict=True)) for row in query]
    if max(map(abs, answers)) > LARGEST:
        raise CountError("an answer exceeds 2**53: use smaller weights")
    numbers = np.array(answers, dtype=np.int64)
    return xr.DataArray(numbers, dims="answer", attrs={"not_totals": range(len(answers))})  # answers may be sums
