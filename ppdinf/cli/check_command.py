"""``ppdinf check``: verification and contents of a release file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

import ppdinf as ppd
from ppdinf._internal.visible_text import visible
from ppdinf.cli.plain_output import notes, paragraphs, stdout
from ppdinf.errors import SignatureError

SHOWN = 20
WHO = {
    "drawn": "The file states that ppdinf's release() drew the noise. A file cannot prove this: trust its creator.",
    "stated": "The file does not state that a mechanism drew the noise: its creator states the guarantee below.",
    "unknown": "The file is of an earlier version, which did not record whether a mechanism drew the noise.",
}


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE.ppd", help="Release file, or the index of a release in parts.")],
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE.pub", help="Public key of the signer, from the signer's own publication."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title that the signer must have stated.")] = None,
    period: Annotated[str | None, typer.Option(help="Period that the signer must have stated.")] = None,
) -> None:
    """Verify a release file and show its contents: public sums, guarantee, description of the noise.

    A verified file is complete and unchanged. It does not prove who made it: its guarantee is as good as its source.
    """
    from ppdinf.releases.part_index import HOLDS, read_index
    from ppdinf.releases.sealed import has_field

    console = stdout()
    if key is None and (title is not None or period is not None):
        raise SignatureError("--title and --period are parts of a signature: give the public key of the signer, --key")
    signed = None if key is None else _signed(file, key, title, period)
    release = read_index(file) if has_field(file, "holds", HOLDS) else ppd.measurements.read_published(file)
    if isinstance(release, ppd.releases.ReleaseParts):
        for label in release:
            release.verified_file(label)
    notes(console, f"{file.name} is complete: every part matches its digest.")
    if signed is not None:
        notes(console, signed)
    if isinstance(release, ppd.releases.ReleaseParts):
        notes(console, f"A release of {release.guarantee.cells} cells in {len(release)} files by {release.by}.")
        paragraphs(console, "Guarantee", release.guarantee.describe())
        return
    if isinstance(release, ppd.Measurements):
        notes(console, f"It holds measurements as stated by its creator, without a guarantee: {release!r}")
        return
    sizes = ", ".join(f"{dim} ({size})" for dim, size in zip(release.dims, release.shape, strict=True))
    below = int((release.table < 0).sum())
    notes(console, WHO[release.provenance])
    notes(console, f"{release.frame.size} cells by {sizes}; {below} of them are negative.")
    covariates = [name for name in release.frame.coords if name not in release.dims]
    if covariates:
        notes(console, f"Published covariates: {', '.join(covariates)}.")

    report = release.check()
    if len(report):
        table = Table("public sum", "value", "noisy table", title=None, header_style="bold")
        for name, row in report.head(SHOWN).iterrows():
            table.add_row(
                escape(visible(str(name))), f"{row['public']:,}", "the same" if row["agrees"] else f"{row['found']:,}"
            )
        console.print(table)
        if len(report) > SHOWN:
            notes(console, f"... and {len(report) - SHOWN} more.")
        kept = int(report["agrees"].sum())
        notes(console, f"The noisy table keeps {kept} of {len(report)} public sums.")
    paragraphs(console, "Guarantee", release.guarantee.describe())
    paragraphs(console, "Noise", str(release.plan) if release.plan else "the file does not state how it was drawn")


def _signed(file: Path, key: Path, title: str | None, period: str | None) -> str:
    """Verify the signature of a file; return a sentence on who signed it as what."""
    from ppdinf.releases.signatures import fingerprint, verify

    stated = verify(file, key, title=title, period=period)
    signed = f"Signed by the holder of the key {fingerprint(key)}: the signature covers every byte"
    if stated.kind is None:
        return f"{signed}. It is of an earlier version and states neither title nor period."
    return f"{signed}, the title {stated.title!r} and the period {stated.period!r} of this {stated.kind} file."
