"""``ppdinf denoise``: counts with intervals from published numbers of one table, without a data model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import ppdinf as ppd
from ppdinf._internal.atomic_files import require_replaceable
from ppdinf.cli.plain_output import notes, paragraphs, plain_warnings, stdout
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
from ppdinf.errors import PpdinfError

SHOWN = 20


def denoise(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="A CSV file, a file of measurements, or releases of one table.")
    ],
    output: Annotated[Path, typer.Option(help="Table of the results, .csv or .parquet. An existing file is replaced.")],
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
    by: Annotated[
        list[str] | None,
        typer.Option(help="Dimension or coordinate to sum by; repeat for more. Default: every cell."),
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws per chain, of two chains.", min=10)] = 1000,
    report: Annotated[Path | None, typer.Option(help="Page with figures, .html. An existing file is replaced.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the analysis. The noise of a release has no seed.", min=0)] = 1,
) -> None:
    """Estimate counts from releases of a table, its measurements, or a CSV file, without a data model.

    The values of a CSV file are counts, ranges such as 1-9 and <5, and suppression marks.

    Every draw satisfies all public statements, and no count is negative. The level, effects and sparsity of the prior
    are estimated from the published data. Exit code 1 if the chains disagree. After Ctrl-C, the results use the
    finished draws.
    """
    from ppdinf.denoising.denoised import require_columns, require_name

    require_name(output)
    for path in [output, *([] if report is None else [report])]:
        require_replaceable(path)
    if report is not None and report.resolve() == output.resolve():
        raise PpdinfError(f"--output and --report name the same file, {output.name}: choose two names")
    statement = ppd.invariants.margin(*by) if by else None
    console = stdout()
    found = read_table(
        files, value, dims, coords, noise, clipped, rounded, suppressed, marks, empty, sums, public, not_total
    )
    published = found if isinstance(found, ppd.Measurements) else ppd.Measurements.of_releases(found)
    require_columns(published, statement)
    with plain_warnings(console):
        denoised = ppd.denoise(published, draws, rng=seed)
    table = denoised.summary(statement)
    denoised.save(output, statement)
    paragraphs(console, "Counts, with 90 % intervals", table.head(SHOWN).round(1).to_string())
    if len(table) > SHOWN:
        notes(console, f"... and {len(table) - SHOWN} more.")
    notes(console, f"Wrote {output.name}: {len(table)} rows.")
    if report is not None:
        denoised.report(report, statement)
        notes(console, f"Wrote {report.name}.")
    drawn = denoised.draws.sizes["draw"]
    if drawn < draws:
        notes(console, f"Interrupted: the results use the first {drawn} of {draws} draws of each chain.")
    for problem in denoised.problems:
        notes(console, problem)
    if denoised.problems:
        raise typer.Exit(1)
