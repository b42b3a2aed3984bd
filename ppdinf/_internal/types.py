"""Type names for values that libraries pass without a type.

Values with a type use it. `Any` remains where a library determines the type.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

type Array = NDArray[Any]
"""Array of numbers or labels given by users: integers of any size, reals, exact rationals, strings."""

type Json = dict[str, Any]
"""Object of a JSON file, as `json` returns it."""

type Symbolic = Any
"""A number, an array, or a PyTensor variable, for formulas that apply to all three."""
