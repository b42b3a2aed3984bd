"""Construction of frozen values from files, and families of classes that files name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Self

from ppdinf._internal.types import Json
from ppdinf.errors import PrivacyError


def assign(value: object, **attributes: object) -> None:
    """Set attributes of a frozen dataclass during its construction."""
    for name, given in attributes.items():
        object.__setattr__(value, name, given)


def construct[T](make: Callable[..., T], parameters: Json, what: str) -> T:
    """Call a constructor with the parameters in a file."""
    try:
        inspect.signature(make).bind(**parameters)
    except TypeError:
        names = ", ".join(map(repr, parameters))
        raise PrivacyError(f"{what} does not have the parameters {names}") from None
    return make(**parameters)


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
