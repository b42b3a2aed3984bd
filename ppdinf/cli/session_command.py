"""``ppdinf session``: one budget for many releases of the same people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

import ppdinf as ppd
from ppdinf._internal.visible_text import visible
from ppdinf.cli.plain_output import loss_shown, notes, paragraphs, stdout
from ppdinf.cli.release_command import read_labels
from ppdinf.errors import PrivacyError

if TYPE_CHECKING:
    from rich.console import Console

FILE = Annotated[Path, typer.Argument(metavar="FILE", help="Session file, such as **cases.budget**.")]

session = typer.Typer(no_args_is_help=True, help="One budget for many releases of the same people.")


@session.command("begin")
def begin(
    file: FILE,
    epsilon: Annotated[str | None, typer.Option(help="Budget of Laplace noise, per unit of distance.")] = None,
    delta: Annotated[str | None, typer.Option(help="Budget for the sum of deltas; requires epsilon.")] = None,
    rho: Annotated[str | None, typer.Option(help="Budget of zCDP loss, per unit of squared distance.")] = None,
    unit: Annotated[str, typer.Option(help="Protected unit, in the singular.")] = "person",
    contributions: Annotated[int, typer.Option(help="Maximal number of records of one unit in each table.")] = 1,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:PARTS",
            help="Partition of the people into disjoint parts, such as **region:north,south**: the largest loss of "
            "the parts counts.",
        ),
    ] = None,
) -> None:
    """Begin a session with one budget for all releases.

    The command first prints the largest loss of one person under this budget. A person counted in another cell is an
    l1 distance of 2, so a budget of epsilon = 2 permits a loss of 4. Draw each release with **ppdinf release --session
    FILE**; the losses per unit of distance add up. The file contains the spent budget and nothing confidential. Protect
    the file: anybody who changes or copies it can spend the budget again.
    """
    if epsilon is None and rho is None:
        raise PrivacyError("a session requires a budget: --epsilon, --epsilon and --delta, or --rho")
    if file.exists():
        raise FileExistsError(f"{file} exists: show it with ppdinf session show {file}, or choose another name")
    parts = read_labels(partition, "--partition") if partition else None
    budget = {"epsilon": epsilon, "delta": delta, "rho": rho}
    show_session(stdout(), ppd.Session.open(file, **budget, unit=unit, contributions=contributions, partition=parts))


@session.command("show")
def show(file: FILE) -> None:
    """Print the spent budget of each release and the remaining budget. Every line of the file is verified."""
    show_session(stdout(), ppd.Session.open(file))


def show_session(console: Console, opened: ppd.Session) -> None:
    """Print what a session has spent, what is left, and its releases."""
    left, spent, releases = opened.left, opened.spent, opened.table()
    together = opened.guarantee if len(releases) and (releases["outcome"] != "void").any() else None
    if together is not None:
        notes(console, f"All releases: {together.describe_unit()}")
    notes(console, opened.budget.describe(opened.unit, opened.contributions))
    records = "1 record" if opened.contributions == 1 else f"up to {opened.contributions} records"
    notes(console, f"Protects one {opened.unit} with {records} in each table.")
    notes(console, f"Budget per unit of {'squared ' * ('rho' in left)}distance, or between neighbours:")
    for name, total in opened.budget.total.items():
        notes(
            console,
            f"{name}: {loss_shown(spent[name])} of {loss_shown(total)} spent, {loss_shown(left[name])} remaining.",
        )
    if len(releases):
        releases = releases.drop(columns=["public", "per"])  # the guarantee below says both
        table = Table("release", *map(str, releases.columns), header_style="bold")
        for number, row in releases.iterrows():
            texts = [f"{value:.6g}" if isinstance(value, float) else escape(visible(str(value))) for value in row]
            table.add_row(str(number), *texts)
        console.print(table)
    if together is not None:
        paragraphs(console, "Guarantee of all releases", together.describe())
    notes(console, f"Digest of the last line: {opened.digest} (record it elsewhere to detect removed last lines)")
