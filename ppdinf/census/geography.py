"""Coordinates of cells from codes: every level of a tree by prefix, and areas off the tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from ppdinf.errors import LabelError

ROOT = "US"
"""Label of the geounit with the empty code."""

TABULATION = 16
"""Length of the tabulation block at the end of a block's code: state 2, county 3, tract 6, block group 1, block 4."""

_ENDS = {"tabulation_state": 2, "tabulation_county": 5, "tabulation_tract": 11, "tabulation_block_group": 12}


def tree(leaves: Sequence[str], widths: Mapping[str, int], dim: str) -> dict[str, tuple[str, list[str]]]:
    """Return the geounit of every leaf at each higher level, a prefix of its code.

    Parameters
    ----------
    leaves : sequence of str
        Codes of equal width.
    widths : mapping of str to int
        Width of the codes of each higher level, ``{"county": 8, "tract": 13}``.
    dim : str
        Dimension of the leaves, ``"block"``.

    Returns
    -------
    dict of str to (str, list of str)
        Coordinates for ``Measurements(..., coords=...)``: ``inv.groups("tract")`` then states the sums of tracts, and
        ``inv.hierarchy("county", "tract")`` the sums of counties and tracts.

    Raises
    ------
    LabelError
        Codes of different widths, or not longer than the codes of higher levels; a repeated code.

    See Also
    --------
    ppdinf.census.read_nmf, ppdinf.census.off_spine_areas

    Examples
    --------
    >>> from ppdinf.census import tree
    >>> tree(["44001A1", "44001A2", "44003B1"], {"county": 5, "tract": 6}, "block")["county"]
    ('block', ['44001', '44001', '44003'])
    """
    number_of_widths = len(set(map(len, leaves)))
    if number_of_widths != 1 or len(set(leaves)) < len(leaves):
        raise LabelError(f"the codes of {dim!r} must have one width and differ from each other")
    by_width = sorted(widths, key=lambda level: widths[level])
    ends = [*(widths[level] for level in by_width), len(leaves[0])]
    if any(a >= b for a, b in pairwise(ends)):
        raise LabelError(
            f"codes must become longer from level to level, found {dict(zip([*by_width, dim], ends, strict=True))}"
        )
    return {level: (dim, [named(code[: widths[level]]) for code in leaves]) for level in by_width}


def off_spine_areas(blocks: Sequence[str]) -> dict[str, tuple[str, list[str]]]:
    """Return the tabulation areas of blocks, which are unions of blocks but not geounits of the tree.

    Parameters
    ----------
    blocks : sequence of str
        Codes of blocks, the dimension ``"block"``; the last 16 characters are the tabulation block.

    Returns
    -------
    dict of str to (str, list of str)
        Coordinates ``tabulation_state``, ``_county``, ``_tract`` and ``_block_group``, for sums of draws such as
        ``posterior.summary(inv.groups("tabulation_tract"))``. User-defined areas, such as places, are mappings of
        blocks: ``inv.groups("block", places)``.

    Raises
    ------
    LabelError
        A code does not end in 16 digits.

    See Also
    --------
    ppdinf.census.tree, ppdinf.census.read_nmf

    Examples
    --------
    >>> from ppdinf.census import off_spine_areas
    >>> off_spine_areas(["0441000700491024400701070233001"])["tabulation_tract"]
    ('block', ['44007010702'])
    """
    ends = [code[-TABULATION:] for code in blocks]
    for code, end in zip(blocks, ends, strict=True):
        if len(end) < TABULATION or not end.isdigit():
            raise LabelError(f"block {code!r} does not end in the {TABULATION} digits of a tabulation block")
    return {name: ("block", [code[:width] for code in ends]) for name, width in _ENDS.items()}


def named(code: str) -> str:
    """Return the label of a geounit: its code, or `ROOT` for the empty code."""
    return code or ROOT


def one_width(codes: Iterable[str], level: str, where: str) -> int:
    """Return the width of the codes of a level."""
    by_width = {len(code): code for code in codes}
    if len(by_width) > 1:
        raise LabelError(
            f"{where} has geocodes of several widths at level {level}: {', '.join(map(repr, by_width.values()))}"
        )
    return next(iter(by_width))
