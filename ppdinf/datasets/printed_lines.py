"""The rows of a published table among titles, second header rows, notes and footers."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from itertools import islice

from ppdinf.tables.count_ranges import MARKS

HEAD = 200  # lines that decide the delimiter

type Line = tuple[int, list[str]]


def delimiter_of(text: str) -> str:
    """Return the delimiter that gives most of the first lines one number of fields, at least two."""
    best = (0, 0, ",")
    for delimiter in ",\t;|":
        widths = Counter(len(row) for row in islice(csv.reader(io.StringIO(text), delimiter=delimiter), HEAD))
        best = max([best, *((number, width, delimiter) for width, number in widths.items() if width > 1)])
    return best[2]


def _is_value(text: str) -> bool:
    return any(c.isdigit() for c in text) or text.strip() in MARKS


def table_lines(lines: list[Line], notes: list[str]) -> list[Line]:
    """Return the header and the rows, all of equal length; a note names each other line that is not blank."""
    # a quoted empty text is the value of a row with one column
    lines = [(line, fields) for line, fields in lines if fields == [""] or any(text.strip() for text in fields)]
    end = next((k for k, (_, fields) in enumerate(lines) if re.fullmatch(r"-{3,}", fields[0].strip())), len(lines))
    several = Counter(len(fields) for _, fields in lines[:end] if sum(map(bool, fields)) > 1)
    width = max(several, key=lambda size: (several[size], size)) if several else 1
    wide = [k for k, (_, fields) in enumerate(lines[:end]) if len(fields) >= width]
    start = wide[0] if wide else end
    header, others = lines[start : start + 1], [*lines[:start], *lines[end:]]
    rows: list[Line] = []
    for line, fields in lines[start + 1 : end]:
        is_note = len(fields) < width and not any(map(_is_value, fields[1:]))
        (others if is_note else rows).append((line, fields if any(fields[width:]) else fields[:width]))
    if len(rows) > 1 and any(map(_is_value, rows[1][1])) and not any(map(_is_value, rows[0][1])):
        numeric = [first for first, second in zip(rows[0][1], rows[1][1], strict=False) if _is_value(second)]
        if all(len(text.strip()) > 1 for text in numeric):
            others.append(rows.pop(0))  # descriptions of columns below their names
    for line, fields in sorted(other for other in others if any(other[1]))[:5]:
        notes.append(f"Line {line} is not a row of the table: {' '.join(fields)[:60].strip()!r}.")
    return [*header, *rows]
