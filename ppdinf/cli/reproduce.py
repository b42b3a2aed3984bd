"""``ppdinf reproduce``: case studies that can be run again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ppdinf.cli.plain import notes, stdout

__all__ = ["CASES", "reproduce"]

CASES: dict[str, Callable[[Path], None]] = {}
"""Case studies by name; each writes its results into a folder. This version comes with none."""


def reproduce(
    case: Annotated[str | None, typer.Argument(help="Name of a case study; without one they are listed.")] = None,
    output: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("ppdinf-reproduce"),
) -> None:
    """Run a case study again, or list those there are."""
    if case is None:
        notes(stdout(), "Case studies: " + (", ".join(sorted(CASES)) or "this version comes with none yet") + ".")
        return
    if case not in CASES:
        known = ", ".join(sorted(CASES)) or "none in this version"
        raise typer.BadParameter(f"there is no case study {case!r}; known: {known}", param_hint="CASE")
    CASES[case](output)
