"""Measurements from CSV files of published numbers, ranges and suppression marks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd

from ppdinf.datasets.csv_rows import Row, read_csv_rows, require_columns, require_labels
from ppdinf.errors import CountError, LabelError
from ppdinf.invariants import Public, margin, total
from ppdinf.laws.observation_model import ObservationModel, as_observation_model
from ppdinf.laws.published.interval import Interval
from ppdinf.measurements.measured import Measured, measured
from ppdinf.measurements.measurements import Measurements
from ppdinf.tables.count_ranges import MARKS, count_range, is_missing

__all__ = ["read_published_csv"]


def read_published_csv(
    path: str | Path,
    *,
    value: str,
    dims: Sequence[str],
    coords: Sequence[str] = (),
    law: object = None,
    suppressed: str | None = None,
    sums: Sequence[str | Path] = (),
    public: Sequence[str | Path] = (),
) -> Measurements:
    r"""Read a published table, and further sums of the same counts, from CSV files.

    Numbers are exact, or are published by `law`. Texts of ranges such as ``"1-9"`` and ``"<5"`` are read as
    `ppdinf.laws.Interval` reads them, in every file.

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
        Range of suppressed counts, such as ``"1-9"`` or ``"<5"``: the meaning of empty values and of the marks
        ``S``, ``(S)``, ``s``, ``D``, ``(D)``, ``*``, ``X``, ``(X)`` in `path` and `sums`. None: empty values state
        nothing, and marks are errors.
    sums : sequence of str or path
        Files of sums that are published as the table is. Their columns of labels are dimensions or `coords`; a file
        without such columns has one row, the total. Other columns are ignored.
    public : sequence of str or path
        The same for sums that are exact in any case.

    Returns
    -------
    Measurements

    Raises
    ------
    LabelError
        A column is missing, a label is blank, a combination of labels is missing or repeated, or a label of a sum is
        not in the table. The message names file and line.
    CountError
        A value is neither a number nor a range; the message names file, line and column.
    InvariantError
        Statements contradict each other.

    See Also
    --------
    ppdinf.denoise : The posterior of the table.
    ppdinf.identified_bounds : The counts that agree with all certain statements.

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
    if suppressed is not None:
        count_range(suppressed)
    model = None if law is None else as_observation_model(law)
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
        values = _values(other, lines, names, value, domain, None if always else suppressed)
        numbers = np.array([_is_number(text) for text in values.ravel()], dtype=bool).reshape(values.shape)
        if model is None or always:
            _read(other, Interval(), lines, value, values)
            exact[statement] = values
        else:
            noisy, ranges = values.copy(), values.copy()
            noisy[~numbers], ranges[numbers] = None, None
            _read(other, model, lines, value, noisy)
            _read(other, Interval(), lines, value, ranges)
            statements.append(measured(statement, noisy, law))
            if not numbers.all():
                statements.append(measured(statement, ranges, Interval()))
    return Measurements(
        labels,
        *statements,
        coords={name: (dim, [values[label] for label in labels[dim]]) for name, (dim, values) in known.items()},
        public=exact,
    )


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
    file: Path, rows: list[Row], names: list[str], value: str, domain: dict[str, list[str]], suppressed: str | None
) -> np.ndarray[tuple[int, ...], np.dtype[np.object_]]:
    """Return the values of a file as an array with one axis per column of labels."""
    place = {name: {label: k for k, label in enumerate(domain[name])} for name in names}
    values = np.full([len(domain[name]) for name in names], None, dtype=object)
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
        text = fields[value].strip()
        hidden = suppressed is not None and (text in MARKS or is_missing(text))
        values[at] = suppressed if hidden else text
    if not lines.all():
        missing = np.unravel_index(int(np.argmin(lines)), lines.shape)
        words = ", ".join(f"{name}={domain[name][k]}" for name, k in zip(names, missing, strict=True))
        raise LabelError(
            f"{file.name} has no row for {words}: add it, with an empty value if nothing is published"
            f"{_dependent(rows, names) or _undeclared(rows, value, domain)}"
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
        if _determined(rows, name, dim) is not None:
            return f". If {name!r} depends on {dim!r}, it is not a dimension: declare it by --coords {name} (coords=)"
    return ""


def _is_number(text: str) -> bool:
    return bool(np.isfinite(pd.to_numeric(text, errors="coerce")))


def _read(
    file: Path,
    law: ObservationModel,
    rows: list[Row],
    value: str,
    values: np.ndarray[tuple[int, ...], np.dtype[np.object_]],
) -> None:
    """Raise an error that names the line of the first value that a law cannot read."""
    texts = {text for text in values.ravel().tolist() if not is_missing(text)}
    for text in texts:
        try:
            law.read(np.array([text], dtype=object))
        except CountError as error:
            line = next(line for line, fields in rows if fields[value].strip() == text)
            raise CountError(f"{file.name} line {line}, column {value!r}: {error}") from None
