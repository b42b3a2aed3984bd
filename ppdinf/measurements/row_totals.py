"""Rows of totals among the rows of a published table, and what was understood of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.datasets.table_file import TextFile, show_cell
from ppdinf.errors import CountError, InvariantError
from ppdinf.invariants import Public, linear
from ppdinf.rules.rule import Rule
from ppdinf.tables.count_ranges import comparable, range_text
from ppdinf.tables.frame import Frame
from ppdinf.tables.totals import named_totals, sums_of_labels

UNLIKELY, SHOWN = 1e-3, 10


def label_totals(file: TextFile, dims: Sequence[str]) -> TextFile:
    """Give rows with blank labels the label Total, if another column of the row has the name of a total."""
    others = [name for name in file.header if name not in dims]
    is_named = cache(lambda text: bool(named_totals(np.array([text], dtype=object))[0][0]))
    rows = []
    for line, row in file.rows:
        blank = [dim for dim in dims if not row[dim].strip()]
        is_total = bool(blank) and any(is_named(row[name].strip()) for name in others)
        rows.append((line, row | dict.fromkeys(blank, "Total") if is_total else row))
    return replace(file, rows=rows)


@dataclass(frozen=True)
class RowTotals:
    """Rows of a table, its labels without totals, and the parts of each label that is a total."""

    file: TextFile
    value: str
    rule: Rule
    labels: dict[str, list[str]]
    parts: dict[tuple[str, str], list[str]]

    @classmethod
    def find(cls, file: TextFile, value: str, rule: Rule, dims: Sequence[str], exempt: set[Any]) -> RowTotals:
        """Find totals by their names, then by their numbers until no number is the sum of others."""
        labels = file.labels(dims)
        parts: dict[tuple[str, str], list[str]] = {}
        for dim, names in labels.items():
            is_named = named_totals(np.array(names, dtype=object))[0] & (len(names) > 1)
            named = {name for name, is_total in zip(names, is_named, strict=True) if is_total} - exempt
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

    def rows(self, *, are_totals: bool) -> TextFile:
        """Return the rows of totals, or of cells."""
        totals = set(self.parts)
        rows = [row for row in self.file.rows if any((dim, row[1][dim]) in totals for dim in self.labels) == are_totals]
        return replace(self.file, rows=rows)

    def ends(self, text: str, tail: float = 0.0) -> tuple[float, float]:
        """Return the smallest and largest count of a text; of other texts, which are refused later, any count."""
        try:
            return self.rule.bounds(text, tail)
        except CountError:
            return 0.0, inf

    def bounds(self, tail: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the smallest and largest count of each cell that its text allows."""
        places = [{label: k for k, label in enumerate(names)} for names in self.labels.values()]
        low, high = np.zeros((2, *map(len, places)))
        high += inf
        ends = cache(lambda text: self.ends(text, tail))
        for _, row in self.rows(are_totals=False).rows:
            cell = tuple(place[row[dim]] for dim, place in zip(self.labels, places, strict=True))
            low[cell], high[cell] = ends(row[self.value])
        return low, high

    def sums(self, law: Rule) -> tuple[Public, NDArray[np.object_]]:
        """Return the sums of the rows of totals and their texts; texts that no sum of the cells has are refused."""
        known = {dim: {label: [k] for k, label in enumerate(names)} for dim, names in self.labels.items()}
        for (dim, name), parts in self.parts.items():
            known[dim][name] = [known[dim][part][0] for part in parts]
        (low, high), rows = self.bounds(), self.rows(are_totals=True).rows
        matrix = sp.lil_array((len(rows), low.size), dtype=np.int64)
        for k, (line, row) in enumerate(rows):
            chosen = np.ix_(*(places[row[dim]] for dim, places in known.items()))
            matrix[k, np.ravel_multi_index(chosen, low.shape).ravel()] = 1
            least, most = replace(self, rule=law).ends(row[self.value])
            if most < low[chosen].sum() or least > high[chosen].sum():
                raise InvariantError(
                    f"{self.file.name} line {line}: the total {row[self.value]!r} contradicts its cells, whose sum is "
                    f"{range_text(low[chosen].sum(), high[chosen].sum())}: correct one of them"
                )
        names = [show_cell(list(known), tuple(row[dim] for dim in known)) for _, row in rows]
        return linear(matrix.tocsr(), names), np.array([row[self.value] for _, row in rows], dtype=object)

    def describe(self, notes: Sequence[str]) -> str:
        """Return what was understood, in lines of text."""
        cells, marks = self.rows(are_totals=False).rows, set(map(comparable, self.rule.marks))
        number = Counter(row[self.value] for _, row in cells)
        shown = [text for text in number if text and (not text.isdigit() or comparable(text) in marks)]
        size = ", ".join(f"{dim} ({len(names)})" for dim, names in self.labels.items())
        absent = int(np.prod([len(names) for names in self.labels.values()])) - len(cells)
        return "\n".join(
            [
                f"{self.file.name}: {len(cells)} cells by {size}; published values: {self.value!r}.",
                f"Zeros: {number['0']}. Marks and ranges: {sum(number[text] for text in shown)}. "
                f"Empty values: {number['']}. Absent rows: {absent}.",
                *(f"  {text!r} ({number[text]}): {range_text(*self.ends(text))}." for text in shown[:SHOWN]),
                *(f"Total: {name!r} of {len(parts)} labels of {dim!r}. If it is not, state --not-total {name!r}."
                  for (dim, name), parts in list(self.parts.items())[:SHOWN]),
                *notes,
                f"Rule: {self.rule}",
            ]
        )  # fmt: skip
