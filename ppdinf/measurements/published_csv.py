"""Measurements from CSV files of published numbers, ranges and suppression marks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import permutations
from math import isinf
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppdinf.datasets.table_file import Row, read_csv_rows, require_columns, require_labels
from ppdinf.errors import CountError, LabelError
from ppdinf.invariants import Public, margin, total
from ppdinf.laws.interval import Interval
from ppdinf.laws.observation_model import ObservationModel, as_observation_model
from ppdinf.laws.suppressed import Suppressed
from ppdinf.measurements.measured import Measured, are_ranges, measured
from ppdinf.measurements.measurements import Measurements
from ppdinf.tables.count_ranges import MARKS, HiddenCounts, count_range, is_missing, missing_values


def read_published_csv(
    path: str | Path,
    *,
    value: str,
    dims: Sequence[str],
    coords: Sequence[str] = (),
    law: object = None,
    suppressed: str | None = None,
    marks: object = MARKS,
    empty: str | None = None,
    sums: Sequence[str | Path] = (),
    public: Sequence[str | Path] = (),
    not_totals: Sequence[str] = (),
) -> Measurements:
    r"""Read a published table, and further sums of the same counts, from CSV files.

    Numbers are exact, or are published by `law`; they exclude the suppressed counts, as in `ppdinf.laws.Suppressed`.
    Texts of ranges such as ``"1-9"`` and ``"<5"`` are read as `ppdinf.laws.Interval` reads them, in every file.

    Parameters
    ----------
    path : str or path
        One row per cell of the table, each combination of labels once.
    value : str
        Column of published values, in every file.
    dims : sequence of str
        Columns of labels: the dimensions of the table.
    coords : sequence of str
        Further columns that depend on one dimension, such as the state of each county.
    law : law of `ppdinf.laws`, optional
        Law of numbers in `path` and `sums`, such as ``ppd.laws.Rounded(5)``. None: they are exact.
    suppressed : str, optional
        Range of suppressed counts, such as ``"1-9"`` or ``"<5"``: the counts behind `marks`, which no number is.
        Counts are suppressed before they are rounded. ``">=0"`` states that any count can be suppressed.
    marks : str, number, or collection of str and numbers
        Values that are suppressed counts, as for `ppdinf.suppressed`. Without `suppressed`, marks are errors.
    empty : {"suppressed", "missing", "zero"}, optional
        Meaning of empty values and absent rows, in every file. Required if there are absent rows, or empty values and
        `suppressed`; otherwise, nothing is known about sums with empty values.
    sums : sequence of str or path
        Files of sums that are published as the table is. Their columns of labels are dimensions or `coords`; a file
        without such columns has one row, the total. Other columns are ignored.
    public : sequence of str or path
        The same for sums whose numbers are exact in any case.
    not_totals : sequence of str
        Labels that are not totals, as for `ppdinf.Measurements`.

    Returns
    -------
    Measurements

    Raises
    ------
    LabelError
        A column is missing, a label is blank, a combination of labels is repeated, or missing and `empty` is not
        stated, or a label of a sum is not in the table. The message names file and line.
    CountError
        A value is neither a number nor a range nor a mark, or a number is suppressed by the rule; the message names
        file, line and column.
    InvariantError
        Statements contradict each other.

    See Also
    --------
    ppdinf.denoise : The posterior of the table.
    ppdinf.identified_bounds : The counts that agree with all certain statements.
    ppdinf.laws.Suppressed : The same rule in Python.

    Examples
    --------
    >>> from pathlib import Path
    >>> from ppdinf.measurements import read_published_csv
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "deaths.csv").write_text("county,sex,n\nA,f,1-9\nA,m,31\nB,f,S\nB,m,0\n")
    >>> _ = (folder / "counties.csv").write_text("county,n\nA,36\nB,4\n")
    >>> seen = read_published_csv(
    ...     folder / "deaths.csv", value="n", dims=["county", "sex"], suppressed="1-9", public=[folder / "counties.csv"]
    ... )
    >>> import ppdinf as ppd
    >>> ppd.identified_bounds(seen).upper.tolist()
    [5, 31, 4, 0]
    """
    file = Path(path)
    rule = _rule(suppressed, marks, empty)
    model = None if law is None else as_observation_model(law if rule is None else Suppressed(law, *rule))
    hidden = None if rule is None else HiddenCounts.of(*rule)
    header, rows = read_csv_rows(file)
    require_columns(file, header, [value, *dims, *coords])
    require_labels(file, rows, dims)
    labels = {dim: list(dict.fromkeys(fields[dim] for _, fields in rows)) for dim in dims}
    known = {name: _coordinate(file, rows, name, dims) for name in coords}
    statements: list[Measured] = []
    exact: dict[Public, object] = {}
    files = [(file, rows, list(dims), False)]
    for paths, always in ((sums, False), (public, True)):
        for other in map(Path, paths):
            head, lines = read_csv_rows(other)
            require_columns(other, head, [value])
            files.append((other, lines, [name for name in head if name in {*dims, *coords}], always))
    domain = labels | {name: list(dict.fromkeys(values.values())) for name, (_, values) in known.items()}
    for other, lines, names, always in files:
        statement = margin(*names) if names else total()
        values = _values(other, lines, names, value, domain, empty)
        if model is None or always:
            exact[statement] = _meanings(other, lines, value, values, partial(_range, hidden, always))
        else:
            _meanings(other, lines, value, values, partial(_read, model))
            statements.append(measured(statement, values, model))
    return Measurements(
        labels,
        *statements,
        coords={name: (dim, [values[label] for label in labels[dim]]) for name, (dim, values) in known.items()},
        public=exact,
        not_totals=not_totals,
    )


def _rule(
    suppressed: str | None, marks: object, empty: str | None
) -> tuple[int | None, int, object, str | None] | None:
    """Return the arguments of the rule of suppression, or None if nothing is stated."""
    if suppressed is None:
        if empty == "suppressed":
            raise CountError("empty='suppressed' needs the range of suppressed counts: suppressed= (--suppressed 1-9)")
        return None if empty is None else (None, 0, (), empty)
    low, high = count_range(suppressed)
    return None if isinf(high) else int(high) + 1, int(max(low, 0)), marks, empty


def _coordinate(file: Path, rows: list[Row], name: str, dims: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the dimension that determines a column, and its value for each label."""
    for dim in dims:
        if (values := _determined(rows, name, dim)) is not None:
            return dim, values
    raise LabelError(f"{file.name}: no column of {', '.join(dims)} determines {name!r}, so it is not a coordinate")


def _determined(rows: list[Row], name: str, dim: str) -> dict[str, str] | None:
    """Return the value of a column for each label of a dimension, or None if a label has several values."""
    values: dict[str, str] = {}
    one = all(values.setdefault(fields[dim], fields[name]) == fields[name] for _, fields in rows)
    return values if one else None


def _values(
    file: Path, rows: list[Row], names: list[str], value: str, domain: dict[str, list[str]], empty: str | None
) -> NDArray[np.object_]:
    """Return the texts of a file as an array with one axis per column of labels; absent rows are empty."""
    place = {name: {label: k for k, label in enumerate(domain[name])} for name in names}
    values = np.full([len(domain[name]) for name in names], "", dtype=object)
    lines = np.zeros(values.shape, dtype=np.int64)
    for line, fields in rows:
        for name in names:
            if fields[name] not in place[name]:
                raise LabelError(f"{file.name} line {line}: the table has no label {fields[name]!r} of {name!r}")
        at = tuple(place[name][fields[name]] for name in names)
        if lines[at]:
            hint = _undeclared(rows, value, domain)
            raise LabelError(f"{file.name} line {line} repeats the labels of line {lines[at]}{hint}")
        lines[at] = line
        values[at] = fields[value].strip()
    if not lines.all() and empty != "zero" and (empty is None or _dependent(rows, names)):
        absent = np.unravel_index(int(np.argmin(lines)), lines.shape)
        words = ", ".join(f"{name}={domain[name][k]}" for name, k in zip(names, absent, strict=True))
        raise LabelError(
            f"{file.name} has no row for {words}: state what absent rows mean by --empty suppressed, --empty missing "
            f"or --empty zero (empty=), or add the row{_dependent(rows, names) or _undeclared(rows, value, domain)}"
        )
    return values


def _undeclared(rows: list[Row], value: str, declared: Collection[str]) -> str:
    """Return the end of a message: columns that were not declared, although they may distinguish the rows."""
    _, first = rows[0]
    others = [name for name in first if name != value and name not in declared]
    if not others:
        return ""
    columns = ", ".join(map(repr, others))
    return (
        f". Not declared as a dimension or coordinate: {columns}. If such a column labels the rows and depends on one "
        f"dimension, as a state on its county, the file of cells needs it, too, and --coords {others[0]} (coords=)"
    )


def _dependent(rows: list[Row], names: Sequence[str]) -> str:
    """Return the end of a message: a column of labels that another one determines is a coordinate."""
    for name, dim in permutations(names, 2):
        values = _determined(rows, name, dim)
        if values is not None and len(set(values.values())) < len(values):
            return f". If {name!r} depends on {dim!r}, it is not a dimension: declare it by --coords {name} (coords=)"
    return ""


def _meanings(
    file: Path, rows: list[Row], value: str, values: NDArray[np.object_], meaning: Callable[[str], object]
) -> NDArray[np.object_]:
    """Apply a function to each different text; the error names the line of the first text that it refuses."""
    codes, texts = pd.factorize(values.ravel())
    found = np.empty(texts.size, dtype=object)
    for k, text in enumerate(texts):
        try:
            found[k] = meaning(text)
        except CountError as error:
            lines = [line for line, fields in rows if fields[value].strip() == text]
            place = f"line {lines[0]}, column {value!r}" if lines else "lacks rows"
            raise CountError(f"{file.name} {place}: {error}") from None
    return found[codes].reshape(values.shape)


def _range(hidden: HiddenCounts | None, is_public: bool, text: str) -> object:
    """Return an exact number or a range as text; an empty text states nothing. Public numbers may be small."""
    shown = text if hidden is None else hidden.shown(text, exact=not is_public)
    if not is_missing(shown):
        count_range(shown)
    return shown


def _read(model: ObservationModel, text: str) -> None:
    """Require a mark, a range, or a number that is possible for some count."""
    shown = model.shown(np.array([text], dtype=object))
    shown = shown[~missing_values(shown)]
    form, y = (Interval() if are_ranges(shown).any() else model).read(shown)
    if not form.is_possible(y.astype(form.dtype)).all():
        raise CountError(f"{text!r} is impossible for every count, {form.gives}")
