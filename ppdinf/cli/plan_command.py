"""``ppdinf plan``: which privacy loss gives which error, and which an error needs, before any of it is spent."""

from __future__ import annotations

import io
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

import ppdinf as ppd
from ppdinf._internal.atomic_files import write_whole
from ppdinf.cli.plain_output import notes, stdout
from ppdinf.cli.release_command import NORM, PUBLIC, read_statements
from ppdinf.errors import LabelError, PrivacyError, WriteError

if TYPE_CHECKING:
    from rich.console import Console
    from xarray import DataArray

    from ppdinf.invariants import Public
    from ppdinf.mechanisms.error_plan import ErrorPlan, Family
    from ppdinf.mechanisms.table_mechanism import TableMechanism

__all__ = ["plan"]


def plan(
    table: Annotated[
        Path | None, typer.Argument(metavar="TABLE.csv", help="Table whose labels are looked at, one row per cell.")
    ] = None,
    count: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of counts, which are not used.")] = None,
    dims: Annotated[str | None, typer.Option(metavar="COLUMNS", help="Columns that span the table.")] = None,
    shape: Annotated[
        str | None,
        typer.Option(metavar="NAME=SIZE,...", help="Instead of a table: its dimensions, such as **county=67,sex=2**."),
    ] = None,
    epsilon: Annotated[
        list[str] | None, typer.Option(help="Loss of Laplace noise; repeat to compare. Some usual ones by default.")
    ] = None,
    rho: Annotated[list[str] | None, typer.Option(help="zCDP loss of Gaussian noise; repeat to compare.")] = None,
    norm: NORM = "l1",
    public: PUBLIC = None,
    size: Annotated[
        list[int] | None, typer.Option(help="Count to state the coefficient of variation of; 10 and 100 by default.")
    ] = None,
    gap: Annotated[
        list[int] | None,
        typer.Option(help="How far a count is from a limit, and two counts apart; 10 by default."),
    ] = None,
    cv: Annotated[
        str | None,
        typer.Option(help="The other way round: the loss for this coefficient of variation, as **10%**."),
    ] = None,
    at: Annotated[int | None, typer.Option(help="Count that **--cv** is meant at.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw it, as .png, .pdf or .svg.")] = None,
) -> None:
    """Show which privacy loss gives which error: standard deviation, 90 % half-width, relative error by cell size.

    Also how often noise turns an order around. From the labels of a table, or its shape alone, and what is public: the
    answer does not depend on any count, and costs no privacy. With **--cv 10% --at 50**, the loss that
    this error needs.
    """
    from ppdinf.mechanisms.error_plan import LOSSES

    if (cv is None) != (at is None):
        raise PrivacyError("--cv says how large the error may be, --at of which count: give both, or none")
    console = stdout()
    statements, groups = read_statements(public or [], [])
    labels = _labels(table, count, dims, shape, groups)
    families: dict[str, tuple[Family, list[str]]] = {}
    if epsilon or not rho:
        families["epsilon"] = _laplace(ppd.GeneralizedLaplace, statements, norm), epsilon or list(LOSSES)
    if rho:
        families["rho"] = lambda loss: ppd.GeneralizedGaussian(statements, rho=loss), rho
    sizes, gaps = size or ([10, 100] if at is None else [at]), gap or [10]
    found = {
        name: ppd.plan(family, labels, losses, sizes=sizes, gaps=gaps) for name, (family, losses) in families.items()
    }
    for name, each in found.items():
        for loss in each.table.index.unique("loss"):
            notes(console, _one_person(each, name, loss))
    _show(console, found, sizes, gaps)
    if cv is not None:
        for name, each in found.items():
            loss = each.loss_for(cv=_share(cv), at=at)
            notes(console, f"{_one_person(each, name, loss)} {cv} at {at} persons takes {name} = {loss}.")
    if figure is not None:
        _draw(found, figure)
        notes(console, f"Drawn in {figure}.")


def _one_person(found: ErrorPlan, name: str, loss: Fraction | str) -> str:
    """State how much one person can lose, and the loss per unit of distance that leads to it."""
    return f"{found.guarantee(loss).describe_unit()} This is the loss of one release with {name} = {loss}."


def _laplace(kind: Callable[..., TableMechanism], statements: Public, norm: str) -> Family:
    return lambda loss: kind(statements, epsilon=loss, norm=norm)


def _draw(found: dict[str, ErrorPlan], figure: Path) -> None:
    kind, data = figure.suffix.lower().removeprefix("."), io.BytesIO()
    if kind not in ("png", "pdf", "svg"):
        raise WriteError(f"{figure.name} ends in none of .png, .pdf, .svg")
    ppd.plots.plot_plan(found).savefig(data, format=kind)
    write_whole(figure, data.getvalue())


def _labels(
    table: Path | None, count: str | None, dims: str | None, shape: str | None, groups: list[str]
) -> DataArray | dict[str, int]:
    """Read the labels of a table, or a shape such as ``county=67,sex=2``."""
    if (table is None) == (shape is None):
        raise LabelError("give TABLE.csv with --count and --dims, or --shape NAME=SIZE,..., one of the two")
    if table is not None:
        if count is None or dims is None:
            raise LabelError("of TABLE.csv, say which column counts (--count) and which span the table (--dims)")
        return ppd.datasets.read_table(
            table, count=count, dims=[name.strip() for name in dims.split(",")], coordinates=groups
        )
    sizes = {}
    for text in (shape or "").split(","):
        name, equals, number = (part.strip() for part in text.partition("="))
        if not equals or not name or name in sizes or not number.isdecimal() or not 0 < int(number) < 10**9:
            raise LabelError(f"--shape {shape!r} is not written NAME=SIZE,NAME=SIZE, each name once")
        sizes[name] = int(number)
    return sizes


def _share(text: str) -> str:
    """Read ``10%`` as ``10e-2``."""
    return f"{text[:-1].strip()}e-2" if text.endswith("%") else text


def _show(console: Console, found: dict[str, ErrorPlan], sizes: list[int], gaps: list[int]) -> None:
    columns = {f"cv_{size}": f"CV of {size:,}" for size in sizes}
    columns |= {f"across_{gap}": f"across a limit {gap:,} away" for gap in gaps}
    columns |= {f"swap_{gap}": f"order of two {gap:,} apart" for gap in gaps}
    shown = Table(header_style="bold")
    for column in ("loss", "cells", "sd", "90 % within", *columns.values()):
        shown.add_column(column, no_wrap=column in ("loss", "sd"))
    simulated = False
    for name, each in found.items():
        for (loss, kind), row in zip(each.table.index, each.table.to_dict("records"), strict=True):
            simulated |= not row["exact"]
            shares = [f"{row[column]:.1%}" if row[column] == row[column] else "" for column in columns]
            within = f"±{row['support_radius']:g}"
            shown.add_row(f"{name} = {loss}", f"{row['cells']} {kind}", f"{row['sd']:.2f}", within, *shares)
    console.print(shown)
    notes(console, "CV: standard deviation of the noise over the count. The last columns: how probably noise turns the")
    notes(console, "order around. No count of the table was used.")
    if simulated:
        notes(console, "Where public sums cross, and for l2 noise, from simulated noise: right to about 2 %.")
