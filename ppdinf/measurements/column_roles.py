"""Which columns of a published table are labels, published values, flags of values, and neither."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any

import numpy as np

from ppdinf._internal.values import Flags
from ppdinf.datasets.printed_file import VALUE, PrintedFile, as_column
from ppdinf.errors import CountError, LabelError
from ppdinf.rules.rule import Rule
from ppdinf.tables.count_ranges import comparable, range_text
from ppdinf.tables.percentages import percentages, persons
from ppdinf.tables.totals import named_totals

type Names = Sequence[str]
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
_ZEROS, _LOST_ZERO = re.compile(r"fips|zip|geo_?id", re.I), re.compile(r"[1-9](\d{3}|\d{9}|\d{13})?")
_IS_ZERO = r"\W*(?:is|are|means?|denotes?|indicates?|represents?|stands for)?\W*(?:an? )?(?:zero|nil|none|0)\b"
_YEARS = re.compile(r"((?:19|20)\d\d)\s*(?:-|–|/|to)\s*((?:19|20)?\d\d)|(\d{4})")
_SEPARATED, _SEPARATORS = re.compile(r"[+-]?[0-9]{1,3}(?:[, \u00a0\u202f][0-9]{3})+"), re.compile(r"[, \u00a0\u202f]")


def _years(name: str) -> tuple[int, int, str] | None:
    """Return the first and last year of a label such as 2015-2019 or 2019, and the label."""
    if (years := _YEARS.fullmatch(name)) is None:
        return None
    start, end, year = years.groups()
    return int(year or start), int(year or start[: -len(end)] + end), name


def is_number(file: PrintedFile, name: str) -> bool:
    """Return whether a column has numbers, ranges and marks, and the name and texts are not those of codes or years."""
    numbers = [text for text in map(str.strip, file.texts(name)) if any(c.isdigit() for c in text)]
    is_code = _CODES.search(name) or any(re.fullmatch(r"0\d+", text) for text in numbers)
    return bool(numbers) and not is_code and all(_PRINTED.fullmatch(text) for text in numbers)


def recognized(
    file: PrintedFile, value: str | None, dims: Names | None, coords: Names, others: Any, wide: str | None, rule: Rule
) -> tuple[PrintedFile, str, Names, Names]:
    """Return a file with one row per cell, its column of values, its dimensions and its coordinates."""
    labelled = {*(dims or ()), *coords}
    numbers = [name for name in file.header if is_number(file, name) and name not in {*others, *labelled}]
    if wide is None and value is None and len(numbers) > 1 and all(map(_PERIOD.fullmatch, numbers)):
        wide = PERIOD
        file.notes.append(f"Labels of {wide!r} in the header: {numbers[0]} to {numbers[-1]}.")
    file = filled_down(file, [name for name in file.header if name not in {value, *others, *numbers}], rule)
    if wide is not None:
        file, value, numbers = long_form(file, wide, labelled), VALUE, []
    value = value or value_column(file, numbers)
    if dims is None:
        free = [name for name in file.header if name not in {value, *others, *coords}]
        dims = dimensions(file, free, numbers, rule)
        for name, dim in dependent(file, dims):
            file.notes.append(
                f"The labels of {name!r} depend on {dim!r}: it is a coordinate, --coords {name} (coords=)."
            )
            coords, dims = [*coords, *({name} - {*coords})], [other for other in dims if other != name]
        unused = [name for name in free if name not in {*dims, *coords}]
        if unused:
            file.notes.append(f"Columns that are not labels or values: {', '.join(unused)}.")
    for name in {*dims, *coords} & {*filter(_ZEROS.search, file.header)}:
        for code in [code for code in file.texts(name) if _LOST_ZERO.fullmatch(code)][:1]:
            file.notes.append(
                f"Codes of {name!r} such as {code!r} seem to lack a leading zero, as in spreadsheets: write codes as "
                "text, and equal in all files."
            )
    return file, value, dims, coords


def filled_down(file: PrintedFile, names: Sequence[str], rule: Rule) -> PrintedFile:
    """Return a table whose merged labels, which only the first row of each block has, are in each row."""
    names = [name for name in names if not _is_flag(file, name, rule) and not _OTHER.search(name)]
    filled, merged = file, dict[str, Flags]()
    for name in names:
        is_first = (file.table[name] != "").to_numpy()
        block = np.cumsum(is_first) - 1
        # labels of blocks are distinct within the block of an outer label, and two blocks have several rows
        is_merged = is_first[0] and np.unique(block[~is_first]).size > 1
        is_nested = not any((outer & ~is_first).any() for outer in merged.values())
        if is_merged and is_nested and not filled.table.loc[is_first, [*merged, name]].duplicated().any():
            filled = filled.with_texts(name, file.table[name].to_numpy(object)[is_first][block])
            merged[name] = is_first
    if not merged or filled.table.duplicated(names).any():
        return file
    file.notes.append(f"Merged labels, filled down: {', '.join(merged)}.")
    return filled


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
    sizes = {name: len(file.texts(name)) for name in dims}
    pairs = [(name, dim) for name, dim in permutations(dims, 2) if 1 < sizes[name] < sizes[dim]]
    return [(name, dim) for name, dim in pairs if file.determined(name, dim) is not None]


def _is_flag(file: PrintedFile, name: str, rule: Rule) -> bool:
    return {comparable(text) for text in file.texts(name) if text} <= set(map(comparable, rule.marks))


def refuse_overlaps(file: PrintedFile, labels: Mapping[str, Sequence[str]], exempt: Collection[str]) -> None:
    """Refuse periods of years that overlap: persons would be counted twice. School years share only one end."""
    for dim, names in labels.items():
        if all(re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", name) for name in names):  # months, not years 2000 to 2011
            continue
        periods = sorted(filter(None, map(_years, {*names} - {*exempt})), key=lambda years: (years[0], -years[1]))
        for (first, last, name), (start, end, other) in pairwise(periods):
            if start < last or (start == last and (first == last or start == end)):
                raise LabelError(
                    f"{file.name}: {name!r} of {dim!r} overlaps {other!r}, and persons would be counted twice: "
                    f"leave one out, or state --not-total {name!r} (not_totals=)"
                )


def refuse_other_periods(file: PrintedFile, further: Sequence[PrintedFile]) -> None:
    """Refuse files of sums of another period, which a column names that is constant in both files."""
    for other in further:
        for name in sorted({*file.header} & {*other.header}):
            here, there = file.texts(name).tolist(), other.texts(name).tolist()
            if len(here) == len(there) == 1 and here != there and all(map(_PERIOD.fullmatch, here + there)):
                raise LabelError(
                    f"{other.name}: {name!r} is {there[0]!r}, but {here[0]!r} in {file.name}: state sums of one period"
                )


def refuse_other_meanings(file: PrintedFile, value: str, rule: Rule) -> None:
    """Refuse a mark of positive counts if a note of the file states that it is zero."""
    for mark in {*map(str, rule.marks)} & {*file.texts(value)}:
        for note in file.notes:
            if re.search(rf"(?<!\w){re.escape(mark)}{_IS_ZERO}", note, re.I) and rule.bounds(mark)[0] > 0:
                raise CountError(
                    f"{file.name}: {mark!r} has two meanings, {rule.meaning(mark)} by the rule, and 0 by a note: "
                    f"{note} State one, such as --rule \"marked({{{mark!r}: '0'}})\""
                )


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

    def flagged(text: str, flag: str) -> str:
        if flag and comparable(text) not in {*marks, "", 0.0}:
            raise CountError(
                f"{text!r} is printed, but another column has the mark {flag!r} of hidden counts: two meanings. State "
                "the marks of hidden counts, --marks (marks=), or leave the column out"
            )
        return flag or text

    others = [name for name in file.header if name not in {value, of, *labels}]
    noise = [name for name in others if name.casefold().endswith("_nf")]  # noise flags of County Business Patterns
    for name in others:
        if name not in noise and _is_flag(file, name, rule):
            file = file.with_texts(value, file.parsed(value, flagged, name))
    if of is not None:
        file = file.with_texts(value, file.parsed(value, percentage, of))
    for name in noise:
        file = file.with_texts(value, file.parsed(value, _with_noise, name))
    if any(map(_SEPARATED.fullmatch, file.texts(value))):
        file = file.with_texts(value, file.parsed(value, _without_separators))
    return file


def _without_separators(text: str) -> str:
    return _SEPARATORS.sub("", text) if _SEPARATED.fullmatch(text) else text


def _with_noise(text: str, flag: str) -> str:
    """Return the counts that noise below 2 % (flag G) or 5 % (H) changes to a number; flag J is more noise."""
    percent = {"G": 2, "H": 5}.get(flag)
    if percent is None or not text.isdigit():
        return ">=0" if flag == "J" else text
    return range_text(-(-100 * int(text) // (100 + percent)), 100 * int(text) // (100 - percent))
