"""Signatures of files: who vouches for them, by a key that only they hold.

A digest shows that a file was damaged, not who made it: whoever edits one can write a new digest. An Ed25519 signature
of the whole file, which nobody without the private key can make, lies beside it as ``FILE.sig``: 64 bytes, and the file
stays as it is. Release files are canonical, every byte of them checked when they are read, so that the signature of the
bytes is one of what they say. Keys are PEM files, as other tools write them; so OpenSSL can check a signature, too:
``openssl pkeyutl -verify -pubin -inkey agency.key.pub -rawin -in FILE -sigfile FILE.sig``.

References
----------
S. Josefsson, I. Liusvaara, "Edwards-curve digital signature algorithm", RFC 8032.
"""

from __future__ import annotations

import hashlib
from os import PathLike
from pathlib import Path
from typing import Any

from ppdinf._internal.atomic_files import write_whole
from ppdinf.errors import SignatureError

__all__ = ["fingerprint", "new_key", "sign", "verify"]


def new_key(path: str | PathLike[str], *, passphrase: str | None = None) -> str:
    """Make a key pair: the private key in a file that its owner alone may read, the public one beside it.

    Parameters
    ----------
    path : str or path
        Of the private key; the public one is ``path`` with ``.pub`` added. Neither may exist.
    passphrase : str, optional
        Without it whoever can read the file can sign.

    Returns
    -------
    str
        Fingerprint of the public key, to be published where readers trust it: on the agency's own pages, in print.

    Raises
    ------
    FileExistsError
        There is a file of that name: keys are never overwritten.
    WriteError
        It cannot be written.
    SignatureError
        The package cryptography is not installed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = new_key(Path(folder, "agency.key"))
    ...     made == fingerprint(Path(folder, "agency.key.pub"))
    True
    """
    keys, path = _ed25519(), Path(path)
    private = keys.Ed25519PrivateKey.generate()
    pem, form = _serialization().Encoding.PEM, _serialization()
    hidden = form.BestAvailableEncryption(passphrase.encode()) if passphrase else form.NoEncryption()
    public = private.public_key().public_bytes(pem, form.PublicFormat.SubjectPublicKeyInfo)
    beside = _public(path)
    if path.exists() or beside.exists():
        raise FileExistsError(f"{path.name} or {beside.name} exists: keys are not overwritten, choose another name")
    write_whole(path, private.private_bytes(pem, form.PrivateFormat.PKCS8, hidden), overwrite=False, mode=0o600)
    try:
        write_whole(beside, public, overwrite=False)
    except BaseException:
        path.unlink()  # half a pair is none
        raise
    return fingerprint(beside)


def sign(path: str | PathLike[str], key: str | PathLike[str], *, passphrase: str | None = None) -> Path:
    """Sign a file as it is: its signature is written beside it, over one that is there.

    Parameters
    ----------
    path : str or path
        Of the file, such as one that `ppdinf.Release.save` wrote.
    key : str or path
        Private key, from `new_key` or any tool that writes Ed25519 keys as PEM.
    passphrase : str, optional

    Returns
    -------
    Path
        Of the signature.

    Raises
    ------
    SignatureError
        `key` is no private Ed25519 key, or its passphrase is missing or another one.
    OSError
        A file cannot be read or written.
    """
    path, form = Path(path), _serialization()
    data = path.read_bytes()
    try:
        private = form.load_pem_private_key(Path(key).read_bytes(), None if passphrase is None else passphrase.encode())
    except TypeError:
        need = "needs its passphrase" if passphrase is None else "has no passphrase"
        raise SignatureError(f"{Path(key).name} {need}") from None
    except ValueError:
        raise SignatureError(f"{Path(key).name} is no private key in PEM, or the passphrase is another one") from None
    if not isinstance(private, _ed25519().Ed25519PrivateKey):
        raise SignatureError(f"{Path(key).name} is a key of another kind: make one with ppdinf key new")
    write_whole(_signature(path), private.sign(data))
    return _signature(path)


def verify(path: str | PathLike[str], key: str | PathLike[str]) -> None:
    """Check that a file is what the holder of a key has signed.

    Parameters
    ----------
    path : str or path
        Its signature lies beside it.
    key : str or path
        Public key, from where its owner publishes it: one that came with the file proves nothing.

    Raises
    ------
    SignatureError
        There is no signature, or not one of this file by this key; or `key` is no public Ed25519 key.
    OSError
        A file cannot be read.
    """
    path = Path(path)
    data, public = path.read_bytes(), _load(key)
    from cryptography.exceptions import InvalidSignature

    if not _signature(path).exists():
        raise SignatureError(f"{path.name} is not signed: there is no {_signature(path).name} beside it")
    signature = _signature(path).read_bytes()
    try:
        public.verify(signature, data)
    except InvalidSignature:
        raise SignatureError(
            f"{path.name} is not what the key {fingerprint(key)} has signed: the file, its signature or the key is "
            "another one; do not use it, get all three afresh"
        ) from None


def fingerprint(key: str | PathLike[str]) -> str:
    """Fingerprint of a public key: SHA-256 of its 32 bytes, in 16 groups of 4."""
    form = _serialization()
    digest = hashlib.sha256(_load(key).public_bytes(form.Encoding.Raw, form.PublicFormat.Raw)).hexdigest()
    return " ".join(digest[k : k + 4] for k in range(0, 64, 4))


def _load(key: str | PathLike[str]) -> Any:
    try:
        public = _serialization().load_pem_public_key(Path(key).read_bytes())
    except ValueError:
        public = None
    if not isinstance(public, _ed25519().Ed25519PublicKey):
        raise SignatureError(f"{Path(key).name} is no public Ed25519 key in PEM, as ppdinf key new writes it to .pub")
    return public


def _public(path: Path) -> Path:
    return path.with_name(f"{path.name}.pub")


def _signature(path: Path) -> Path:
    return path.with_name(f"{path.name}.sig")


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise SignatureError("signatures need the package cryptography: pip install 'ppdinf[sign]'") from None
    return ed25519


def _serialization() -> Any:
    _ed25519()
    from cryptography.hazmat.primitives import serialization

    return serialization
