"""Sparse integer elimination with unit pivots.

With pivots +1 or -1 all quantities are integers and all steps are unimodular. The matrix is transformed to an identity
on its pivot rows and columns; the rest (`remainder`) has no unit entry. The pivot is in the shortest row with a unit
entry, at the unit entry whose column is shortest: Markowitz's rule (1957) with the row chosen first. Entries are Python
integers and cannot overflow.
"""

import heapq
import itertools
from dataclasses import dataclass

from scipy import sparse

SparseRow = dict[int, int]
"""Nonzero entries of an integer row (or of a combination of rows) by index."""


@dataclass(frozen=True, eq=False)
class UnitElimination:
    """Result of `eliminate_units`."""

    rows: list[int]
    columns: list[int]
    upper: list[SparseRow]
    lower: list[SparseRow]
    remainder: dict[int, SparseRow]


def sparse_rows(A: sparse.sparray) -> list[SparseRow]:
    """Return the rows of a sparse integer matrix as dictionaries of Python integers."""
    csr = sparse.csr_array(A)
    columns, values, ends = csr.indices.tolist(), csr.data.tolist(), csr.indptr.tolist()
    return [dict(zip(columns[start:end], values[start:end], strict=True)) for start, end in itertools.pairwise(ends)]


def eliminate_units(rows: list[SparseRow]) -> UnitElimination:
    """Eliminate with unit pivots until no unit entry remains."""
    active = [dict(row) for row in rows]
    holders: dict[int, set[int]] = {}  # active rows with an entry in the column
    for i, row in enumerate(active):
        for j in row:
            holders.setdefault(j, set()).add(i)
    queue = [(len(row), i) for i, row in enumerate(active) if row]
    heapq.heapify(queue)
    done = UnitElimination([], [], [], [{} for _ in rows], {})
    pivoted = [False] * len(rows)
    while queue:
        length, i = heapq.heappop(queue)
        row = active[i]
        if pivoted[i] or length != len(row):
            continue  # an outdated entry of the queue
        units = [(len(holders[j]), j) for j, value in row.items() if value in (1, -1)]
        if not units:
            continue  # the row is queued again if it changes
        _, column = min(units)
        stage, sign = len(done.rows), row[column]
        done.rows.append(i)
        done.columns.append(column)
        done.upper.append(row)
        pivoted[i] = True
        for j in row:
            holders[j].discard(i)
        for other in sorted(holders[column]):
            target = active[other]
            factor = target[column] * sign
            done.lower[other][stage] = factor
            for j, value in row.items():
                entry = target.get(j, 0) - factor * value
                if entry:
                    if j not in target:
                        holders[j].add(other)
                    target[j] = entry
                else:
                    del target[j]
                    holders[j].discard(other)
            if target:
                heapq.heappush(queue, (len(target), other))
    done.remainder.update({i: row for i, row in enumerate(active) if row and not pivoted[i]})
    return done


def dense_integers(rows: list[SparseRow], columns: list[int]) -> list[list[int]]:
    """Return dense rows over the given columns."""
    return [[row.get(j, 0) for j in columns] for row in rows]
