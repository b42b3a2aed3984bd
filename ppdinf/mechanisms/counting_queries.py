"""Counting queries: weighted numbers of records, answered from the cells of a table."""

from __future__ import annotations

import numpy as np
import xarray as xr

from ppdinf.errors import CountError, InvariantError, PrivacyError
from ppdinf.tables.labels import LARGEST
from ppdinf.tables.table import TableLike, labelled_cells

__all__ = ["Query", "answer", "counting_query"]

LARGEST_WEIGHT = 10**6

type Query = tuple[tuple[int, ...], ...]


def counting_query(query: object) -> Query | None:
    """Read a query matrix, one row per answer and one column per cell; None stands for the cells themselves.

    Raises
    ------
    PrivacyError
        Anything but a matrix of whole numbers from 0 to a million: sensitivities are found in double precision.

    Examples
    --------
    >>> counting_query([[1, 1, 0], [0, 1, 1]])
    ((1, 1, 0), (0, 1, 1))
    """
    if query is None:
        return None
    try:
        matrix = np.asarray(query.toarray() if hasattr(query, "toarray") else query)
    except ValueError:
        matrix = np.zeros(0)
    if matrix.ndim != 2 or not matrix.size or matrix.dtype.kind not in "iu" or matrix.min() < 0:
        raise PrivacyError("a query is a matrix of whole numbers from 0 on, one row per answer, one column per cell")
    if matrix.max() > LARGEST_WEIGHT:
        raise PrivacyError("a weight of the query is beyond a million: state it in a larger unit")
    return tuple(tuple(row) for row in matrix.tolist())


def answer(query: Query | None, table: TableLike, *, nonnegative: bool = True) -> TableLike:
    """Answer a query on a table: a vector with the dimension ``answer``, or the table itself without a query.

    Raises
    ------
    CountError, LabelError
        The table cannot be taken as it is; an answer is beyond 2**53.
    InvariantError
        The query has another number of columns than the table has cells.

    Examples
    --------
    >>> answer(((1, 1, 0), (0, 1, 1)), [3, 4, 5]).values
    array([7, 9])
    """
    if query is None:
        return table
    frame, cells = labelled_cells(table, nonnegative=nonnegative)
    if len(query[0]) != frame.size:
        raise InvariantError(f"the query has {len(query[0])} columns, the table has {frame.size} cells")
    found = [sum(weight * cell for weight, cell in zip(row, cells.tolist(), strict=True)) for row in query]
    if max(map(abs, found)) > LARGEST:
        raise CountError("an answer is beyond 2**53: use smaller weights")
    return xr.DataArray(np.array(found, dtype=np.int64), dims="answer")
