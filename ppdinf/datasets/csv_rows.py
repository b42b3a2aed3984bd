"""Rows of a CSV file as text, and counts read from text, for all readers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from ppdinf.errors import CountError, LabelError
from ppdinf.tables.table import LARGEST

Row = tuple[int, dict[str, str]]
"""Line number in the file, and the fields by column."""

_WHOLE = re.compile(r"0|[1-9][0-9]*")


def read_csv_rows(path: Path) -> tuple[list[str], list[Row]]:
    """Read a CSV file as text."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise LabelError(f"{path.name} is not UTF-8 text (byte {error.start}): save it as CSV UTF-8") from None
    first = text.partition("\n")[0]
    delimiter = "," if "," in first else next((character for character in "\t;|" if character in first), ",")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    try:
        lines = [(reader.line_num, fields) for fields in reader]
    except csv.Error as error:
        raise LabelError(f"{path.name} line {reader.line_num} is not valid CSV: {error}") from None
    if len(lines) < 2:
        raise LabelError(f"{path.name} has no rows below its header")
    header = lines[0][1]
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise LabelError(f"{path.name} has more than one column {repeated[0]!r}")
    for line, fields in lines:
        if len(fields) != len(header):
            raise LabelError(f"{path.name} line {line} has {len(fields)} fields, but the header has {len(header)}")
    return header, [(line, dict(zip(header, fields, strict=True))) for line, fields in lines[1:]]


def require_labels(path: Path, rows: list[Row], names: Sequence[str]) -> None:
    """Refuse blank labels."""
    for line, row in rows:
        for name in names:
            if not row[name].strip():
                raise LabelError(f"{path.name} line {line}, column {name!r}: the label is blank")


def require_columns(path: Path, header: list[str], names: list[str] | tuple[str, ...]) -> None:
    """Require the columns `names` in a header."""
    for name in names:
        if name not in header:
            raise LabelError(f"{path.name} has no column {name!r}; it has {', '.join(header)}")


def parse_count(where: str, text: str) -> int:
    """Read a count; the error of an invalid count does not show it."""
    if _WHOLE.fullmatch(text):
        if len(text) <= 16 and int(text) <= LARGEST:
            return int(text)
        fault = "exceeds 2**53"
    elif not text.strip():
        fault = "is blank; write 0 for cells without records"
    elif re.fullmatch(r"-[0-9]+(\.[0-9]*)?", text):
        fault = "is negative; counts must be non-negative"
    elif re.fullmatch(r"[0-9]*\.[0-9]*", text):
        fault = "has a decimal point; counts must be integers"
    else:
        fault = "is not an integer written in digits only"
    raise CountError(f"{where}: the count {fault}")
