"""Counts in files whose errors name their place."""

from __future__ import annotations

from ppdinf.datasets.table_file import parse_count
from ppdinf.errors import CountError


def count_at(where: str, text: str) -> int:
    """Read a count; the error of an invalid count does not show it."""
    try:
        return parse_count(text)
    except CountError as error:
        raise CountError(f"{where}: {error}") from None
