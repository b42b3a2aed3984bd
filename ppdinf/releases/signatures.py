"""Ed25519 signatures of files.

A digest shows that a file was damaged, but not who made it: whoever edits a file can compute a new digest. Only the
holder of the private key can compute an Ed25519 signature of the file. The signature is stored next to the file as
``FILE.sig``, 64 bytes; the file does not change. Release files are canonical, and every byte is verified when they are
read, so a signature of the bytes is a signature of the content. Keys are PEM files, so OpenSSL can verify a signature:
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

from ppdinf._internal.atomic_files import write_atomically
from ppdinf.errors import SignatureError

__all__ = ["fingerprint", "new_key", "sign", "verify"]


def new_key(path: str | PathLike[str], *, passphrase: str | None = None) -> str:
    """Make a key pair: the private key in a file that only its owner may read, the public key next to it.

    Parameters
    ----------
    path : str or path
        Path of the private key; the public key is ``path`` with ``.pub`` added. Neither file may exist.
    passphrase : str, optional
        Without a passphrase, everyone who can read the file can sign.

    Returns
    -------
    str
        Fingerprint of the public key. Publish it where readers trust it, for example on the agency's web pages.

    Raises
    ------
    FileExistsError
        A file of this name exists: keys are never overwritten.
    WriteError
        The file cannot be written.
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
    public_path = _public(path)
    if path.exists() or public_path.exists():
        raise FileExistsError(
            f"{path.name} or {public_path.name} exists: keys are not overwritten, choose another name"
        )
    write_atomically(path, private.private_bytes(pem, form.PrivateFormat.PKCS8, hidden), overwrite=False, mode=0o600)
    try:
        write_atomically(public_path, public, overwrite=False)
    except BaseException:
        path.unlink()  # a pair without its public key is useless
        raise
    return fingerprint(public_path)


def sign(path: str | PathLike[str], key: str | PathLike[str], *, passphrase: str | None = None) -> Path:
    """Sign a file: its signature is written next to it and replaces an existing signature.

    Parameters
    ----------
    path : str or path
        File to sign, such as a file that `ppdinf.Release.save` wrote.
    key : str or path
        Private key, from `new_key` or another tool that writes Ed25519 keys as PEM.
    passphrase : str, optional

    Returns
    -------
    Path
        Path of the signature.

    Raises
    ------
    SignatureError
        `key` is not a private Ed25519 key, or its passphrase is missing or wrong.
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
        raise SignatureError(f"{Path(key).name} is not a private key in PEM, or the passphrase is wrong") from None
    if not isinstance(private, _ed25519().Ed25519PrivateKey):
        raise SignatureError(f"{Path(key).name} is not an Ed25519 key: make one with ppdinf key new")
    write_atomically(_signature(path), private.sign(data))
    return _signature(path)


def verify(path: str | PathLike[str], key: str | PathLike[str]) -> None:
    """Verify that the holder of a key signed a file.

    Parameters
    ----------
    path : str or path
        File to verify; its signature is next to it.
    key : str or path
        Public key, obtained from its owner's publication: a key that came with the file proves nothing.

    Raises
    ------
    SignatureError
        The signature is missing or invalid for this file and key; or `key` is not a public Ed25519 key.
    OSError
        A file cannot be read.
    """
    path = Path(path)
    data, public = path.read_bytes(), _load(key)
    from cryptography.exceptions import InvalidSignature

    if not _signature(path).exists():
        raise SignatureError(f"{path.name} is not signed: {_signature(path).name} is missing next to it")
    signature = _signature(path).read_bytes()
    try:
        public.verify(signature, data)
    except InvalidSignature:
        raise SignatureError(
            f"the signature of {path.name} is not valid for the key {fingerprint(key)}: the file, its signature or the "
            "key was changed; do not use the file, get new copies of all three"
        ) from None


def fingerprint(key: str | PathLike[str]) -> str:
    """Return the fingerprint of a public key: SHA-256 of its 32 bytes, in 16 groups of 4."""
    form = _serialization()
    digest = hashlib.sha256(_load(key).public_bytes(form.Encoding.Raw, form.PublicFormat.Raw)).hexdigest()
    return " ".join(digest[k : k + 4] for k in range(0, 64, 4))


def _load(key: str | PathLike[str]) -> Any:
    try:
        public = _serialization().load_pem_public_key(Path(key).read_bytes())
    except ValueError:
        public = None
    if not isinstance(public, _ed25519().Ed25519PublicKey):
        raise SignatureError(f"{Path(key).name} is not a public Ed25519 key in PEM, as ppdinf key new writes to .pub")
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
