"""The command line for common tasks of curators and analysts.

Rule: one command per file. Commands use the public names of `ppdinf`, which are imported on first use, and import other
slow modules inside functions.

audit_command      ``ppdinf audit``: the counts that a published or planned table discloses.
check_command      ``ppdinf check``: verification and contents of a release file.
counts_command     ``ppdinf counts``: a release that preserves the histogram of counts.
demo_command       ``ppdinf demo``: the complete workflow from a confidential table to a report.
denoise_command    ``ppdinf denoise``: counts with intervals from published numbers of one table, without a data model.
infer_command      ``ppdinf infer``: a posterior, a table and a report from a release.
key_command        ``ppdinf key`` and ``ppdinf sign``: a key pair, and signatures of release files.
plain_output       Output of the command line: stages, warnings and errors, one plain line each.
published_options  Options of commands that read published tables from CSV files, or from files by ppdinf.
plan_command       ``ppdinf plan``: the error for each privacy loss, and the loss for a required error.
release_command    ``ppdinf release``: a publishable file from a confidential table.
reproduce_command  ``ppdinf reproduce``: reproducible case studies.
session_command    ``ppdinf session``: a budget for many releases of the same people.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ppdinf import __version__
from ppdinf.cli.audit_command import audit
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
    **audit** is for a suppressed or rounded table. **check**, **infer** and **denoise** are for the analyst, who holds
    the release or any other published table. **demo** runs the whole workflow.
    """


app.command()(demo)
app.command()(plan)
app.command()(release)
app.command()(counts)
app.command()(sign)
app.command()(check)
app.command()(infer)
app.command()(denoise)
app.command()(audit)
app.command()(reproduce)
app.add_typer(session, name="session")
app.add_typer(key, name="key")
