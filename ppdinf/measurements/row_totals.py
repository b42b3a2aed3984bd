"""Rows of totals among the rows of a published table, and what was understood of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, prod
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ppdinf._internal.values import Flags, Reals
from ppdinf.datasets.printed_file import PrintedFile, show_cell
from ppdinf.errors import CountError, InvariantError, LabelError
from ppdinf.rules.rule import Rule
from ppdinf.tables.count_ranges import comparable, range_text
from ppdinf.tables.frame import Frame
from ppdinf.tables.totals import named_totals, sums_of_labels

UNLIKELY, SHOWN = 1e-3, 10
LARGEST_TABLE = 2 * 10**7
"""Number of cells above which columns are likely to be wrong."""


@dataclass(frozen=True)
class RowTotals:
    """Rows of a table, its labels without totals, and the parts of each label that is a total."""

    file: PrintedFile
    value: str
    rule: Rule
    labels: dict[str, list[str]]
    parts: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    @classmethod
    def find(
        cls, file: PrintedFile, value: str, rule: Rule, dims: Sequence[str], exempt: set[Any], stated: Sequence[str]
    ) -> RowTotals:
        """Find stated totals, those with names of totals, and by their numbers until no number is the sum of others."""
        labels = file.labels(dims)
        if (size := prod(map(len, labels.values()))) > LARGEST_TABLE:
            shown = ", ".join(f"{dim!r} ({len(names)})" for dim, names in labels.items())
            raise LabelError(f"{file.name}: {shown} would have {size} cells: state fewer --dims (dims=)")
        parts: dict[tuple[str, str], list[str]] = {}
        for dim, names in labels.items():
            is_named = named_totals(np.array(names, dtype=object))[0] & (len(names) > 1)
            named = {name for name, is_total in zip(names, is_named, strict=True) if is_total} - exempt
            named |= set(names) & set(stated)
            labels[dim] = [name for name in names if name not in named]
            parts |= {(dim, name): labels[dim] for name in named}
        while True:
            found = cls(file, value, rule, labels, parts)
            bounds = found.bounds(UNLIKELY)
            coords: dict[str, Any] = {dim: ((dim,), np.array(names, dtype=object)) for dim, names in labels.items()}
            frame = Frame(tuple(labels), bounds[0].shape, coords)
            agreeing = next(sums_of_labels(frame, [(tuple(labels), *bounds)], exempt), None)
            if agreeing is None:
                return found
            dim, name, _, others = agreeing
            labels = {**labels, dim: [label for label in labels[dim] if label != name]}
            parts = {key: [part for part in each if key[0] != dim or part != name] for key, each in parts.items()}
            parts[dim, str(name)] = [str(label) for label in others]

    @cached_property
    def is_cell(self) -> Flags:
        """Whether each row is a cell and not a total."""
        is_cell = np.ones(len(self.file.table), bool)
        for dim, names in self.labels.items():
            is_cell &= self.file.codes(dim, names) >= 0
        return is_cell

    def rows(self, *, are_totals: bool) -> PrintedFile:
        """Return the rows of totals, or of cells."""
        return self.file.only(self.is_cell != are_totals)

    def ends(self, text: str, tail: float = 0.0) -> tuple[float, float]:
        """Return the smallest and largest count of a text; of other texts, which are refused later, any count."""
        try:
            return self.rule.bounds(text, tail)
        except CountError:
            return 0.0, inf

    def ends_of_rows(self, file: PrintedFile, tail: float = 0.0) -> Reals:
        """Return the smallest and largest count of each row, shape (2, rows)."""
        return file.parsed(self.value, lambda text: self.ends(text, tail)).reshape(-1, 2).T

    def bounds(self, tail: float = 0.0) -> tuple[Reals, Reals]:
        """Return the smallest and largest count of each cell that its text allows."""
        shape, cells = tuple(map(len, self.labels.values())), self.rows(are_totals=False)
        low = np.zeros(prod(shape))
        high = np.full(prod(shape), inf)
        place = cells.cells(self.labels)
        low[place], high[place] = self.ends_of_rows(cells, tail)
        return low.reshape(shape), high.reshape(shape)

    def sums(self, law: Rule) -> tuple[sp.csr_array, list[str], PrintedFile]:
        """Return the sums of rows of totals, their names, and the rows; texts that no sum has are refused."""
        rows = self.rows(are_totals=True)
        columns = []
        for dim, names in self.labels.items():
            place, texts = pd.Index(names, dtype=object).get_indexer, rows.texts(dim).tolist()
            parts = [place(pd.Index(self.parts.get((dim, text), [text]))) for text in texts]
            columns.append([parts[code] for code in rows.codes(dim, texts)])
        shape = tuple(map(len, self.labels.values()))
        cells = [np.ravel_multi_index(np.ix_(*each), shape).ravel() for each in zip(*columns, strict=True)]
        indptr = np.cumsum([0, *map(len, cells)])
        matrix = sp.csr_array((np.ones(indptr[-1], np.int64), np.concatenate(cells), indptr), (len(cells), prod(shape)))
        low, high = (matrix @ end.ravel() for end in self.bounds())
        least, most = replace(self, rule=law).ends_of_rows(rows)
        for k in np.flatnonzero((most < low) | (least > high))[:1]:
            raise InvariantError(
                f"{self.file.name} line {rows.table.index[k]}: the total {rows.table[self.value].iloc[k]!r} "
                f"contradicts its cells, whose sum is {range_text(low[k], high[k])}: correct one of them"
            )
        dims = list(self.labels)
        return matrix, [show_cell(dims, cell) for cell in rows.table[dims].itertuples(index=False, name=None)], rows

    def __str__(self) -> str:
        """Return what was understood, in lines of text."""
        cells, marks = self.rows(are_totals=False), set(map(comparable, self.rule.marks))
        number: dict[str, int] = cells.table[self.value].value_counts(sort=False).to_dict()
        shown = {t: n for t, n in number.items() if n and t and (not t.isdigit() or comparable(t) in marks)}
        size = ", ".join(f"{dim} ({len(names)})" for dim, names in self.labels.items())
        absent = prod(map(len, self.labels.values())) - len(cells.table)
        return "\n".join(
            [
                f"{self.file.name}: {len(cells.table)} cells by {size}; published values: {self.value!r}.",
                f"Zeros: {number.get('0', 0)}. Marks and ranges: {sum(shown.values())}. "
                f"Empty values: {number.get('', 0)}. Absent rows: {absent}.",
                *(f"  {text!r} ({n}): {range_text(*self.ends(text))}." for text, n in list(shown.items())[:SHOWN]),
                *(f"Total: {name!r} of {len(parts)} labels of {dim!r}. If it is not, state --not-total {name!r}."
                  for (dim, name), parts in list(self.parts.items())[:SHOWN]),
                *self.file.notes,
                f"Rule: {self.rule}",
            ]
        )  # fmt: skip
