"""``ppdinf plan``: the error for each privacy loss, and the loss for a required error."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

import ppdinf as ppd
from ppdinf._internal.atomic_files import write_atomically
from ppdinf._internal.rationals import as_fraction
from ppdinf.cli.plain_output import notes, quoted, stdout
from ppdinf.cli.published_commands import NOT_TOTAL, REPORT, names_in
from ppdinf.cli.release_commands import NORM, PUBLIC, read_statements
from ppdinf.errors import LabelError, PrivacyError, WriteError

if TYPE_CHECKING:
    import pandas as pd
    from xarray import DataArray

    from ppdinf.mechanisms.error_plan import ErrorPlan, Family
    from ppdinf.privacy.guarantee import Guarantee


def plan(
    table: Annotated[
        Path | None, typer.Argument(metavar="TABLE.csv", help="Table with one row per cell; only labels are used.")
    ] = None,
    count: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of counts, which are not used.")] = None,
    dims: Annotated[str | None, typer.Option(metavar="COLUMNS", help="Columns of labels.")] = None,
    shape: Annotated[
        str | None,
        typer.Option(metavar="NAME=SIZE,...", help="Dimensions instead of a table, such as **county=67,sex=2**."),
    ] = None,
    epsilon: Annotated[
        list[str] | None, typer.Option(help="Loss of Laplace noise; repeat to compare. Default: several common values.")
    ] = None,
    rho: Annotated[list[str] | None, typer.Option(help="zCDP loss of Gaussian noise; repeat to compare.")] = None,
    norm: NORM = "l1",
    public: PUBLIC = None,
    not_total: NOT_TOTAL = None,
    size: Annotated[
        list[int] | None, typer.Option(help="Count for which to state the coefficient of variation; default 10, 100.")
    ] = None,
    gap: Annotated[
        list[int] | None, typer.Option(help="Distance of a count from a limit, and between two counts; default 10.")
    ] = None,
    cv: Annotated[
        str | None, typer.Option(help="Find the loss for this coefficient of variation, such as **10%**.")
    ] = None,
    at: Annotated[int | None, typer.Option(help="Count at which **--cv** holds.")] = None,
    figure: Annotated[Path | None, typer.Option(help="File of a figure, .png, .pdf or .svg.")] = None,
    report: REPORT = None,
) -> None:
    """Show the error for each privacy loss: standard deviation, 90 % half-width, relative error by cell size.

    Also shows how often noise reverses an order. The result depends on labels, or the shape, and the public statements.
    It does not depend on any count and costs no privacy. With **--cv 10% --at 50**, shows the loss that this error
    requires.
    """
    from ppdinf.mechanisms.error_plan import LOSSES

    if (cv is None) != (at is None):
        raise PrivacyError("--cv is the largest relative error, --at its count: give both, or neither")
    share = None if cv is None else _share(cv)
    statements, groups = read_statements(public or [], [])
    labels = _labels(table, count, dims, shape, groups, not_total or [])
    families: dict[str, tuple[Family, list[str]]] = {}
    if epsilon or not rho:
        families["epsilon"] = lambda e: ppd.GeneralizedLaplace(statements, e, norm), epsilon or list(LOSSES)
    if rho:
        families["rho"] = lambda loss: ppd.GeneralizedGaussian(statements, rho=loss), rho
    sizes, gaps = size or ([10, 100] if at is None else [at]), gap or [10]
    plans = {
        name: ppd.plan(family, labels, losses, sizes=sizes, gaps=gaps) for name, (family, losses) in families.items()
    }
    answers = {}
    for name, each in plans.items() if cv is not None else ():
        loss = each.loss_for(cv=share, at=at)
        answer, meaning = f"{cv} at {at} persons requires {name} = {loss}.", each.guarantee(loss).describe_unit()
        answers[answer] = meaning
        notes(f"{answer} {meaning}\n")
    tables, explanation = tables_of(plans, sizes, gaps)
    show_tables(tables, explanation)
    if figure is not None:
        _draw(plans, figure, share, at)
        notes(f"Figure: {quoted(figure)}.")
    if report is not None:
        from ppdinf.report import write_plan

        write_plan(plans, report, answers=answers, tables=tables, explanation=explanation, cv=share, at=at)
        notes(f"Report: {quoted(report)}.")


def _one_person(guarantee: Guarantee) -> tuple[str, str]:
    """Format the largest loss of one person, and the factor of the odds that it permits."""
    from ppdinf.privacy.unit_loss import factor_of, format_loss, round_up

    loss, delta = guarantee.loss_of_unit, guarantee.delta_of_unit
    if loss == math.inf:
        return "no limit", "no limit"
    delta_shown = f", delta = {round_up(delta)}" if delta else ""
    return f"{format_loss(loss)}{delta_shown}", f"x {factor_of(loss)}" if guarantee.rho is None else ""


def _draw(plans: dict[str, ErrorPlan], figure: Path, cv: str | None, at: int | None) -> None:
    kind, data = figure.suffix.lower().removeprefix("."), io.BytesIO()
    if kind not in ("png", "pdf", "svg"):
        raise WriteError(f"{figure.name} must end in .png, .pdf or .svg")
    ppd.plots.plot_plan(plans, cv=cv, at=at).savefig(data, format=kind)
    write_atomically(figure, data.getvalue())


def _labels(
    table: Path | None, count: str | None, dims: str | None, shape: str | None, groups: list[str], not_total: list[str]
) -> DataArray | dict[str, int]:
    """Read the labels of a table, or a shape such as ``county=67,sex=2``."""
    if (table is None) == (shape is None):
        raise LabelError("give either TABLE.csv with --count and --dims, or --shape NAME=SIZE,...")
    if table is not None:
        if count is None or dims is None:
            raise LabelError("for TABLE.csv, name the column of counts (--count) and the columns of labels (--dims)")
        return ppd.datasets.read_table(
            table, count=count, dims=names_in(dims), coordinates=groups, not_totals=not_total
        )
    sizes = {}
    for text in (shape or "").split(","):
        name, equals, number = (part.strip() for part in text.partition("="))
        if not equals or not name or name in sizes or not number.isdecimal() or not 0 < int(number) < 10**9:
            raise LabelError(f"--shape {shape!r} must be written NAME=SIZE,NAME=SIZE, each name once")
        sizes[name] = int(number)
    return sizes


def _share(text: str) -> str:
    """Convert ``10%`` to ``10e-2``; numbers above 1 require the percent sign."""
    if text.endswith("%"):
        return f"{text[:-1].strip()}e-2"
    if as_fraction(text, "--cv") > 1:
        raise PrivacyError(f"--cv {text} is above 1: state it in percent, as --cv {text}%, or as a fraction below 1")
    return text


EXPLANATION = (
    "One person loses: the largest loss by one release, if counted in another cell, and the factor by which it changes "
    "the odds. CV: standard deviation of the noise divided by the count. Across: probability that a count at this "
    "distance from a limit is released beyond it. Order: probability that two counts at this distance are released in "
    "the reverse order. No count of the table was used."
)


def tables_of(plans: dict[str, ErrorPlan], sizes: list[int], gaps: list[int]) -> tuple[dict[str, pd.DataFrame], str]:
    """Return a table as text for each kind of cells that have noise of the same distribution, and its explanation."""
    import pandas as pd

    columns = {f"cv_{size}": f"CV of {size:,}" for size in sizes}
    columns |= {f"across_{gap}": f"across {gap:,}" for gap in gaps}
    columns |= {f"swap_{gap}": f"order {gap:,}" for gap in gaps}
    rows: dict[str, list[dict[str, str]]] = {}
    simulated = tied = False
    for name, each in plans.items():
        for (loss, kind), row in zip(each.table.index, each.table.to_dict("records"), strict=True):
            guarantee = each.guarantee(loss)
            simulated |= not row["exact"]
            tied |= bool(guarantee.unprotected)
            loses, odds = _one_person(guarantee)
            shares = {shown: f"{row[key]:.1%}" if row[key] == row[key] else "" for key, shown in columns.items()}
            entries = {"loss": f"{name} = {loss}", "one person loses": loses, "odds": odds, "sd": f"{row['sd']:.2f}"}
            within = {"90 % within": f"±{row['support_radius']:g}"}
            rows.setdefault(f"Cells: {row['cells']} {kind}", []).append(entries | within | shares)
    explanation = EXPLANATION
    if tied:
        explanation += "\nSeveral persons whose changes keep the public sums only together can lose more than one."
    if simulated:
        explanation += "\nWhere public sums cross, and for l2 noise, from simulated noise, accurate to 2 %."
    return {title: pd.DataFrame(lines) for title, lines in rows.items()}, explanation


def show_tables(tables: dict[str, pd.DataFrame], explanation: str) -> None:
    """Print the tables of plans."""
    for title, table in tables.items():
        shown = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, padding=0)
        for column in table.columns:
            shown.add_column(str(column), overflow="fold", no_wrap=column == "loss", justify="right")
        for row in table.itertuples(index=False, name=None):
            shown.add_row(*row)
        stdout().print(shown)
    notes(explanation)
