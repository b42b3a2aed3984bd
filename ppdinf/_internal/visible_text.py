"""Text that a terminal shows unchanged: control characters could move its cursor, hide lines or imitate output."""

from __future__ import annotations

import unicodedata

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


def _is_visible(c: str) -> bool:
    return c not in DIRECTIONS and unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp")
