"""Measurements from CSV files of published numbers, ranges and suppression marks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import permutations, product
from math import isinf
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppdinf.datasets.table_file import TextFile, show_cell
from ppdinf.errors import CountError, LabelError
from ppdinf.invariants import Public, margin, total
from ppdinf.laws.interval import Interval
from ppdinf.laws.observation_model import ObservationModel, as_observation_model
from ppdinf.laws.suppressed import Suppressed
from ppdinf.measurements.measured import Measured, measured
from ppdinf.measurements.measurements import Measurements
from ppdinf.tables.count_ranges import MARKS, HiddenCounts, are_ranges, count_range, is_missing, missing_values


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
    ppdinf.denoise, ppdinf.identified_bounds, ppdinf.laws.Suppressed

    Examples
    --------
    >>> import pathlib, tempfile, ppdinf as ppd
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "deaths.csv").write_text("county,sex,n\nA,f,1-9\nA,m,31\nB,f,S\nB,m,0\n")
    >>> _ = (folder / "counties.csv").write_text("county,n\nA,36\nB,4\n")
    >>> rule = dict(value="n", dims=["county", "sex"], suppressed="1-9", public=[folder / "counties.csv"])
    >>> ppd.identified_bounds(ppd.measurements.read_published_csv(folder / "deaths.csv", **rule)).upper.tolist()
    [5, 31, 4, 0]
    """
    rule = _rule(suppressed, marks, empty)
    model = None if law is None else as_observation_model(law if rule is None else Suppressed(law, *rule))
    hidden = None if rule is None else HiddenCounts.of(*rule)
    file = TextFile.read(Path(path))
    file.require(value, *dims, *coords)
    labels = file.labels(dims)
    known = {name: _coordinate(file, name, dims) for name in coords}
    domain = labels | {name: list(dict.fromkeys(values.values())) for name, (_, values) in known.items()}
    files = [(file, list(dims), False)]
    for paths, always in ((sums, False), (public, True)):
        for other in map(TextFile.read, map(Path, paths)):
            other.require(value)
            files.append((other, [name for name in other.header if name in domain], always))
    statements: list[Measured] = []
    exact: dict[Public, object] = {}
    for one, names, always in files:
        statement = margin(*names) if names else total()
        values = _values(one, names, value, domain, empty)
        if model is None or always:
            exact[statement] = _meanings(one, value, values, partial(_range, hidden, always))
        else:
            _meanings(one, value, values, partial(_read, model))
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
    others = [name for name in file.header if name != value and name not in declared]
    if not others:
        return ""
    columns = ", ".join(map(repr, others))
    return (
        f". Not declared as a dimension or coordinate: {columns}. If such a column labels the rows and depends on one "
        f"dimension, as a state on its county, the file of cells needs it, too, and --coords {others[0]} (coords=)"
    )


def _dependent(file: TextFile, names: Sequence[str]) -> str:
    """Return the end of a message: a column of labels that another one determines is a coordinate."""
    for name, dim in permutations(names, 2):
        values = file.determined(name, dim)
        if values is not None and len(set(values.values())) < len(values):
            return f". If {name!r} depends on {dim!r}, it is not a dimension: declare it by --coords {name} (coords=)"
    return ""


def _meanings(
    file: TextFile, value: str, values: NDArray[np.object_], meaning: Callable[[str], object]
) -> NDArray[np.object_]:
    """Apply a function to each different text; the error names the line of the first text that it refuses."""
    codes, texts = pd.factorize(values.ravel())
    meanings = np.empty(texts.size, dtype=object)
    for k, text in enumerate(texts):
        try:
            meanings[k] = meaning(text)
        except CountError as error:
            lines = [line for line, row in file.rows if row[value].strip() == text]
            place = f"line {lines[0]}, column {value!r}" if lines else "lacks rows"
            raise CountError(f"{file.name} {place}: {error}") from None
    return meanings[codes].reshape(values.shape)


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
