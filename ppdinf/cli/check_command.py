"""``ppdinf check``: what a release file says, after checking that no byte of it changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

import ppdinf as ppd
from ppdinf.cli.plain_output import notes, paragraphs, stdout

__all__ = ["check"]

SHOWN = 20
WHO = {
    "drawn": "It says that ppdinf's release() drew the noise. Nothing in a file can prove that: ask who made it.",
    "stated": "Nobody says that a mechanism drew it: the promise below is stated by whoever made the file.",
    "unknown": "It is of an earlier version, which did not write down whether a mechanism drew the noise.",
}


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE.ppd", help="Release file.")],
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE.pub", help="Public key of who is said to have signed it, from their own pages."),
    ] = None,
) -> None:
    """Check that a release file is whole and say what is in it: public sums, guarantee, how the noise was drawn.

    That a file is whole says nothing of who made it: its promise is as good as the word of those you have it from.
    """
    console = stdout()
    signed = None if key is None else _signed(file, key)
    release = ppd.measurements.read_published(file)
    notes(console, f"{file.name} is whole: every part matches its digest.")
    if signed is not None:
        notes(console, f"Signed by the holder of the key {signed}: they vouch for every byte of it.")
    if isinstance(release, ppd.Measurements):
        notes(console, f"It holds what somebody says was published, and promises nothing: {release!r}")
        return
    sizes = ", ".join(f"{dim} ({size})" for dim, size in zip(release.dims, release.shape, strict=True))
    below = int((release.table < 0).sum())
    notes(console, WHO[release.provenance])
    notes(console, f"{release.frame.size} cells by {sizes}; {below} of them below zero.")
    covariates = [name for name in release.frame.coords if name not in release.dims]
    if covariates:
        notes(console, f"Published with it: {', '.join(covariates)}.")

    report = release.check()
    if len(report):
        table = Table("public sum", "value", "noisy table", title=None, header_style="bold")
        for name, row in report.head(SHOWN).iterrows():
            table.add_row(escape(str(name)), f"{row['public']:,}", "keeps it" if row["agrees"] else f"{row['found']:,}")
        console.print(table)
        if len(report) > SHOWN:
            notes(console, f"... and {len(report) - SHOWN} more.")
        kept = int(report["agrees"].sum())
        notes(console, f"The noisy table keeps {kept} of {len(report)} public sums.")
    paragraphs(console, "Guarantee", release.guarantee.describe())
    paragraphs(console, "Noise", str(release.plan) if release.plan else "the file does not say how it was drawn")


def _signed(file: Path, key: Path) -> str:
    from ppdinf.releases.signatures import fingerprint, verify

    verify(file, key)
    return fingerprint(key)
