"""``ppdinf key`` and ``ppdinf sign``: a key pair, and signatures of release files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ppdinf.cli.plain_output import notes, stdout
from ppdinf.errors import SignatureError

__all__ = ["key", "sign"]

key = typer.Typer(no_args_is_help=True, help="A key pair to sign release files with, and its fingerprint.")


@key.command("new")
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Private key to write; FILE.pub gets the public one.")],
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help="Ask for a passphrase, without which the private key is of no use.")
    ] = False,
) -> None:
    """Make a key pair: keep FILE to yourself, publish FILE.pub and its fingerprint where your readers trust them."""
    from ppdinf.releases.signatures import new_key

    secret = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True) if passphrase else None
    made = new_key(file, passphrase=secret)
    console = stdout()
    notes(console, f"Written: {file} (private: whoever has it can sign as you) and {file}.pub (public).")
    notes(console, f"Fingerprint: {made}")


@key.command("show")
def show(file: Annotated[Path, typer.Argument(metavar="FILE.pub", help="Public key.")]) -> None:
    """Print the fingerprint of a public key, to be compared with what its owner publishes."""
    from ppdinf.releases.signatures import fingerprint

    notes(stdout(), f"Fingerprint: {fingerprint(file)}")


def sign(
    file: Annotated[Path, typer.Argument(metavar="FILE.ppd", help="Release file.")],
    key: Annotated[Path, typer.Option(metavar="FILE", help="Private key; see **ppdinf key new**.")],
) -> None:
    """Sign a release file: writes FILE.ppd.sig beside it, to be published with it.

    Anyone can then check with **ppdinf check FILE.ppd --key FILE.pub** that it is what you have signed.
    """
    from ppdinf.releases.signatures import sign as signed

    try:
        made = signed(file, key)
    except SignatureError as error:
        if not str(error).endswith("needs its passphrase"):
            raise
        made = signed(file, key, passphrase=typer.prompt("Passphrase", hide_input=True))
    notes(stdout(), f"Signed: {made} goes with {file.name}.")
