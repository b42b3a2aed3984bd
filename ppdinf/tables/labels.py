"""Validation of labels.

Labels are strings or integers, which every file format and R distinguish. A coordinate that is not
a dimension, such as the population density of a county, may also hold decimals. Labels that look the same are refused:
otherwise "Ohio " would silently become a second state.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Hashable
from typing import Any

import numpy as np
import pandas as pd

from ppdinf._internal.types import Array
from ppdinf.errors import LabelError

LARGEST = 2**53
"""Largest integer that every CSV, JSON and R reader keeps unchanged."""

RESERVED = {"draw", "chain", "released"}
"""Names reserved for dimensions of draws and for the column of counts in a release file."""


def as_name(name: Hashable, what: str) -> str:
    """Validate the name of a dimension or coordinate."""
    if not isinstance(name, str) or not name:
        raise LabelError(f"{what} names must be non-empty strings, found {name!r}")
    if name in RESERVED:
        raise LabelError(f"{what} {name!r} has a reserved name, which draws and releases use: rename it")
    refuse_unwritable([name], f"the {what} is called")
    return str(name)


def native(label: Any) -> Any:
    """Convert a NumPy scalar to a Python string or number."""
    return label.item() if isinstance(label, np.generic) else label


def as_labels(values: Array, name: str, what: str) -> Array:
    """Return labels as str, int64 or, for coordinates that are not dimensions, float64; refuse other types."""
    where = f"{what} {name!r} contains"
    values = values.astype(object) if values.dtype.kind in "UT" else values.copy()
    kinds = set(map(type, values.ravel())) if values.dtype == object else {values.dtype.type}
    if all(issubclass(kind, str) for kind in kinds):
        if kinds != {str}:
            values.flat = [str(label) for label in values.flat]  # NumPy strings
        texts: Collection[str] = values.ravel().tolist()
        distinct = len(set(texts))
        texts = texts if distinct == len(texts) else set(texts)
        refuse_unwritable(texts, where)
        refuse_look_alikes(texts, where)
    elif all(map(_is_whole, kinds)):
        if values.max() > LARGEST or values.min() < -LARGEST:
            raise LabelError(f"{where} a number above 2**53, which R and JSON round: write its labels as strings")
        values = values.astype(np.int64)
        distinct = pd.unique(values.ravel()).size
    elif values.dtype.kind == "f" and values.dtype.itemsize <= 8 and what != "dimension":
        not_finite = np.flatnonzero(~np.isfinite(values.ravel()))
        if not_finite.size:
            raise LabelError(
                f"{where} a missing or infinite number at position {not_finite[0]}: fill it or drop the row"
            )
        return values.astype(np.float64)
    else:
        raise LabelError(f"{where} {_foreign(values)}: {_ALLOWED[what]}")
    if what == "dimension" and distinct < values.size:
        twice = native(values[np.argmax(pd.Series(values).duplicated())])
        raise LabelError(f"{where} label {twice!r} twice: labels must be unique")
    return values


def _is_whole(kind: type) -> bool:
    return issubclass(kind, int | np.integer) and not issubclass(kind, bool | np.timedelta64)


_ALLOWED = {
    "dimension": "convert its labels to strings (dates: '2021-12'), or all of them to integers",
    "coordinate": "convert it to strings (dates: '2021-12'), integers or float64",
}


def _foreign(values: Array) -> str:
    """Name the values that are neither strings nor integers."""
    if values.dtype != object:
        return f"values of type {values.dtype}"
    known = [isinstance(label, str) or _is_whole(type(label)) for label in values.ravel()]
    if all(known):
        return "both strings and integers"
    k = known.index(False)
    return f"{type(values.ravel()[k]).__name__} at position {k}"


def refuse_unwritable(texts: Collection[str], where: str) -> None:
    """Refuse text that UTF-8 files cannot hold, and the null character, which ends text in R and C."""
    try:
        if b"\0" not in "".join(texts).encode():
            return
    except UnicodeEncodeError:
        pass
    bad = next(text for text in sorted(texts) if "\0" in text or any(0xD800 <= ord(c) < 0xE000 for c in text))
    raise LabelError(f"{where} {bad!a}, which no text file can hold: remove the null or surrogate character")


def refuse_look_alikes(texts: Collection[str], where: str) -> None:
    """Refuse distinct strings that look the same."""
    joined = f"|{'|'.join(texts)}|"
    odd_blanks = any(pair in joined for pair in ("| ", "  ", " |"))
    if joined.isascii() and joined.isprintable() and not odd_blanks:
        return  # ASCII text with single blanks is unambiguous
    first_texts: dict[str, str] = {}
    for text in sorted(texts):
        twin = first_texts.setdefault(_appearance(text), text)
        if twin is not text:
            raise LabelError(f"{where} both {text!a} and {twin!a}, which look alike: spell them alike, or distinctly")


def _appearance(text: str) -> str:
    """Return the visible form of a text: compatible forms unified, no invisible characters, single blanks."""
    plain = unicodedata.normalize("NFKC", text)
    shown = (c for c in plain if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf"))
    return " ".join("".join(shown).split())
