"""Output of the command line: stages, warnings and errors, one plain line each."""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

from ppdinf._internal.values import visible
from ppdinf.errors import PpdinfError, PrivacyWarning


class PlainErrors(TyperGroup):
    """Commands that print one line instead of a traceback: exit code 1 after expected errors, 130 after Ctrl-C."""

    def invoke(self, ctx: typer.Context) -> object:
        """Run the command; with ``--debug``, errors are raised."""
        try:
            return super().invoke(ctx)
        except (PpdinfError, OSError) as error:
            if ctx.params.get("debug") or isinstance(error, BrokenPipeError):  # a closed pipe ends the command quietly
                raise
            text = " ".join(str(error).split())
            file, home = Path(str(getattr(error, "filename", None))), Path.home()
            if ".pytensor" in file.parts or (file == home and not home.exists()):  # the folder of compiled models
                text += ": set PYTENSOR_FLAGS=base_compiledir=FOLDER, where FOLDER can be written"
            Console(stderr=True, soft_wrap=True, highlight=False).print(f"[bold red]Error:[/] {shown(text)}")
            raise typer.Exit(1) from None
        except (KeyboardInterrupt, SystemError) as error:
            # Ctrl-C within a function that numba compiled is a SystemError
            if isinstance(error, SystemError) and not isinstance(error.__cause__, KeyboardInterrupt):
                raise
            Console(stderr=True).print("Interrupted.")
            raise typer.Exit(130) from None


def stdout() -> Console:
    """Return a console for the output of a command; new each time, because tests and pipes change stdout."""
    return Console(highlight=False)


def shown(text: str) -> str:
    """Escape text for a console: markup in brackets, and control characters other than line feeds."""
    return escape(visible(text, lines=True))


def quoted(path: Path | str) -> str:
    """Return a path as it must be typed in a shell."""
    return shlex.quote(str(path))


def notes(text: str) -> None:
    """Print text with labels or messages, without markup in brackets."""
    stdout().print(shown(text))


def wrote(path: Path, rows: int = 0) -> None:
    """Print the name of a written file."""
    table = f": {rows} rows" if rows else ""
    notes(f"Wrote {quoted(path.name)}{table}.")


def paragraphs(title: str, text: str) -> None:
    """Print a heading and the text below it."""
    stdout().print(f"\n[bold]{title}[/]")
    stdout().print(shown(text))


def print_table(columns: Iterable[object], rows: Iterable[Iterable[object]]) -> None:
    """Print rows of values as text."""
    table = Table(*map(str, columns), header_style="bold")
    for row in rows:
        table.add_row(*(escape(visible(str(value))) for value in row))
    stdout().print(table)


@contextmanager
def stage(doing: str, *, shows_progress: bool = False) -> Iterator[None]:
    """Print a stage while it runs, unless it shows its progress, and its duration."""
    console, started = stdout(), time.perf_counter()
    if not console.is_terminal:
        console.print(f"{shown(doing)} ...")  # status lines require a terminal
    with nullcontext() if shows_progress else console.status(shown(doing)):
        yield
    console.print(f"[green]done[/] {shown(doing)} [dim]({time.perf_counter() - started:.1f} s)[/]")


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print each warning once, as a line; `ppdinf.diagnose` also returns its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield
    for text in dict.fromkeys(str(entry.message) for entry in caught if issubclass(entry.category, PrivacyWarning)):
        stdout().print(f"[bold yellow]Warning:[/] {shown(text)}")
