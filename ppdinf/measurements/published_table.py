"""Measurements from published tables as they are: numbers, ranges, percentages and suppression marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf, prod
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppdinf.datasets.printed_file import PrintedFile, Source, show_cell
from ppdinf.errors import LabelError
from ppdinf.invariants import Public, margin, total
from ppdinf.measurements import column_roles as roles
from ppdinf.measurements.measured import Measured, measured
from ppdinf.measurements.measurements import Measurements
from ppdinf.measurements.row_totals import RowTotals
from ppdinf.rules.publishers import publisher
from ppdinf.rules.rule import EXACT, Rule
from ppdinf.tables.count_ranges import range_text


def read_published(
    source: Source,
    *,
    value: str | None = None,
    dims: Sequence[str] | None = None,
    coords: Sequence[str] = (),
    rule: Any = None,
    empty: str | None = None,
    of: str | None = None,
    wide: str | None = None,
    sums: Sequence[Source] = (),
    public: Sequence[Source] = (),
    not_totals: Sequence[str] = (),
    totals: str | None = None,
    count_rows: bool = False,
    sheet: str | None = None,
    explain: Callable[[RowTotals], object] | None = None,
) -> Measurements:
    r"""Read a published table, and further sums of the same counts, from text files, spreadsheets and frames.

    Texts of ranges such as ``"1-9"`` and ``"<5"`` are read as `ppdinf.laws.Interval` reads them, in every file.
    Encoding, delimiter, titles, rows of the header, notes and separators of thousands are recognized. A column that
    contains only marks of the rule flags the values. Rows of totals, found by name or by value, state sums of cells.

    Parameters
    ----------
    source : str, path or frame
        Text, a spreadsheet (xlsx, xls, ods; ``ppdinf[spreadsheets]``), or a frame of pandas, polars or alike: one row
        per cell, each combination of labels once. The columns of a pivot table with names are a dimension.
    value : str, optional
        Column of published values, in every file. By default, the only column of numbers whose name is not of rates,
        margins, populations or codes.
    dims : sequence of str, optional
        Columns of labels: the dimensions of the table. By default, columns that are not numbers, constant, flags, or
        other names of the same labels.
    coords : sequence of str
        Further columns that depend on one dimension, such as the state of each county.
    rule : Rule, law or str, optional
        Rule of `ppdinf.rules`, its text such as ``"cdc-wonder"`` or ``"rounded(5) then suppressed(1, 7)"``, or a law
        of the numbers in `source` and `sums`. None: they are exact.
    empty : {"suppressed", "missing", "zero"}, optional
        Meaning of empty values and absent rows, if the rule does not state it. Required if there are absent rows.
    of : str, optional
        Column of the denominators, if values are percentages.
    wide : str, optional
        Name of a dimension whose labels are the names of the columns of numbers. If all names are periods such as
        months, it is ``"period"``.
    sums : sequence of str, path or frame
        Files of sums that are published as the table is. Their columns of labels are dimensions or `coords`; a file
        without such columns has one row, the total. Other columns are ignored.
    public : sequence of str, path or frame
        The same for sums whose numbers are exact in any case.
    not_totals : sequence of str
        Labels that are not totals.
    totals : {"exact", "published", "drop"}, optional
        Law of the numbers of totals, found by name or by value; required if the other numbers are not exact.
    count_rows : bool, default False
        Whether each row is one person (a line list): rows with equal labels are counted.
    sheet : str, optional
        Sheet of a spreadsheet with several sheets.
    explain : callable, optional
        It receives what was understood before anything is computed, for example ``print``.

    Raises
    ------
    LabelError
        A column is missing, or a label is blank, repeated, missing without `empty`, or not in the table.
    CountError
        No count is printed as a text under the rule; the message names file, line and column.
    InvariantError
        Statements contradict each other.

    See Also
    --------
    ppdinf.rules.publisher, ppdinf.denoise, ppdinf.identified_bounds

    Examples
    --------
    >>> import pathlib, tempfile, ppdinf as ppd
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "deaths.csv").write_text("county,sex,n\nA,f,1-9\nA,m,31\nB,f,S\nB,m,0\n")
    >>> _ = (folder / "counties.csv").write_text("county,n\nA,36\nB,4\n")
    >>> rule = dict(value="n", dims=["county", "sex"], rule="suppressed(1, 9)", public=[folder / "counties.csv"])
    >>> ppd.identified_bounds(ppd.read_published(folder / "deaths.csv", **rule)).upper.tolist()
    [5, 31, 4, 0]
    """
    rule = publisher(rule) if isinstance(rule, str) else rule if isinstance(rule, Rule) else Rule(rule or EXACT)
    rule = rule if empty is None else replace(rule, empty=empty)
    file = PrintedFile.read(source, sheet)
    file.require(*(name for name in (value, of, *(dims or ()), *coords) if name not in (None, wide)))
    if count_rows:
        file, value = roles.counted_rows(file, dims, coords), roles.PERSONS
        rule = replace(rule, empty=rule.empty or "zero")
    labelled = {*(dims or ()), *coords}
    numbers = [name for name in file.header if roles.is_number(file, name) and name not in {of, *labelled}]
    if wide is None and value is None and roles.header_labels(file, numbers):
        wide = roles.PERIOD
        file.notes.append(f"Labels of {wide!r} in the header: {numbers[0]} to {numbers[-1]}.")
    if wide is not None:
        file, value, numbers = roles.long_form(file, wide, labelled), roles.VALUE, []
    value = value or roles.value_column(file, numbers)
    if dims is None:
        dims = roles.dimensions(
            file, [name for name in file.header if name not in {value, of, *coords, *numbers}], rule
        )
        for name, dim in roles.dependent(file, dims):
            file.notes.append(
                f"The labels of {name!r} depend on {dim!r}: it is a coordinate, --coords {name} (coords=)."
            )
            coords, dims = [*coords, *({name} - {*coords})], [other for other in dims if other != name]
        unused = [name for name in file.header if name not in {value, of, *dims, *coords}]
        if unused:
            file.notes.append(f"Columns that are not labels or values: {', '.join(unused)}.")
    file = roles.value_texts(roles.label_totals(file, dims), value, of, [*dims, *coords], rule)
    found = RowTotals.find(file, value, rule, dims, set(not_totals))
    if explain is not None:
        explain(found)
    if found.parts and totals is None and rule.law != EXACT:
        dim, name = next(iter(found.parts))
        raise LabelError(
            f"{file.name}: {name!r} of {dim!r} is a total of inexact numbers: state by --totals (totals=) whether "
            "totals are 'exact', 'published' by the same rule, or sums of printed numbers ('drop')"
        )
    file = found.rows(are_totals=False)
    labels = found.labels
    known = {name: _coordinate(file, name, dims) for name in coords}
    domain = labels | {name: list(dict.fromkeys(values.values())) for name, (_, values) in known.items()}
    files = [(file, labels, False)]
    for sources, always in ((sums, False), (public, True)):
        for other in map(PrintedFile.read, sources):
            other.require(value)
            known_labels = {name: domain[name] for name in other.header if name in domain}
            files.append((roles.value_texts(other, value, None, domain, rule), known_labels, always))
    noisy: list[Measured] = []
    exact: dict[Public, object] = {}
    for one, known_labels, always in files:
        stated = margin(*known_labels) if known_labels else total()
        values = _values(one, value, known_labels, domain, rule, always)
        if always or rule.law == EXACT:
            exact[stated] = values
        else:
            noisy.append(measured(stated, values, rule))
    if found.parts and totals != "drop":
        law = replace(rule, law=EXACT) if totals == "exact" else rule
        sums_of_rows, rows = found.sums(law)
        values = rows.parsed(value, lambda text: _clean(text, law, False))
        if law.law == EXACT:
            exact[sums_of_rows] = values
        else:
            noisy.append(measured(sums_of_rows, values, law))
    return Measurements(
        labels,
        *noisy,
        coords={name: (dim, [values[label] for label in labels[dim]]) for name, (dim, values) in known.items()},
        public=exact,
        not_totals=[label for names in labels.values() for label in names if label in not_totals],
    )


def _coordinate(file: PrintedFile, name: str, dims: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the dimension that determines a column, and its value for each label."""
    for dim in dims:
        if (values := file.determined(name, dim)) is not None:
            return dim, values
    raise LabelError(f"{file.name}: no column of {', '.join(dims)} determines {name!r}, so it is not a coordinate")


def _values(
    file: PrintedFile,
    value: str,
    labels: Mapping[str, Sequence[str]],
    declared: Mapping[str, object],
    rule: Rule,
    is_public: bool,
) -> NDArray[Any]:
    """Return what a file states of each cell, shape of the labels; absent rows are empty."""
    others = ", ".join(repr(name) for name in file.header if name != value and name not in declared)
    hint = f". Not declared as a dimension or coordinate: {others} (--coords, coords=)" if others else ""
    shape = tuple(map(len, labels.values()))
    row = np.full(prod(shape), -1)
    place = file.places(labels, hint)
    row[place] = np.arange(place.size)
    for absent in np.flatnonzero(row < 0)[:1]:
        depends = [f". If {name!r} depends on {dim!r}, it is not a dimension: declare it by --coords {name} (coords=)"
                   for name, dim in roles.dependent(file, list(labels))[:1]]  # fmt: skip
        if rule.empty is None or (depends and rule.empty != "zero"):
            cell = [names[k] for names, k in zip(labels.values(), np.unravel_index(absent, shape), strict=True)]
            raise LabelError(
                f"{file.name} has no row for {show_cell(list(labels), cell)}: state what absent rows mean by --empty "
                f"suppressed, --empty missing or --empty zero (empty=), or add the row{''.join(depends) or hint}"
            )
    clean = file.parsed(value, lambda text: _clean(text, rule, is_public))
    if (row < 0).any():
        clean = np.append(clean, _clean("", rule, is_public))
    return clean[row].reshape(shape)


def clean_cells(found: RowTotals) -> pd.DataFrame:
    """Return one row per cell with its labels and its value, in which marks and empty values are ranges."""
    values = _values(found.rows(are_totals=False), found.value, found.labels, found.labels, found.rule, False)
    index = pd.MultiIndex.from_product(list(found.labels.values()), names=list(found.labels))
    return pd.Series(values.ravel(), index, name=found.value).replace("", ">=0").reset_index()


def _clean(text: str, rule: Rule, is_public: bool) -> str:
    """Return a text that a rule prints, as a range if it is exact."""
    meaning = rule.public_sums(text) if is_public else rule.meaning(text)
    if not is_public and rule.law != EXACT:
        return text
    intervals = meaning.intervals
    ends = intervals[0][0], intervals[-1][1]
    return "" if ends == (0, inf) else range_text(*ends)
