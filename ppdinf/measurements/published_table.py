"""Measurements from published tables as they are: numbers, ranges, percentages and suppression marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.datasets.printed_file import PrintedFile, Source, show_cell
from ppdinf.errors import LabelError
from ppdinf.invariants import Public, linear, margin, shares, total
from ppdinf.measurements import column_roles as roles
from ppdinf.measurements.measured import measured
from ppdinf.measurements.measurements import Measurements
from ppdinf.measurements.row_totals import RowTotals
from ppdinf.measurements.window_sums import Window, in_order_of_time, printed_sums
from ppdinf.rules.publishers import publisher
from ppdinf.rules.rule import EXACT, Rule
from ppdinf.tables.count_ranges import comparable, count_range, range_text
from ppdinf.tables.percentages import Share

type Labels = Mapping[str, Sequence[str]]
type Stated = tuple[Public, NDArray[Any] | None, Rule]
"""A statement, its numbers, and their law."""


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
    over: str | Sequence[str] = (),
    not_totals: Sequence[str] = (),
    total_labels: Sequence[str] = (),
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
        other names of the same labels. A dimension of linked tables can be in files of `sums` and `public` only.
    coords : sequence of str
        Further columns that depend on one dimension, such as the state of each county.
    rule : Rule, law or str, optional
        Rule of `ppdinf.rules`, its text such as ``"cdc-wonder"`` or ``"rounded(5) then suppressed(1, 7)"``, or a law
        of the numbers in `source` and `sums`. None: they are exact.
    empty : {"suppressed", "missing", "zero"}, optional
        Meaning of empty values and absent rows, if the rule does not state it. Required if there are absent rows.
    of : str, optional
        Column of the denominators, numbers or ranges, if values are percentages. Columns of labels, ``"school,year"``,
        or ``"total"`` state that the denominators are unknown sums of the table.
    wide : str, optional
        Name of a dimension whose labels are the names of the columns of numbers. If all names are periods such as
        months, it is ``"period"``.
    sums : sequence of str, path or frame
        Files of sums that are published as the table is. Their columns of labels are dimensions or `coords`; a file
        without such columns has one row, the total. Other columns are ignored.
    public : sequence of str, path or frame
        The same for sums whose numbers are exact in any case.
    over : str or sequence of str
        Values are sums along a dimension: from its start (``"week:all"``), of 7 labels (``"date:7"``), or their change
        from the 7 labels before (``"date:7:change"``). ``"column=date:7:change"`` states a further, exact column.
        Numbers and ISO dates are sorted. The table begins with the labels of the first sum.
    not_totals : sequence of str
        Labels that are not totals.
    total_labels : sequence of str
        Labels that are totals of all others of their dimension, although neither name nor numbers show this.
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
    further = [PrintedFile.read(each) for each in (*sums, *public)]
    elsewhere = {name for other in further for name in other.header} - {*file.header}  # dimensions of linked tables
    windows = [Window.of(text) for text in ([over] if isinstance(over, str) else over)]
    columns = [window.column for window in windows if window.column is not None]
    within = None if of is None else roles.unknown_denominators(file, of, dims or ())
    of = of if within is None else None
    wanted = {value, of, *(within or ()), *(dims or ()), *coords, *columns} - {None, wide, *elsewhere}
    file.require(*(name for name in wanted if name is not None))
    if count_rows:
        file, value = roles.counted_rows(file, dims, coords), roles.PERSONS
        rule = replace(rule, empty=rule.empty or "zero")
    file, value, dims, coords = roles.recognized(file, value, dims, coords, {of, *columns}, wide, rule)
    own = [dim for dim in dims if dim not in elsewhere]
    for name in (*(window.dim for window in windows), *(within or ())):
        if name not in own:
            raise LabelError(f"{file.name}: {name!r} is not a dimension: state the columns of labels, --dims (dims=)")
    roles.refuse_other_periods(file, further)
    file = roles.value_texts(roles.label_totals(file, own), value, of, [*own, *coords, *columns], rule)
    # sums along a dimension are not sums of its labels, and percentages are often of groups that overlap
    ordered = own if of is not None or within is not None else {window.dim for window in windows}
    exempt = {*not_totals, *(label for dim in ordered for label in file.texts(dim).tolist())} - {*total_labels}
    if windows or within is not None:
        file.notes.append(f"Values are sums along {over}." if windows else f"Percentages of sums by {within or 'all'}.")
    found = RowTotals.find(file, value, rule, own, exempt, total_labels)
    for window in windows:
        names = in_order_of_time(found.labels[window.dim], window)
        found = replace(found, labels=found.labels | {window.dim: names})
    if explain is not None:
        explain(found)
    roles.refuse_other_meanings(file, value, rule)
    roles.refuse_overlaps(file, found.labels, exempt if windows else not_totals)
    if found.parts and totals is None and rule.law != EXACT:
        dim, name = next(iter(found.parts))
        raise LabelError(
            f"{file.name}: {name!r} of {dim!r} is a total of inexact numbers: state by --totals (totals=) whether "
            "totals are 'exact', 'published' by the same rule, or sums of printed numbers ('drop')"
        )
    file, known = found.rows(are_totals=False), found.labels
    linked = {dim: other.texts(dim).tolist() for other in further[::-1] for dim in {*other.header} & {*dims} - {*own}}
    labels = {dim: known[dim] if dim in known else linked[dim] for dim in dims}
    of_dims = {name: _coordinate(file, name, own) for name in coords}
    domain = labels | {name: list(dict.fromkeys(values.values())) for name, (_, values) in of_dims.items()}
    printed = partial(printed_sums, labels, own, windows)
    # the cells, or percentages, or sums along dimensions
    if within is not None:
        index = pd.MultiIndex.from_product(list(known.values()), names=own)
        shown = _stated(file, value, known, rule, _percentage)
        stated: list[Stated] = [(shares(pd.Series(shown, index), within), None, Rule())]
    elif windows:
        stated = list(_over_time(found, file, columns, domain, printed))
    else:
        stated = [(margin(*own) if own else total(), _values(file, value, known, domain, rule, False), rule)]
    for k, other in enumerate(further):
        other.require(value)
        some, is_public = {name: domain[name] for name in other.header if name in domain}, k >= len(sums)
        other = roles.value_texts(other, value, None, domain, rule)
        values = _values(other, value, some, domain, rule, is_public)
        stated.append((margin(*some) if some else total(), values, Rule() if is_public else rule))
    if found.parts and totals != "drop" and within is None:
        law = replace(rule, law=EXACT) if totals == "exact" else rule
        matrix, names, rows = found.sums(law)
        matrix = sp.csr_array(matrix @ printed()) if windows or linked else matrix
        stated.append((linear(matrix, names), rows.parsed(value, lambda text: _clean(text, law, False)), law))
    for window in windows:
        names = known[window.dim]
        before = [f"{k} before {names[0]}" for k in range(window.earlier, 0, -1)]
        labels[window.dim] = max(labels[window.dim], [*before, *names], key=len)
    return Measurements(
        labels,
        *(measured(statement, values, law) for statement, values, law in stated if law.law != EXACT),
        coords={name: (d, [values.get(label, "") for label in labels[d]]) for name, (d, values) in of_dims.items()},
        public={statement: values for statement, values, law in stated if law.law == EXACT},
        not_totals=[label for names in labels.values() for label in names if label in exempt],
    )


def _over_time(
    found: RowTotals, file: PrintedFile, columns: Sequence[str], domain: Labels, printed: Callable[..., sp.csr_array]
) -> Iterator[Stated]:
    """Yield the printed sums along dimensions, and those of further columns, which are exact."""
    rule, known = found.rule, found.labels
    cells = [show_cell(list(known), cell) for cell in product(*known.values())]
    yield linear(printed(), cells), _values(file, found.value, known, domain, rule, False).ravel(), rule
    for column in columns:
        values = _stated(file, column, known, rule, lambda text: range_text(*count_range(text)))
        yield linear(printed(column), [f"{column} of {cell}" for cell in cells]), values, Rule()


def _stated(file: PrintedFile, name: str, labels: Labels, rule: Rule, read: Callable[[str], str]) -> NDArray[Any]:
    """Return a function of the texts of a column, one for each cell; marks and absent rows state nothing."""
    nothing = {comparable(mark) for mark in (*rule.marks, "")}
    texts = np.full(prod(map(len, labels.values())), "", dtype=object)
    texts[file.places(labels)] = file.parsed(name, lambda text: "" if comparable(text) in nothing else read(text))
    return texts


def _percentage(text: str) -> str:
    Share.of(text)
    return text


def _coordinate(file: PrintedFile, name: str, dims: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the dimension that determines a column, and its value for each label."""
    for dim in dims:
        if (values := file.determined(name, dim)) is not None:
            return dim, values
    raise LabelError(f"{file.name}: no column of {', '.join(dims)} determines {name!r}, so it is not a coordinate")


def _values(
    file: PrintedFile, value: str, labels: Labels, declared: Labels, rule: Rule, is_public: bool
) -> NDArray[Any]:
    """Return what a file states of each cell, shape of the labels; absent rows are empty."""
    others = ", ".join(repr(name) for name in file.header if name != value and name not in declared)
    hint = f". Not declared as a dimension or coordinate: {others} (--coords, coords=)" if others else ""
    shape = tuple(map(len, labels.values()))
    is_absent = np.ones(prod(shape), bool)
    place = file.places(labels, hint)
    is_absent[place] = False
    for absent in np.flatnonzero(is_absent)[:1]:
        depends = [f". If {name!r} depends on {dim!r}, it is not a dimension: declare it by --coords {name} (coords=)"
                   for name, dim in roles.dependent(file, list(labels))[:1]]  # fmt: skip
        if rule.empty is None or (depends and rule.empty != "zero"):
            cell = [names[k] for names, k in zip(labels.values(), np.unravel_index(absent, shape), strict=True)]
            raise LabelError(
                f"{file.name} has no row for {show_cell(list(labels), cell)}: state what absent rows mean by --empty "
                f"suppressed, --empty missing or --empty zero (empty=), or add the row{''.join(depends) or hint}"
            )
    values = np.empty(is_absent.size, dtype=object)
    values[place] = file.parsed(value, lambda text: _clean(text, rule, is_public))
    if is_absent.any():
        values[is_absent] = _clean("", rule, is_public)
    return values.reshape(shape)


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
