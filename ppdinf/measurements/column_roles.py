"""Which columns of a published table are labels, published values, flags of values, and neither."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from ppdinf.datasets.printed_file import VALUE, PrintedFile, as_column
from ppdinf.errors import LabelError
from ppdinf.rules.rule import Rule
from ppdinf.tables.count_ranges import comparable, range_text
from ppdinf.tables.percentages import percentages, persons
from ppdinf.tables.totals import named_totals

PERSONS, PERIOD = "persons", "period"
"""Columns of the counted rows of a line list, and of labels in the header that are periods."""

_PRINTED = re.compile(
    r"n?([<>≤≥]=?|[GL][ET]|\w+ than|at (least|most)|up to)?\s*\d[\d,.\s]*(%|\+|\s*or \w+|\s*(-|–|to)\s*[\d.]+%?)?|-\d+",
    re.I,
)
_CODES = re.compile(
    r"code|fips|naics|zip|tract|block|grade|quintile|decile|\b(age|imd|level)\b|year(?!_to)|month(?!\d_)|week(?!ly)"
    r"|quarter|(?<!to_)date|(?<![a-z])(geo_?)?id$|pk$",
    re.I,
)
_OTHER = re.compile(
    r"rate\b|ratio\b|percent|pct|%|margin|moe|error|coordinate|vector|population|[a-z]\d+(_\d+)?_?m$|note|_nf$", re.I
)
_MAGNITUDES = re.compile(
    r"median|(?<![a-z])mean(?![a-z])|earnings|wages|payroll|revenue|dollars|(?<![a-z])(usd|eur|gbp)(?![a-z])", re.I
)
_COUNTS = re.compile(
    r"^(n|(obs_)?value|observation|usage|estimate|emp)$|count(?!y|ies|r)|deaths|births|cases|persons|emplvl|\d_?e$",
    re.I,
)
_PERIOD = re.compile(
    r"(19|20)\d\d([-/ ]?(q[1-4]|m?\d\d?))?|(jan|feb|mar|apr|may|ju[nl]|aug|sep|oct|nov|dec)\w*.*", re.I
)
_YEARS = re.compile(r"((?:19|20)\d\d)\s*(?:-|–|/|to)\s*((?:19|20)?\d\d)")
_SEPARATED, _SEPARATORS = re.compile(r"[+-]?[0-9]{1,3}(?:[, \u00a0\u202f][0-9]{3})+"), re.compile(r"[, \u00a0\u202f]")


def is_number(file: PrintedFile, name: str) -> bool:
    """Return whether a column has numbers, ranges and marks, and the name and texts are not those of codes or years."""
    numbers = [text for text in map(str.strip, file.texts(name)) if any(c.isdigit() for c in text)]
    is_code = _CODES.search(name) or any(re.fullmatch(r"0\d+", text) for text in numbers)
    return bool(numbers) and not is_code and all(_PRINTED.fullmatch(text) for text in numbers)


def unknown_denominators(file: PrintedFile, of: str, dims: Collection[str]) -> list[str] | None:
    """Return columns of labels within which sums of the table are denominators, or None for a column of numbers."""
    if of in file.header and of not in dims and is_number(file, of):
        return None
    names = [of] if of in file.header else [name.strip() for name in of.split(",")]
    return [] if names == ["total"] and of not in file.header else names


def value_column(file: PrintedFile, numbers: Sequence[str]) -> str:
    """Return the only column of numbers that can be counts, or the only one with the name of counts."""
    magnitudes = [name for name in numbers if _MAGNITUDES.search(name)]
    if magnitudes and len(magnitudes) == len(numbers):
        raise LabelError(
            f"{file.name}: {magnitudes[0]!r} is out of scope: medians, means and magnitudes are not counts of persons; "
            "if it is a count, state --value (value=)"
        )
    numbers = [name for name in numbers if name not in magnitudes]
    counts = [name for name in numbers if not _OTHER.search(name)] or (list(numbers) if len(numbers) == 1 else [])
    counts = [name for name in counts if len(file.texts(name)) > 1] if len(counts) > 1 else counts
    named = [name for name in counts if _COUNTS.search(name.partition(" (")[0])]
    counts = named if len(named) == 1 else counts
    repeated = _repeated(file)
    if not named and repeated and file.table.duplicated(repeated).any():
        counts = [name for name in counts if len(file.texts(name)) < len(file.table)]  # not numbers of rows
    if len(counts) == 1:
        return counts[0]
    way_out = ", or for columns that are labels, such as months, --wide month (wide=)"
    if not counts:
        start = "Rows repeat their labels: if" if repeated else "If"
        way_out = f". {start} each row is one person (a line list), state --count-rows (count_rows=True)"
    shown = ", ".join(counts or file.header)
    raise LabelError(f"{file.name}: state the column of values, --value (value=){way_out}: {shown}")


def _repeated(file: PrintedFile) -> list[str]:
    """Return the columns with equal texts in several rows, which can be dimensions of a line list."""
    return [name for name in file.header if 1 < len(file.texts(name)) < len(file.table)]


def counted_rows(file: PrintedFile, dims: Sequence[str] | None, coords: Sequence[str]) -> PrintedFile:
    """Return a line list, one row a person, as a table with one row for each combination of labels."""
    names = [*(dims or [name for name in _repeated(file) if not is_number(file, name)]), *coords]
    if not names:
        raise LabelError(f"{file.name}: no column has repeated labels: state the columns by --dims COLUMNS (dims=)")
    others = [name for name in file.header if name not in names]
    file.notes.append(
        f"Each row is one person: {len(file.table)} rows were counted. Columns not used: {', '.join(others)}."
    )
    sizes = file.table.groupby(names, observed=True, sort=False).size()
    counted = replace(file, table=sizes.index.to_frame(index=False).set_axis(range(1, len(sizes) + 1)))
    return counted.with_texts(PERSONS, sizes.astype(str).to_numpy(object))


def header_labels(file: PrintedFile, numbers: Sequence[str]) -> bool:
    """Return whether the names of the columns of numbers are periods, such as months."""
    return len(numbers) > 1 and all(map(_PERIOD.fullmatch, numbers))


def long_form(file: PrintedFile, wide: str, labels: Collection[str]) -> PrintedFile:
    """Return one row per cell of a table whose columns of numbers are labels of a dimension."""
    columns = [name for name in file.header if name not in labels and is_number(file, name)]
    n, k = len(file.table), len(columns)
    kept = file.table.drop(columns=columns).iloc[np.repeat(np.arange(n), k)]
    long = replace(file, wide=wide, table=kept.assign(**{wide: as_column(np.tile(np.arange(k), n), columns)}))
    return long.with_texts(VALUE, file.table[columns].astype(object).to_numpy().ravel())


def dimensions(file: PrintedFile, names: Sequence[str], numbers: Collection[str], rule: Rule) -> list[str]:
    """Return columns of labels that are not constant, flags, notes, or other names of the labels of an earlier one."""
    dims: list[str] = []
    for name in sorted(names, key=numbers.__contains__):
        if name in numbers:  # codes, if other labels do not distinguish the rows
            are_distinct = not file.table.duplicated(dims).any() if dims else len(file.table) == 1
            if are_distinct or not all(map(str.isdigit, file.texts(name))):
                continue
        size = len(file.texts(name))
        if size == 1 or _is_flag(file, name, rule) or _OTHER.search(name):
            continue
        twins = [dim for dim in dims if len(file.texts(dim)) == size and file.determined(name, dim)]
        if not any(len(file.table[[dim, name]].drop_duplicates()) == size for dim in twins):
            dims.append(name)
    return dims


def dependent(file: PrintedFile, dims: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of columns of which the second determines the first, which has fewer labels."""
    found = []
    for name, dim in permutations(dims, 2):
        if 1 < len(file.texts(name)) < len(file.texts(dim)) and file.determined(name, dim) is not None:
            found.append((name, dim))
    return found


def _is_flag(file: PrintedFile, name: str, rule: Rule) -> bool:
    return {comparable(text) for text in file.texts(name) if text} <= set(map(comparable, rule.marks))


def refuse_overlaps(file: PrintedFile, labels: Mapping[str, Sequence[str]], exempt: Collection[str]) -> None:
    """Refuse labels of several years that contain the label of a year: persons would be counted twice."""
    for dim, names in labels.items():
        for first, last, name in _several_years({*names} - {*exempt}):
            for year in names:
                if re.fullmatch(r"\d{4}", year) and first <= int(year) <= last:
                    raise LabelError(
                        f"{file.name}: {name!r} of {dim!r} contains {year!r}, and persons would be counted twice: "
                        f"leave one out, or state --not-total {name!r} (not_totals=)"
                    )


def _several_years(names: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the first and last year of each label such as 2015-2019."""
    for name in sorted(names):
        if years := _YEARS.fullmatch(name):
            start, end = years.groups()
            yield int(start), int(start[: -len(end)] + end), name


def label_totals(file: PrintedFile, dims: Sequence[str]) -> PrintedFile:
    """Give rows with blank labels the label Total, if another column of the row has the name of a total."""
    is_total = np.zeros(len(file.table), bool)
    for name in file.header:
        texts = file.texts(name)
        if name not in dims:
            is_total |= file.table[name].isin(texts[named_totals(texts)[0]]).to_numpy()
    for dim in dims:
        blank = is_total & (file.table[dim] == "").to_numpy()
        if blank.any():
            file = file.with_texts(dim, np.where(blank, "Total", file.table[dim].to_numpy(object)))
    return file


def value_texts(file: PrintedFile, value: str, of: str | None, labels: Collection[str], rule: Rule) -> PrintedFile:
    """Return a file with clean values: flags of other columns, ranges for percentages, no separators of thousands."""
    marks = set(map(comparable, rule.marks))

    def percentage(text: str, size: str) -> str:
        if not text:
            return text
        size = _SEPARATORS.sub("", size)
        least, most = rule.bounds(size) if comparable(size) in marks else persons(size)
        if comparable(text) in marks:
            low, high = rule.bounds(text)
            return range_text(low, min(high, most))
        return str(percentages([text], [range_text(least, most)])[0])

    others = [name for name in file.header if name not in {value, of, *labels}]
    noise = [name for name in others if name.casefold().endswith("_nf")]  # noise flags of County Business Patterns
    for name in others:
        if name not in noise and _is_flag(file, name, rule):
            file = file.combined(value, name, lambda text, flag: flag or text)
    if of is not None:
        file = file.combined(value, of, percentage)
    for name in noise:
        file = file.combined(value, name, _with_noise)
    texts = file.texts(value)
    plain = [_SEPARATORS.sub("", text) if _SEPARATED.fullmatch(text) else text for text in texts]
    return file.with_texts(value, np.array(plain, dtype=object)[file.codes(value, texts.tolist())])


def _with_noise(text: str, flag: str) -> str:
    """Return the counts that noise below 2 % (flag G) or 5 % (H) changes to a number; flag J is more noise."""
    percent = {"G": 2, "H": 5}.get(flag)
    if percent is None or not text.isdigit():
        return ">=0" if flag == "J" else text
    return range_text(-(-100 * int(text) // (100 + percent)), 100 * int(text) // (100 - percent))
