"""``ppdinf key`` and ``ppdinf sign``: a key pair, and signatures of release files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ppdinf.cli.plain_output import notes, stdout
from ppdinf.errors import SignatureError

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
    console = stdout()
    notes(console, f"Written: {file} (private: its holder can sign as you) and {file}.pub (public).")
    notes(console, f"Fingerprint: {made}")


@key.command("show")
def show(file: Annotated[Path, typer.Argument(metavar="FILE.pub", help="Public key.")]) -> None:
    """Print the fingerprint of a public key, for comparison with the publication of its owner."""
    from ppdinf.releases.signatures import fingerprint

    notes(stdout(), f"Fingerprint: {fingerprint(file)}")


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
    notes(
        stdout(), f"Signed: {made} is the signature of {file.name} with the title {title!r} and the period {period!r}."
    )
