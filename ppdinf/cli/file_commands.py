"""``ppdinf check``, ``key``, ``sign``, ``doctor``: verification of release files, signatures and the installation."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import ppdinf as ppd
from ppdinf.cli.plain_output import notes, paragraphs, print_table, quoted, shown, stdout
from ppdinf.errors import SignatureError

SHOWN = 20
WHO = {
    "drawn": "The file states that ppdinf's release() drew the noise. A file cannot prove this: trust its creator.",
    "stated": "The file does not state that a mechanism drew the noise: its creator states the guarantee below.",
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

    if key is None and (title is not None or period is not None):
        raise SignatureError("--title and --period are parts of a signature: give the public key of the signer, --key")
    signed = None if key is None else _signed(file, key, title, period)
    release = read_index(file) if has_field(file, "holds", HOLDS) else ppd.measurements.read_ppd(file)
    if isinstance(release, ppd.releases.ReleaseParts):
        for label in release:
            release.verified_file(label)
    notes(f"{file.name} is complete: every part matches its digest.")
    if signed is not None:
        notes(signed)
    if isinstance(release, ppd.releases.ReleaseParts):
        notes(f"A release of {release.guarantee.cells} cells in {len(release)} files by {release.by}.")
        paragraphs("Guarantee", release.guarantee.describe())
        return
    if isinstance(release, ppd.Measurements):
        notes(f"It holds measurements as stated by its creator, without a guarantee: {release!r}")
        return
    sizes = ", ".join(f"{dim} ({size})" for dim, size in zip(release.dims, release.shape, strict=True))
    below = int((release.table < 0).sum())
    notes(WHO[release.provenance])
    notes(f"{release.frame.size} cells by {sizes}; {below} of them are negative.")
    covariates = [name for name in release.frame.coords if name not in release.dims]
    if covariates:
        notes(f"Published covariates: {', '.join(covariates)}.")

    report = release.check()
    if len(report):
        found = np.where(report["agrees"], "the same", report["found"].map("{:,}".format))
        rows = zip(report.index, report["public"].map("{:,}".format), found, strict=True)
        print_table(("public sum", "value", "noisy table"), list(rows)[:SHOWN])
        if len(report) > SHOWN:
            notes(f"... and {len(report) - SHOWN} more.")
        kept = int(report["agrees"].sum())
        notes(f"The noisy table keeps {kept} of {len(report)} public sums.")
    paragraphs("Guarantee", release.guarantee.describe())
    paragraphs("Noise", str(release.plan) if release.plan else "the file does not state how it was drawn")


def _signed(file: Path, key: Path, title: str | None, period: str | None) -> str:
    """Verify the signature of a file; return a sentence on who signed it as what."""
    from ppdinf.releases.signatures import fingerprint, verify

    stated = verify(file, key, title=title, period=period)
    signed = f"Signed by the holder of the key {fingerprint(key)}: the signature covers every byte"
    return f"{signed}, the title {stated.title!r} and the period {stated.period!r} of this {stated.kind} file."


key = typer.Typer(no_args_is_help=True, help="A key pair to sign release files with, and its fingerprint.")


@key.command("new")
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Private key to write; the public key is FILE.pub.")],
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help="Protect the private key with a passphrase.")
    ] = False,
) -> None:
    """Make a key pair: keep FILE secret, publish FILE.pub and its fingerprint where your readers trust them."""
    from ppdinf.releases.signatures import new_key

    secret = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True) if passphrase else None
    made = new_key(file, passphrase=secret)
    public = quoted(f"{file}.pub")
    notes(f"Written: {quoted(file)} (private: its holder can sign as you) and {public} (public).")
    notes(f"Fingerprint: {made}")


@key.command("show")
def show(file: Annotated[Path, typer.Argument(metavar="FILE.pub", help="Public key.")]) -> None:
    """Print the fingerprint of a public key, for comparison with the publication of its owner."""
    from ppdinf.releases.signatures import fingerprint

    notes(f"Fingerprint: {fingerprint(file)}")


def sign(
    file: Annotated[Path, typer.Argument(metavar="FILE.ppd", help="Release file.")],
    key: Annotated[Path, typer.Option(metavar="FILE", help="Private key; see **ppdinf key new**.")],
    title: Annotated[str, typer.Option(help="Description of the counts, such as 'Cases by county'.", prompt=True)],
    period: Annotated[str, typer.Option(help="Period of the counts, such as 2024-01.", prompt=True)],
) -> None:
    """Sign a release file: write FILE.ppd.sig, to be published together with the file.

    The signature is for this title and period. Everyone can verify it with **ppdinf check FILE.ppd --key FILE.pub**.
    """
    from ppdinf.releases.signatures import sign as signed

    stated = {"title": title, "period": period}
    try:
        made = signed(file, key, **stated)
    except SignatureError as error:
        if not str(error).endswith("needs its passphrase"):
            raise
        made = signed(file, key, **stated, passphrase=typer.prompt("Passphrase", hide_input=True))
    notes(f"Signed: {quoted(made)} is the signature of {file.name} with the title {title!r} and the period {period!r}.")


OPTIONAL = {"nutpie": "nutpie", "numpyro": "jax", "blackjax": "jax", "cryptography": "sign", "pyarrow": "census"}
"""Packages and the extras that install them."""


def doctor() -> None:
    """Check this installation: versions, optional samplers, folders of compiled code, and compilation.

    Needs no network and no file. Each failure is printed with its remedy; exit code 1 if there is one.
    """
    packages = [(name, metadata.version(name)) for name in ("ppdinf", "pymc", "pytensor", "numba", "numpy")]
    notes(", ".join(f"{name} {number}" for name, number in packages))
    for package, extra in OPTIONAL.items():
        missing = f"not installed, and optional: pip install 'ppdinf[{extra}]'"
        notes(f"{package}: {metadata.version(package) if find_spec(package) else missing}")
    failures = 0
    for what, (compiled, remedy) in COMPILED.items():
        try:
            stdout().print(shown(f"{what}: {compiled()}"), soft_wrap=True)  # paths in one piece, to be copied
        except Exception as error:  # every failure is reported
            failures += 1
            stdout().print(f"[bold red]Failed:[/] {what}: {shown(str(error))}")
            notes(f"Remedy: {remedy}")
    if failures:
        raise typer.Exit(1)


def _kernels() -> str:
    """Compile the noise of a small table, and return the folder of its machine code."""
    from ppdinf._internal.numba_jit import cache_folder

    ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1).simulate([3, 4, 5], draws=2, rng=1)
    try:
        return f"compiled, and kept in {quoted(cache_folder())}."
    except RuntimeError:
        return "compiled, but not kept: set NUMBA_CACHE_DIR=FOLDER, where FOLDER can be written."


def _models() -> str:
    """Compile a function of PyTensor, and return the folder of its machine code."""
    import pytensor

    number = pytensor.tensor.dscalar()
    pytensor.function([number], number + 1)(1.0)
    return f"compiled, and kept in {quoted(pytensor.config.compiledir)}."


WRITABLE = "=FOLDER, where FOLDER can be written; otherwise install this package again: "
COMPILED = {
    "Kernels of noise": (_kernels, f"set NUMBA_CACHE_DIR{WRITABLE}numba"),
    "Models": (_models, f"set PYTENSOR_FLAGS=base_compiledir{WRITABLE}pytensor"),
}
"""What is compiled, the check, and what to do if it fails."""
