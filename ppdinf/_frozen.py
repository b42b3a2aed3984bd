"""Frozen values whose constructors read what they are given, from users and from files."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ppdinf.errors import PrivacyError

__all__ = ["assign", "made"]


def assign(value: Any, **attributes: Any) -> None:
    """Set attributes of a frozen dataclass while it is being made."""
    for name, given in attributes.items():
        object.__setattr__(value, name, given)


def made[T](make: Callable[..., T], parameters: dict[str, Any], what: str) -> T:
    """Make something of parameters that a file names.

    Raises
    ------
    PrivacyError
        It has other parameters.

    Examples
    --------
    >>> made(lambda epsilon: 2 * epsilon, {"epsilon": 3}, "noise")
    6
    """
    try:
        inspect.signature(make).bind(**parameters)
    except TypeError:
        names = ", ".join(map(repr, parameters))
        raise PrivacyError(f"{what} does not have the parameters {names}") from None
    return make(**parameters)
