"""Tables as they are printed in text files, spreadsheets and frames: columns of text, and the line of each row."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import batched, chain, count, islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppdinf._internal.values import Flags, Integers
from ppdinf.errors import CountError, LabelError
from ppdinf.tables.count_ranges import MARKS, is_missing

HEAD, CHUNK = 200, 2_000  # lines that decide the layout, and rows that are encoded together
SHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
SUFFIXES = (".csv", ".tsv", ".txt", *SHEETS)
FOREIGN = {b"%PDF": "a PDF document", b"<": "HTML or XML", b"{": "JSON", b"[{": "JSON", b"\x1f\x8b": "a gzip archive"}
NOTE = 40  # characters of a text in the first column that is a note

VALUE = "value"
"""Column of the values of a table whose labels were names of columns."""

type Source = str | PathLike[str] | pd.DataFrame
type Line = tuple[int, Sequence[str]]
type TextTable = Any
"""A `pandas.DataFrame` whose columns are categories of text in order of appearance, indexed by lines."""


@dataclass(frozen=True)
class PrintedFile:
    """A table as columns of text: all readers of tables start from it. Messages contain its `name`."""

    name: str
    table: TextTable
    notes: list[str]
    wide: str | None = None  # the dimension whose labels were names of columns

    @classmethod
    def read(cls, source: Any, sheet: str | None = None, *, strict: bool = False) -> PrintedFile:
        """Read a published table as it is; if strict, one table below one header, unchanged or refused."""
        is_frame = hasattr(source, "columns")
        name, notes = "the table" if is_frame else Path(source).name, list[str]()
        lines = _frame_lines(_frame(source)) if is_frame else _file_lines(Path(source), sheet, notes, strict)
        head, skipped = list(islice(lines, HEAD)), list[Line]()
        if strict:
            start = 1
            header = list(head[0][1]) if head else []
            for column in sorted({column for column in header if header.count(column) > 1})[:1]:
                raise LabelError(f"{name} has more than one column {column!r}")
        else:
            start, header = _header(head, notes, skipped)
        table = _encode(header, _rows(name, len(header), chain(head[start:], lines), skipped, strict), strict)
        if not strict:
            table = _without_notes(table, skipped)
            for line, fields in sorted(skipped)[:5]:
                notes.append(f"Line {line} is not a row of the table: {' '.join(fields)[:60].strip()!r}.")
        if table.empty:
            raise LabelError(
                f"{name} " + ("has no rows below its header" if header else "has no rows, and therefore no table")
            )
        return cls(name, table, notes)

    @property
    def header(self) -> list[str]:
        """Names of the columns."""
        return list(self.table)

    @property
    def rows(self) -> list[tuple[int, dict[str, str]]]:
        """Line and fields of each row, for small files."""
        return [(line, dict(zip(self.table, row, strict=True))) for line, *row in self.table.itertuples(name=None)]

    def texts(self, name: str) -> NDArray[np.object_]:
        """Return the different texts of a column in order of appearance."""
        column = self.table[name].cat
        number = np.bincount(column.codes, minlength=len(column.categories))
        return column.categories.to_numpy(object)[number > 0]

    def line(self, name: str, text: object) -> int | None:
        """Return the first line with a text in a column, or None."""
        rows = np.flatnonzero((self.table[name] == text).to_numpy())
        return int(self.table.index[rows[0]]) if rows.size else None

    def require(self, *columns: str) -> None:
        """Refuse a file that lacks one of some columns."""
        for name in columns:
            if name not in self.table:
                raise LabelError(f"{self.name} has no column {name!r}; it has {', '.join(self.header)}")

    def only(self, rows: Flags) -> PrintedFile:
        """Return a subset of the rows."""
        return self if rows.all() else replace(self, table=self.table[rows])

    def labels(self, dims: Sequence[str]) -> dict[str, list[str]]:
        """Return the labels of each dimension in order of first appearance."""
        return {dim: self.texts(dim).tolist() for dim in dims}

    def codes(self, name: str, labels: Sequence[str]) -> Integers:
        """Return the position of each text of a column among labels, -1 if it is absent."""
        column = self.table[name].cat
        return pd.Index(list(labels), dtype=object).get_indexer(column.categories)[column.codes]

    def cells(self, labels: Mapping[str, Sequence[str]]) -> Integers:
        """Return the cell of each row, in C order, of a table whose labels include those of the rows."""
        cell = np.zeros(len(self.table), np.int64)
        for dim, known in labels.items():
            cell = cell * len(known) + self.codes(dim, known)
        return cell

    def places(self, labels: Mapping[str, Sequence[str]], hint: str = "") -> Integers:
        """Return the cell of each row as `cells` does; blank, unknown and repeated labels are refused."""
        for dim, known in labels.items():
            named = set(known)
            for text in self.texts(dim):
                if text.strip() and text in named:
                    continue
                fault = (
                    f": the table has no label {text!r} of {dim!r}{_same_code(text, known)}"
                    if text.strip()
                    else f", column {dim!r}: the label is blank, and no merged cell explains this: write the label"
                )
                raise LabelError(f"{self.name} line {self.line(dim, text)}{fault}")
        place = self.cells(labels)
        for row in np.flatnonzero(pd.Series(place).duplicated())[:1]:
            line, first = self.table.index[[row, np.flatnonzero(place == place[row])[0]]]
            cell = show_cell(list(labels), self.table[list(labels)].iloc[row])
            raise LabelError(f"{self.name} line {line}: {cell} is on line {first} already{hint}")
        return place

    def place(self, row: int, name: str) -> str:
        """Name the file, line and column of a text, whose column can be a label."""
        column = self.table[self.wide].iloc[row] if name == VALUE and self.wide else name
        return f"{self.name} line {self.table.index[row]}, column {column!r}"

    def parsed(self, name: str, function: Callable[..., Any], *others: str) -> NDArray[Any]:
        """Return a function of each text of a column, or of columns, shape (rows, ...); errors name the place."""
        columns = [self.table[column].cat for column in (name, *others)]
        joint = columns[0].codes.to_numpy(np.int64)
        for column in columns[1:]:
            joint = joint * len(column.categories) + column.codes.to_numpy()
        codes, different = pd.factorize(joint)
        parsed = []
        for k, code in enumerate(different):
            places = np.unravel_index(code, [len(column.categories) for column in columns])
            try:
                parsed.append(function(*(c.categories[place] for c, place in zip(columns, places, strict=True))))
            except CountError as error:
                raise CountError(f"{self.place(int(np.argmax(codes == k)), name)}: {error}") from None
        return np.array(parsed, dtype=object if parsed and isinstance(parsed[0], str) else None)[codes]

    def with_texts(self, name: str, texts: NDArray[np.object_]) -> PrintedFile:
        """Replace or add a column."""
        codes, different = pd.factorize(texts)
        return replace(self, table=self.table.assign(**{name: as_column(codes, different)}))

    def determined(self, name: str, dim: str) -> dict[str, str] | None:
        """Return the value of a column for each label of a dimension, or None if a label has several values."""
        pairs = self.table[[dim, name]].drop_duplicates()
        return None if pairs[dim].duplicated().any() else dict(pairs.itertuples(index=False, name=None))


def as_column(codes: Any, texts: Iterable[str]) -> Any:
    """Return a column of categories from the position of the text of each row."""
    return pd.Categorical.from_codes(codes, pd.Index(list(texts), dtype=object))


def _same_code(text: str, known: Sequence[str]) -> str:
    """Return an advice if a label differs by leading zeros only."""
    other = next((label for label in known if label.lstrip("0") == text.lstrip("0")), None)
    return "" if other is None else f", but {other!r}: one file lost leading zeros. Save its codes as text"


def show_cell(dims: Sequence[str], cell: Iterable[str]) -> str:
    """Name a cell by its labels."""
    return ", ".join(f"{dim}={label}" for dim, label in zip(dims, cell, strict=True)) or "the total"


def _frame(source: Any) -> pd.DataFrame:
    """Return a pandas frame with one column for each column of labels; the columns of a pivot table become rows."""
    if not isinstance(source, pd.DataFrame):
        return pd.DataFrame({name: list(source[name]) for name in source.columns})
    frame: Any = source
    if None not in frame.columns.names:
        frame = frame.stack(list(range(frame.columns.nlevels)), future_stack=True).rename("value").to_frame()
    return frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()


def _frame_lines(frame: pd.DataFrame) -> Iterator[Line]:
    """Yield the fields of each line as text: the header, unless columns are numbered, and the rows."""
    columns = []
    for _, column in frame.items():
        codes, values = pd.factorize(column)
        columns.append(np.array([*map(_text, values), ""], dtype=object)[codes])
    names = [name if isinstance(name, tuple) else (name,) for name in frame.columns]
    titles = [" ".join(_text(level) for level in name if not str(level).startswith("Unnamed: ")) for name in names]
    is_numbered = frame.columns.equals(pd.RangeIndex(len(titles)))
    header = [] if is_numbered else [titles]
    yield from enumerate(chain(header, zip(*columns, strict=True)), start=1)


def _text(value: Any) -> str:
    """Return a value of a frame or spreadsheet as text; integers have no decimal point, and dates no time."""
    if is_missing(value):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).removesuffix(" 00:00:00")


def _file_lines(path: Path, sheet: str | None, notes: list[str], strict: bool) -> Iterator[Line]:
    """Return the lines of a file of text or of a spreadsheet; the content decides, not the suffix."""
    with path.open("rb") as file:
        start = file.read(1 << 16)
    if start[:2] == b"PK" or start[:4] == b"\xd0\xcf\x11\xe0":
        return _frame_lines(_sheet(path, sheet))
    if sheet is not None or path.suffix.lower() in SHEETS:
        raise LabelError(
            f"{path.name} is not a spreadsheet: omit --sheet (sheet=), or give a text file the suffix .csv"
        )
    is_utf16 = start[:2] in (b"\xff\xfe", b"\xfe\xff")
    kinds = (kind for begin, kind in FOREIGN.items() if start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(begin))
    kind = next(kinds, "not a text file or spreadsheet" if b"\0" in start and not is_utf16 else None)
    if kind is not None:
        raise LabelError(f"{path.name} is {kind}: save it as CSV UTF-8")
    encoding = "utf-16" if is_utf16 else "utf-8-sig"
    try:
        with path.open(encoding=encoding) as text:
            while text.read(1 << 22):
                pass
    except UnicodeDecodeError as error:
        if strict:
            raise LabelError(f"{path.name} is not UTF-8 text (byte {error.start}): save it as CSV UTF-8") from None
        encoding = "latin-1"
        notes.append("The file is not UTF-8 and was read as Latin-1 (Western European).")
    return _text_lines(path, encoding, _delimiter(start.decode(encoding, errors="ignore")))


def _sheet(path: Path, sheet: str | None) -> pd.DataFrame:
    """Return the cells of the only sheet of a spreadsheet, or of the stated sheet."""
    try:
        sheets = pd.read_excel(path, sheet_name=None, header=None, engine="calamine", dtype=object)
    except ImportError:
        raise LabelError(
            f"{path.name} is a spreadsheet: install ppdinf[spreadsheets] (python-calamine), or save it as CSV UTF-8"
        ) from None
    except Exception as error:  # errors of the library have no common class
        raise LabelError(f"{path.name} is not a readable spreadsheet: {error}") from None
    filled = {str(name): cells for name, cells in sheets.items() if cells.notna().any(axis=None)}
    chosen = next(iter(filled)) if sheet is None and len(filled) == 1 else sheet
    if not filled or chosen not in filled:
        shown = f"has the sheets {', '.join(filled)}: state one by --sheet NAME (sheet=)" if filled else "has no rows"
        raise LabelError(f"{path.name} {shown}")
    return filled[chosen]


def _text_lines(path: Path, encoding: str, delimiter: str) -> Iterator[Line]:
    """Yield the number and the fields of each line of a text file."""
    with path.open(encoding=encoding, newline="") as text:
        reader = csv.reader(text, strict=True, delimiter=delimiter)
        try:
            for fields in reader:
                yield reader.line_num, fields
        except csv.Error as error:
            raise LabelError(f"{path.name} line {reader.line_num} is not valid CSV: {error}") from None


def _delimiter(text: str) -> str:
    """Return the delimiter that gives most of the first lines one number of fields, at least two."""
    best = (0, 0, ",")
    for delimiter in ",\t;|":
        widths = Counter(len(row) for row in islice(csv.reader(io.StringIO(text), delimiter=delimiter), HEAD))
        best = max([best, *((number, width, delimiter) for width, number in widths.items() if width > 1)])
    return best[2]


def _is_value(text: str) -> bool:
    return any(c.isdigit() for c in text) or text.strip() in MARKS


def _header(head: list[Line], notes: list[str], skipped: list[Line]) -> tuple[int, list[str]]:
    """Return the number of lines up to the header, and the names of columns; a second header row is joined to them."""
    filled = [sum(map(bool, map(str.strip, fields))) for _, fields in head]
    end = next((k for k, (_, fields) in enumerate(head) if fields and _is_end(fields[0])), len(head))
    widths = Counter(len(fields) for (_, fields), n in zip(head[:end], filled, strict=False) if n > 1)
    width = max(widths, key=lambda size: (widths[size], size)) if widths else 1
    first = next((k for k in range(end) if len(head[k][1]) >= width and filled[k] >= min(2, width)), end)
    skipped += [line for line in head[:first] if any(line[1])]
    if first == end:
        return first, []
    header = [text.strip() for text in head[first][1]]
    below = [k for k in range(first + 1, end) if filled[k]][:2]
    if len(below) < 2 or filled[first] < 2:
        return first + 1, header
    (line, words), (_, values) = (head[k] for k in below)
    numeric = [word.strip() for word, value in zip(words, values, strict=False) if _is_value(value)]
    if not numeric or any(_is_value(word) and "!!" not in word for word in words) or min(map(len, numeric)) < 2:
        return first + 1, header
    notes.append(f"Line {line} is a second row of the header: {' '.join(words)[:60].strip()!r}.")
    if not all(header) or len(set(header)) < len(header):  # groups of columns, whose merged cells are empty or repeated
        above = pd.Series([name or None for name in header], dtype=object).ffill().fillna("")
        pairs = zip(above, map(str.strip, words), strict=False)
        header = [" ".join(dict.fromkeys(filter(None, pair))) for pair in pairs]
    return below[0] + 1, header


def _is_end(text: str) -> bool:
    return text[:3] == "---" and not text.strip("- ")


def _rows(name: str, width: int, lines: Iterator[Line], skipped: list[Line], strict: bool) -> Iterator[Line]:
    """Yield the rows, all of equal length; short lines without values, and all lines from ``---``, are skipped."""
    for line, fields in lines:
        if not strict and fields and fields[0][:3] == "---" and _is_end(fields[0]):
            skipped.append((line, fields))
            skipped += (other for other in lines if any(other[1]))
        elif len(fields) == width:
            yield line, fields
        elif strict or any(fields[width:]) or (any(fields) and any(map(_is_value, fields[1:]))):
            raise LabelError(f"{name} line {line} has {len(fields)} fields, but the header has {width}")
        elif len(fields) > width:
            yield line, fields[:width]
        elif any(fields):
            skipped.append((line, fields))


def _encode(header: list[str], rows: Iterator[Line], strict: bool) -> TextTable:
    """Return the columns of rows; each different text is stored once."""
    lines: list[Any] = [np.zeros(0, np.int32)]
    known = [defaultdict[str, int](count().__next__) for _ in header]
    codes: list[list[Any]] = [[np.zeros(0, dtype=np.int32)] for _ in header]
    for chunk in batched(rows, CHUNK):
        numbers, fields = zip(*chunk, strict=True)
        lines.append(np.array(numbers, np.int32))
        for column, texts, parts in zip(zip(*fields, strict=True), known, codes, strict=True):
            parts.append(np.fromiter(map(texts.__getitem__, column), np.int32, len(column)))
    columns: dict[str, Any] = {}
    for name, texts, parts in zip(header, known, codes, strict=True):
        named = name if strict else name or "row"
        title = next(title for title in chain([named], (f"{named} ({k})" for k in count(2))) if title not in columns)
        place, different = pd.factorize(np.array(list(texts if strict else map(str.strip, texts)), dtype=object))
        if name or strict or different.any():
            columns[title] = as_column(place.astype(np.int32)[np.concatenate(parts)], different)
    return pd.DataFrame(columns, index=np.concatenate(lines))


def _without_notes(table: TextTable, skipped: list[Line]) -> TextTable:
    """Return the rows that are neither blank nor notes; notes at the end are single texts in the first column."""
    if table.shape[1] < 2:  # a quoted empty text is the value of a row with one column
        return table
    filled = np.array([(table[name] != "").to_numpy() for name in table])
    keep = filled.any(axis=0)
    last = max(np.flatnonzero(filled[1:].any(axis=0)), default=-1)
    tail = [int(row) for row in np.flatnonzero(keep) if row > last]
    is_note = bool(tail) and table.index[tail[0]] > table.index[last] + 1  # below a blank line
    for row in tail:
        text = table.iloc[row, 0]
        is_note = is_note or ":" in text or len(text) > NOTE or not text[0].isalnum()
        if is_note:
            skipped.append((int(table.index[row]), [text]))
            keep[row] = False
    return table[keep]
