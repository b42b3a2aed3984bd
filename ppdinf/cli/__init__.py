"""The command line: what curators and analysts do most, without writing Python.

Rule: one command a file; public names are those of `ppdinf`, which load when a command uses them, and what else is
heavy loads inside the command that needs it.

check_command      ``ppdinf check``: what a release file says, after checking that no byte of it changed
counts_command     ``ppdinf counts``: a release whose histogram of counts survives
demo_command       ``ppdinf demo``: the whole road, from a confidential table to a report
denoise_command    ``ppdinf denoise``: counts with intervals from releases of one table, without a model
infer_command      ``ppdinf infer``: from a release to a posterior, a table and a report
key_command        ``ppdinf key`` and ``ppdinf sign``: a key pair, and signatures of release files
plain_output       how the command line speaks: stages, warnings and errors, each in one plain line
plan_command       ``ppdinf plan``: which privacy loss gives which error, and which an error needs, before any is
                   spent
release_command    ``ppdinf release``: from a confidential table to a file that may be published
reproduce_command  ``ppdinf reproduce``: case studies that can be run again
session_command    ``ppdinf session``: a budget for many releases of the same people, begun and shown
"""

from __future__ import annotations

from typing import Annotated

import typer

from ppdinf import __version__
from ppdinf.cli.check_command import check
from ppdinf.cli.counts_command import counts
from ppdinf.cli.demo_command import demo
from ppdinf.cli.denoise_command import denoise
from ppdinf.cli.infer_command import infer
from ppdinf.cli.key_command import key, sign
from ppdinf.cli.plain_output import PlainErrors
from ppdinf.cli.plan_command import plan
from ppdinf.cli.release_command import release
from ppdinf.cli.reproduce_command import reproduce
from ppdinf.cli.session_command import session

__all__ = ["app"]

app = typer.Typer(
    cls=PlainErrors,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ppdinf {__version__}")
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Publish tables of counts with privacy noise that keeps public totals exact, and analyse such releases.

    **plan**, **session**, **release**, **counts** and **sign** are for the curator, who holds the confidential table.
    **check**, **infer** and **denoise** are for the analyst, who holds the release. **demo** does all three.
    """


app.command()(demo)
app.command()(plan)
app.command()(release)
app.command()(counts)
app.command()(sign)
app.command()(check)
app.command()(infer)
app.command()(denoise)
app.command()(reproduce)
app.add_typer(session, name="session")
app.add_typer(key, name="key")
