"""``ppdinf audit``: the counts that a published or planned table discloses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import ppdinf as ppd
from ppdinf._internal.atomic_files import require_replaceable, write_atomically
from ppdinf.cli.plain_output import notes, paragraphs, stdout
from ppdinf.cli.published_options import (
    CLIPPED,
    COORDS,
    DIMS,
    EMPTY,
    MARKS,
    NOISE,
    NOT_TOTAL,
    PUBLIC,
    ROUNDED,
    SUMS,
    SUPPRESSED,
    VALUE,
    read_table,
)

SHOWN = 20


def audit(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="A CSV file, a file of measurements, or releases of one table.")
    ],
    value: VALUE = None,
    dims: DIMS = None,
    coords: COORDS = None,
    noise: NOISE = None,
    clipped: CLIPPED = None,
    rounded: ROUNDED = None,
    suppressed: SUPPRESSED = None,
    marks: MARKS = None,
    empty: EMPTY = None,
    sums: SUMS = None,
    public: PUBLIC = None,
    not_total: NOT_TOTAL = None,
    output: Annotated[
        Path | None, typer.Option(help="Table of all cells with their bounds, .csv. An existing file is replaced.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Time limit of integer programmes.", min=0)] = 300.0,
) -> None:
    """Find the smallest and largest count of every cell, and cells that are not published but determined.

    Exit code 1 if the table discloses a count that it does not publish, or if the time was not sufficient to exclude
    this.
    """
    if output is not None:
        require_replaceable(output)
    console = stdout()
    data = read_table(
        files, value, dims, coords, noise, clipped, rounded, suppressed, marks, empty, sums, public, not_total
    )
    seen = data if isinstance(data, ppd.Measurements) else ppd.Measurements.of_releases(data)
    found = ppd.identified_bounds(seen, seconds=seconds)
    disclosed, open_cells = found[found.disclosed], found[~found.exact]
    several = int((found.lower < found.upper).sum())
    have = "has" if several == 1 else "have"
    notes(console, f"{_cells(len(found))}; {several} {have} more than one possible count.")
    if len(disclosed):
        title = f"{_cells_are(len(disclosed))} not published, but determined"
        paragraphs(console, title, disclosed.lower.rename("count").head(SHOWN).to_string())
        if len(disclosed) > SHOWN:
            notes(console, f"... and {len(disclosed) - SHOWN} more.")
    else:
        notes(console, "No cell that is not published is determined.")
    for sentence in seen.possible_totals() if several else ():  # determined cells need no total
        notes(console, sentence)
    if len(open_cells):
        notes(console, f"{_cells_are(len(open_cells))} undecided after {seconds:g} s: allow more by --seconds.")
    if output is not None:
        write_atomically(output, found.to_csv())
        notes(console, f"Wrote {output.name}: {len(found)} rows.")
    if len(disclosed) or len(open_cells):
        raise typer.Exit(1)


def _cells(number: int) -> str:
    return "1 cell" if number == 1 else f"{number} cells"


def _cells_are(number: int) -> str:
    return f"{_cells(number)} {'is' if number == 1 else 'are'}"
