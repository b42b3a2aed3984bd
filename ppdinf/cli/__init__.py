"""The command line for common tasks of curators and analysts.

Rule: one command per file. Commands use the public names of `ppdinf`, which are imported on first use, and import other
slow modules inside functions.

file_commands       ``ppdinf check``, ``key``, ``sign`` and ``doctor``: verification of release files, keys, signatures
                    and the installation.
infer_commands      ``ppdinf infer`` and ``ppdinf demo``: a posterior, a table and a report from a release.
plain_output        Output of the command line: stages, warnings and errors, one plain line each.
plan_command        ``ppdinf plan``: the error for each privacy loss, and the loss for a required error.
published_commands  ``ppdinf read``, ``audit`` and ``denoise``: what published tables state and disclose, and their
                    counts with intervals.
release_commands    ``ppdinf release``, ``counts`` and ``session``: publishable files from confidential tables, and
                    their budget.
reproduce_command   ``ppdinf reproduce``: reproducible case studies.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ppdinf import __version__
from ppdinf.cli.file_commands import check, doctor, key, sign
from ppdinf.cli.infer_commands import demo, infer
from ppdinf.cli.plain_output import PlainErrors
from ppdinf.cli.plan_command import plan
from ppdinf.cli.published_commands import audit, denoise, read
from ppdinf.cli.release_commands import counts, release, session
from ppdinf.cli.reproduce_command import reproduce

__all__ = ["app"]

app = typer.Typer(
    cls=PlainErrors,
    no_args_is_help=True,
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
    **read** and **audit** are for a published table. **check**, **infer** and **denoise** are for the analyst, who has
    the release or any other published table. **demo** runs the whole workflow. **doctor** checks the installation.
    """


for command in (demo, plan, release, counts, sign, check, infer, read, denoise, audit, reproduce, doctor):
    app.command()(command)
app.add_typer(session, name="session")
app.add_typer(key, name="key")
