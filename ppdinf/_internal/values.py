"""Values that users and files pass: names of their types, and checks of arrays, frozen values and text."""

from __future__ import annotations

import inspect
import math
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import fields
from fractions import Fraction
from html import escape
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ppdinf.errors import PpdinfError, PrivacyError

type Array = NDArray[Any]
"""Array of numbers or labels given by users: integers of any size, reals, exact rationals, strings."""

type Integers = NDArray[np.int64]
type Reals = NDArray[np.float64]
type Flags = NDArray[np.bool_]
"""Arrays of any shape, by the type of their entries."""

type FilePath = str | PathLike[str]

type Json = dict[str, Any]
"""Object of a JSON file, as `json` returns it."""

type Symbolic = Any
"""A number, an array, or a PyTensor variable, for formulas that apply to all three."""


def unmasked(data: object, what: str, error: type[PpdinfError]) -> Array:
    """Return an array; rows of different lengths and masked arrays are refused, also within lists."""
    if _is_masked(data):
        raise error(f"{what} must not be masked: fill or drop the masked entries first")
    try:
        return np.asarray(data)
    except (TypeError, ValueError):
        raise error(f"{what} must have rows of equal length: write out every entry") from None


def numbers(data: object, what: str, error: type[PpdinfError] = PrivacyError, *, integer: bool = False) -> NDArray[Any]:
    """Return an array of finite numbers, float64 or int64."""
    found = unmasked(data, what, error)
    if found.dtype.kind not in ("iu" if integer else "iuf"):
        raise error(f"{what} must contain {'integers' if integer else 'numbers'} only, found {found.dtype}")
    if not np.isfinite(found).all():
        raise error(f"{what} must contain finite numbers only, without missing values")
    return found.astype(np.int64 if integer else np.float64)


def require_number(
    value: Any, stated: str, low: float = -math.inf, high: float = math.inf, *, kinds: Any = int | np.integer
) -> None:
    """Require an integer, or a number of other kinds, within limits; `stated` says what it must be."""
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        raise PrivacyError(f"{stated}, found {value!r}")


def require_choice(name: str, value: object, known: Iterable[str], *, default: object = ...) -> None:
    """Require one of the known values, or the default."""
    if value not in (*known, default):
        raise PrivacyError(f"{name} must be one of {[*known]}, found {value!r}")


def logarithms(p: Array) -> Reals:
    """Return the logarithms of non-negative numbers, -inf at 0."""
    with np.errstate(divide="ignore"):
        return np.log(p)


def members(labels: Array) -> list[Integers]:
    """Return the places of each label, for labels in increasing order."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1) if order.size else []


def _is_masked(data: object) -> bool:
    return isinstance(data, np.ma.MaskedArray) or (isinstance(data, list | tuple) and any(map(_is_masked, data)))


def assign(value: object, **attributes: object) -> None:
    """Set attributes of a frozen dataclass during its construction."""
    for name, given in attributes.items():
        object.__setattr__(value, name, given)


def construct[T](make: Callable[..., T], parameters: Json, what: str) -> T:
    """Call a constructor with the parameters in a file."""
    try:
        if isinstance(make, type):  # `__new__` can accept more than `__init__`
            inspect.signature(make.__init__).bind(make, **parameters)  # type: ignore[misc]
        else:
            inspect.signature(make).bind(**parameters)
    except TypeError:
        names = ", ".join(map(repr, parameters))
        raise PrivacyError(f"{what} does not have the parameters {names}") from None
    return make(**parameters)


def as_texts(value: Any, *omitted: str) -> Json:
    """Return the parameters of a dataclass, numbers as text and arrays unchanged."""
    parameters = _parameters(value, omitted)
    return {name: given if isinstance(given, np.ndarray) else str(given) for name, given in parameters.items()}


def as_plain(value: Any, *omitted: str) -> Json:
    """Return the parameters of a dataclass as JSON has them, rationals as text."""
    return {name: _plain(given) for name, given in _parameters(value, omitted).items()}


def _parameters(value: Any, omitted: tuple[str, ...]) -> Json:
    """Return the fields that are compared and not None."""
    stated = {field.name: getattr(value, field.name) for field in fields(value) if field.compare}
    return {name: given for name, given in stated.items() if given is not None and name not in omitted}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Fraction):
        return str(value)
    return value.to_dict() if hasattr(value, "to_dict") else value


def of_texts[T](make: type[T], texts: Json, what: str) -> T:
    """Call the constructor of a dataclass with the parameters in a file; annotations state which texts are numbers."""
    convert = {field.name: NUMBERS.get(str(field.type)) for field in getattr(make, "__dataclass_fields__", {}).values()}
    parameters = {name: number(text) if (number := convert.get(name)) else text for name, text in texts.items()}
    return construct(make, parameters, what)


NUMBERS: dict[str, Callable[[Any], Any]] = {"int": int, "int | None": int, "float": float}
"""Conversions of texts in files by the annotation of a field."""


class NamedInFiles:
    """A family of classes that files refer to by name, such as all laws of noise.

    The base class states which attribute holds names: ``class Law(NamedInFiles, by="name")``. Subclasses that define
    this attribute are registered under its value; other subclasses are abstract.

    Examples
    --------
    >>> class Shape(NamedInFiles, by="kind"):
    ...     pass
    >>> class Disc(Shape):
    ...     kind = "disc"
    >>> Shape._named_in({"kind": "disc"}) is Disc, Shape._named_in({"kind": "cube"})
    (True, None)
    """

    _by: ClassVar[str]
    _family: ClassVar[dict[str, type[Any]]]

    def __init_subclass__(cls, *, by: str = "", **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if by:
            cls._by, cls._family = by, {}
        elif cls._by in vars(cls):
            cls._family[vars(cls)[cls._by]] = cls

    @classmethod
    def _named_in(cls, data: object) -> type[Self] | None:
        """Return the class that plain data of a file name; None if it is unknown."""
        name = data.get(cls._by) if isinstance(data, dict) else None
        return cls._family.get(name) if isinstance(name, str) else None


DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction of the text around them."""


def is_visible(text: str) -> bool:
    """Return whether a text is one line without control characters, surrogates and changes of direction."""
    return all(map(_is_visible, text))


def visible(text: str, *, lines: bool = False) -> str:
    r"""Replace control characters by their escape sequences; with `lines`, line feeds are kept."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _is_visible(c) or (lines and c == "\n") else ascii(c)[1:-1] for c in text)


def as_html(title: str, text: str = "", table: str = "") -> str:
    """Return a title, text behind a fold, and a table that is HTML already, for notebooks."""
    folded = f"<details><summary>Details</summary><p style='white-space: pre-line'>{escape(text)}</p></details>"
    return f"<p><strong>{escape(title)}</strong></p>{folded if text else ''}{table}"


def some_of(names: Iterable[object], shown: int = 3) -> str:
    """Join the first names in a sentence, and the number of the others."""
    every = [*map(str, names)]
    more = f" and {len(every) - shown} more" if len(every) > shown else ""
    return ", ".join(every[:shown]) + more


def _is_visible(c: str) -> bool:
    return c not in DIRECTIONS and unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp")
