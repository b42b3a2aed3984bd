"""Measurements from text files of published numbers, ranges, percentages and suppression marks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import permutations, product
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppdinf.datasets.table_file import TextFile, show_cell
from ppdinf.errors import CountError, LabelError
from ppdinf.invariants import Public, margin, total
from ppdinf.measurements.measured import Measured, measured
from ppdinf.measurements.measurements import Measurements
from ppdinf.measurements.row_totals import RowTotals, label_totals
from ppdinf.rules.publishers import publisher
from ppdinf.rules.rule import EXACT, Rule
from ppdinf.tables.count_ranges import comparable, range_text
from ppdinf.tables.percentages import percentages

_PRINTED = re.compile(r"([<>≤≥]=?|[GL][ET])?\s*\d[\d,.\s]*(%|\+|\s*or \w+|\s*(-|–|to)\s*[\d.]+%?)?|-\d+")
_CODES = re.compile(r"code|fips|naics|\bage\b|year|month(?!\d_)|week|quarter|date|(?<![a-z])(geo_?)?id$|pk$", re.I)
_OTHER = re.compile(
    r"rate\b|ratio\b|percent|pct|%|margin|moe|error|coordinate|vector|population|\d_?m$|note|_nf$", re.I
)
_SEPARATED, _SEPARATORS = re.compile(r"[+-]?[0-9]{1,3}(?:[, \u00a0\u202f][0-9]{3})+"), re.compile(r"[, \u00a0\u202f]")


def read_published(
    path: str | Path,
    *,
    value: str | None = None,
    dims: Sequence[str] | None = None,
    coords: Sequence[str] = (),
    rule: Any = None,
    empty: str | None = None,
    of: str | None = None,
    wide: str | None = None,
    sums: Sequence[str | Path] = (),
    public: Sequence[str | Path] = (),
    not_totals: Sequence[str] = (),
    totals: str | None = None,
    explain: Callable[[str], object] | None = None,
) -> Measurements:
    r"""Read a published table, and further sums of the same counts, from text files.

    Texts of ranges such as ``"1-9"`` and ``"<5"`` are read as `ppdinf.laws.Interval` reads them, in every file.
    Encoding, delimiter, titles, notes, footers and separators of thousands are recognized. A column that contains only
    marks of the rule flags the values. Rows of totals, found by name or by value, are statements on sums of cells.

    Parameters
    ----------
    path : str or path
        One row per cell of the table, each combination of labels once.
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
        of the numbers in `path` and `sums`. None: they are exact.
    empty : {"suppressed", "missing", "zero"}, optional
        Meaning of empty values and absent rows, if the rule does not state it. Required if there are absent rows.
    of : str, optional
        Column of the denominators, if values are percentages.
    wide : str, optional
        Name of a dimension whose labels are the names of the columns of numbers.
    sums : sequence of str or path
        Files of sums that are published as the table is. Their columns of labels are dimensions or `coords`; a file
        without such columns has one row, the total. Other columns are ignored.
    public : sequence of str or path
        The same for sums whose numbers are exact in any case.
    not_totals : sequence of str
        Labels that are not totals.
    totals : {"exact", "published", "drop"}, optional
        Law of the numbers of totals, found by name or by value; required if the other numbers are not exact.
    explain : callable, optional
        It receives a description of what was understood before anything is computed, for example ``print``.

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
    notes: list[str] = []
    file = TextFile.read(Path(path), notes)
    file.require(*(name for name in (value, of, *(dims or ()), *coords) if name not in (None, wide)))
    if wide is not None:
        file, value = _long(file, wide, {*(dims or ()), *coords}), "value"
    numbers = [name for name in file.header if _is_number(file, name)]
    value = value or _value_column(file, [name for name in numbers if name not in {of, *(dims or ())}])
    if dims is None:
        marks = set(map(comparable, rule.marks))
        dims = _dimensions(file, [name for name in file.header if name not in {value, of, *coords, *numbers}], marks)
        unused = [name for name in file.header if name not in {value, of, *dims, *coords}]
        notes += [f"Columns that are not labels or values: {', '.join(unused)}."] if unused else []
    file = _texts(label_totals(file, dims), value, of, [*dims, *coords], rule)
    found = RowTotals.find(file, value, rule, dims, set(not_totals))
    if explain is not None:
        explain(found.describe(notes))
    if found.parts and totals is None and rule.law != EXACT:
        dim, name = next(iter(found.parts))
        raise LabelError(
            f"{file.name}: {name!r} of {dim!r} is a total of inexact numbers: state by --totals (totals=) whether "
            "totals are 'exact', 'published' by the same rule, or sums of printed numbers ('drop')"
        )
    file, labels = found.rows(are_totals=False), found.labels
    known = {name: _coordinate(file, name, dims) for name in coords}
    domain = labels | {name: list(dict.fromkeys(values.values())) for name, (_, values) in known.items()}
    files = [(file, list(dims), False)]
    for paths, always in ((sums, False), (public, True)):
        for other in (TextFile.read(Path(path), []) for path in paths):
            other.require(value)
            names = [name for name in other.header if name in domain]
            files.append((_texts(other, value, None, domain, rule), names, always))
    noisy: list[Measured] = []
    exact: dict[Public, object] = {}
    for one, names, always in files:
        stated = margin(*names) if names else total()
        values = _meanings(one, value, _values(one, names, value, domain, rule.empty), rule, always)
        if always or rule.law == EXACT:
            exact[stated] = values
        else:
            noisy.append(measured(stated, values, rule))
    if found.parts and totals != "drop":
        law = replace(rule, law=EXACT) if totals == "exact" else rule
        sums_of_rows, texts = found.sums(law)
        values = _meanings(found.rows(are_totals=True), value, texts, law, False)
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


def _long(file: TextFile, wide: str, labels: set[str]) -> TextFile:
    """Return one row per cell of a table whose columns of numbers are labels of a dimension."""
    columns = [name for name in file.header if name not in labels and _is_number(file, name)]
    kept = [name for name in file.header if name not in columns]
    rows = [(line, {name: row[name] for name in kept} | {wide: column, "value": row[column]})
            for line, row in file.rows for column in columns]  # fmt: skip
    return TextFile(file.name, [*kept, wide, "value"], rows)


def _is_number(file: TextFile, name: str) -> bool:
    """Return whether a column has numbers, ranges and marks, and the name and texts are not those of codes or years."""
    texts = {row[name].strip() for _, row in file.rows}
    numbers = {text for text in texts if any(c.isdigit() for c in text)}
    is_code = _CODES.search(name) or any(re.fullmatch(r"0\d+", text) for text in numbers)
    return bool(numbers) and not is_code and all(_PRINTED.fullmatch(text) for text in numbers)


def _value_column(file: TextFile, numbers: Sequence[str]) -> str:
    """Return the only column of numbers that can be counts."""
    counts = [name for name in numbers if not _OTHER.search(name)]
    if len(counts) != 1:
        or_wide = ", or for columns that are labels, such as months, --wide month (wide=)" * (len(counts) > 1)
        or_wide = or_wide or ", which counts the persons of each row (of one row a person, count the rows first)"
        shown = ", ".join(counts or file.header)
        raise LabelError(f"{file.name}: state the column of values, --value (value=){or_wide}: {shown}")
    return counts[0]


def _dimensions(file: TextFile, names: Sequence[str], marks: Collection[object]) -> list[str]:
    """Return columns of labels that are not constant, flags, notes, or other names of the labels of an earlier one."""
    frame, dims = pd.DataFrame([row for _, row in file.rows]), list[str]()
    for name in names:
        size = frame[name].nunique()
        twins = [dim for dim in dims if frame[dim].nunique() == size == len(frame[[dim, name]].drop_duplicates())]
        is_flag = all(comparable(text) in marks for text in {*frame[name]} - {""})
        if size > 1 and not (twins or is_flag or _OTHER.search(name)):
            dims.append(name)
    return dims


def _coordinate(file: TextFile, name: str, dims: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the dimension that determines a column, and its value for each label."""
    for dim in dims:
        if (values := file.determined(name, dim)) is not None:
            return dim, values
    raise LabelError(f"{file.name}: no column of {', '.join(dims)} determines {name!r}, so it is not a coordinate")


def _values(
    file: TextFile, names: list[str], value: str, domain: dict[str, list[str]], empty: str | None
) -> NDArray[np.object_]:
    """Return the texts of a file as an array with one axis per column of labels; absent rows are empty."""
    cells, known = file.cells(names, hint=_undeclared(file, value, domain)), {name: set(domain[name]) for name in names}
    for cell, (line, _) in cells.items():
        for name, label in zip(names, cell, strict=True):
            if label not in known[name]:
                raise LabelError(f"{file.name} line {line}: the table has no label {label!r} of {name!r}")
    order = list(product(*(domain[name] for name in names)))
    absent = [cell for cell in order if cell not in cells]
    if absent and empty != "zero" and (empty is None or _dependent(file, names)):
        raise LabelError(
            f"{file.name} has no row for {show_cell(names, absent[0])}: state what absent rows mean by --empty "
            "suppressed, --empty missing or --empty zero (empty=), or add the row"
            f"{_dependent(file, names) or _undeclared(file, value, domain)}"
        )
    texts = [cells[cell][1][value].strip() if cell in cells else "" for cell in order]
    return np.array(texts, dtype=object).reshape([len(domain[name]) for name in names])


def _undeclared(file: TextFile, value: str, declared: Collection[str]) -> str:
    """Return the end of a message: columns that were not declared, although they may distinguish the rows."""
    others = ", ".join(repr(name) for name in file.header if name != value and name not in declared)
    return f". Not declared as a dimension or coordinate: {others} (--coords, coords=)" if others else ""


def _dependent(file: TextFile, names: Sequence[str]) -> str:
    """Return the end of a message: a column of labels that another one determines is a coordinate."""
    for name, dim in permutations(names, 2):
        values = file.determined(name, dim)
        if values is not None and len(set(values.values())) < len(values):
            return f". If {name!r} depends on {dim!r}, it is not a dimension: declare it by --coords {name} (coords=)"
    return ""


def _texts(file: TextFile, value: str, of: str | None, labels: Collection[str], rule: Rule) -> TextFile:
    """Return a file with clean values: flags of other columns, ranges for percentages, no separators of thousands."""
    known = set(map(comparable, rule.marks))
    others = [name for name in file.header if name not in {value, of, *labels}]
    noise = [name for name in others if name.casefold().endswith("_nf")]  # noise flags of County Business Patterns
    marked = [name for name in others if known.issuperset({comparable(row[name]) for _, row in file.rows} - {""})]
    flags, rows = [name for name in marked if name not in noise], []
    for line, row in file.rows:
        text = next((row[name].strip() for name in flags if row[name].strip()), row[value].strip())
        if of is not None and text and comparable(text) not in known:
            try:
                text = percentages([text], [_SEPARATORS.sub("", row[of])])[0]
            except CountError as error:
                raise CountError(f"{file.name} line {line}, column {value!r}: {error}") from None
        for name in noise:
            text = _with_noise(text, row[name].strip())
        rows.append((line, row | {value: _SEPARATORS.sub("", text) if _SEPARATED.fullmatch(text) else text}))
    return TextFile(file.name, file.header, rows)


def _with_noise(text: str, flag: str) -> str:
    """Return the counts that noise below 2 % (flag G) or 5 % (H) changes to a number; flag J is more noise."""
    percent = {"G": 2, "H": 5}.get(flag)
    if percent is None or not text.isdigit():
        return ">=0" if flag == "J" else text
    return range_text(-(-100 * int(text) // (100 + percent)), 100 * int(text) // (100 - percent))


def _meanings(
    file: TextFile, value: str, values: NDArray[np.object_], rule: Rule, is_public: bool
) -> NDArray[np.object_]:
    """Return texts that a rule prints, as ranges if it is exact; an error names the first line of another text."""
    codes, texts = pd.factorize(values.ravel())
    for k, text in enumerate(texts):
        try:
            meaning = rule.public_sums(text) if is_public else rule.meaning(text)
        except CountError as error:
            lines = [line for line, row in file.rows if row[value] == text]
            place = f"line {lines[0]}, column {value!r}" if lines else "lacks rows"
            raise CountError(f"{file.name} {place}: {error}") from None
        if is_public or rule.law == EXACT:
            ends = meaning.intervals[0][0], meaning.intervals[-1][1]
            texts[k] = "" if ends == (0, inf) else range_text(*ends)
    return texts[codes].reshape(values.shape)
