"""Names for what libraries pass around without a type, so that a signature says what it takes.

What has a type says so; for the rest there are these names. `Any` is left where a library decides what it passes.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

__all__ = ["Array", "Json", "Symbolic"]

type Array = NDArray[Any]
"""Array of whatever numbers users gave: integers of any size, reals, exact rationals, labels."""

type Json = dict[str, Any]
"""Object of a JSON file, as `json` reads it."""

type Symbolic = Any
"""A number, an array, or a variable of PyTensor: formulas are written once for all three, with no type in common."""
