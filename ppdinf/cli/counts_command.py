"""``ppdinf counts``: a release that preserves the histogram of counts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import ppdinf as ppd
from ppdinf.cli.plain_output import plain_warnings, stage, stdout
from ppdinf.cli.release_command import COUNT, DIMS, SESSION, TABLE, draw_release, require_new, write_release
from ppdinf.errors import CountError, PrivacyError


def counts(
    table: TABLE,
    count: COUNT,
    dims: DIMS,
    epsilon: Annotated[str, typer.Option(help="Privacy loss of both stages together, such as **1/2**.")],
    most: Annotated[int, typer.Option(help="Upper bound on the counts of all cells, chosen without use of the table.")],
    output: Annotated[Path, typer.Option(help="File to write; must not exist yet.")],
    session: SESSION = None,
    top_code: Annotated[
        bool, typer.Option("--top-code", help="Replace larger counts by the upper bound instead of refusing them.")
    ] = False,
    split: Annotated[
        str | None, typer.Option(help="Share of epsilon for the histogram; by default from a rule of thumb.")
    ] = None,
    constructor: Annotated[
        str, typer.Option(help="**best**, **sandwich**, **max**, **min**, **optimal** or **unfixed**.")
    ] = "best",
) -> None:
    """Publish a confidential table and preserve its histogram: the numbers of cells with the count 0, 1, 2, ...

    First the histogram is privatized; then every cell is drawn by a mechanism that preserves this histogram. No sum and
    no cell is exact. The noise cannot be repeated; every further release of the table adds its loss.
    """
    console = stdout()
    require_new(output)
    if most < 1:
        raise PrivacyError(f"--most must be at least 1, found {most}")
    budget = None if session is None else ppd.Session.open(session)
    mechanism = ppd.counts.TwoStage(epsilon, most + 1, split=split, constructor=constructor)
    with stage(console, f"Reading {table.name}"):
        data = ppd.datasets.read_table(table, count=count, dims=[name.strip() for name in dims.split(",")])
    if top_code:
        data = data.clip(max=most)
    elif bool((data > most).any()):
        raise CountError(f"some counts are larger than --most {most}: give a larger bound, or --top-code")
    with plain_warnings(console), stage(console, "Privatizing the histogram, then the cells"):
        made = draw_release(mechanism, data, budget, output.stem, None)
    write_release(console, made, output, f"{made.frame.size} cells with counts from 0 to {most}", budget)
