"""Arrays that users pass: masks, missing values and entries that are not numbers are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.types import Array
from ppdinf.errors import PpdinfError, PrivacyError


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


def _is_masked(data: object) -> bool:
    return isinstance(data, np.ma.MaskedArray) or (isinstance(data, list | tuple) and any(map(_is_masked, data)))
