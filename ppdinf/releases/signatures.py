"""Ed25519 signatures of release files and measurement files.

A digest shows that a file was damaged, but not who made it: whoever edits a file can compute a new digest. Only the
holder of the private key can compute an Ed25519 signature. ``FILE.sig`` is stored next to the file, which does not
change: 64 bytes of the signature, followed by the signed statement. The statement is one line of JSON: the kind of
file (a release, the index of a release in parts, or measurements), title and period as stated by the signer, size and
SHA-256 of the file. A signature is therefore not valid for a file of another period, even if the file is renamed.

Keys are PEM files, so OpenSSL can verify a signature: ``head -c 64 FILE.sig > signature``,
``tail -c +65 FILE.sig > statement``,
``openssl pkeyutl -verify -pubin -inkey agency.key.pub -rawin -in statement -sigfile signature``, ``sha256sum FILE``.

References
----------
S. Josefsson, I. Liusvaara, "Edwards-curve digital signature algorithm", RFC 8032.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppdinf._internal.atomic_files import as_path, write_atomically
from ppdinf._internal.values import FilePath, Json
from ppdinf.errors import SignatureError
from ppdinf.releases import sealed
from ppdinf.releases.part_index import HOLDS, read_index

LENGTH = 64  # bytes of an Ed25519 signature
VERSION = 1
MEASUREMENTS = "measurements"
READER = "ppdinf.measurements"
"""Package in a higher layer that reads releases and measurements; loaded when a file is signed."""


@dataclass(frozen=True)
class SignedStatement:
    """The statement of the signer about a file."""

    kind: str
    title: str
    period: str


def new_key(path: FilePath, *, passphrase: str | None = None) -> str:
    """Make a key pair: the private key in a file that only its owner may read, the public key next to it."""
    keys, path = _ed25519(), as_path(path, SignatureError)
    private = keys.Ed25519PrivateKey.generate()
    pem, form = _serialization().Encoding.PEM, _serialization()
    hidden = form.BestAvailableEncryption(passphrase.encode()) if passphrase else form.NoEncryption()
    public = private.public_key().public_bytes(pem, form.PublicFormat.SubjectPublicKeyInfo)
    public_path = path.with_name(f"{path.name}.pub")
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


def sign(path: FilePath, key: FilePath, *, title: str, period: str, passphrase: str | None = None) -> Path:
    """Sign a release or measurements: the signature is written next to the file and replaces an existing signature."""
    path, form = as_path(path, SignatureError), _serialization()
    for name, text in (("title", title), ("period", period)):
        if not isinstance(text, str) or not text.strip() or not text.isprintable():
            raise SignatureError(f"{name} must be text without control characters, found {text!r:.60}")
    stated = {"version": VERSION, "kind": _kind(path), "title": title, "period": period}
    statement = (json.dumps(stated | _described(path.read_bytes()), ensure_ascii=False) + "\n").encode("utf-8")
    try:
        private = form.load_pem_private_key(Path(key).read_bytes(), None if passphrase is None else passphrase.encode())
    except TypeError:
        need = "needs its passphrase" if passphrase is None else "has no passphrase"
        raise SignatureError(f"{Path(key).name} {need}") from None
    except ValueError:
        raise SignatureError(f"{Path(key).name} is not a private key in PEM, or the passphrase is wrong") from None
    if not isinstance(private, _ed25519().Ed25519PrivateKey):
        raise SignatureError(f"{Path(key).name} is not an Ed25519 key: make one with ppdinf key new")
    write_atomically(_signature(path), private.sign(statement) + statement)
    return _signature(path)


def verify(path: FilePath, key: FilePath, *, title: str | None = None, period: str | None = None) -> SignedStatement:
    """Verify that the holder of a key signed a file, and return the statement that was signed."""
    path = as_path(path, SignatureError)
    data, public = path.read_bytes(), _load(key)
    from cryptography.exceptions import InvalidSignature

    if not _signature(path).exists():
        raise SignatureError(f"{path.name} is not signed: {_signature(path).name} is missing next to it")
    whole = _signature(path).read_bytes()
    signature, statement = whole[:LENGTH], whole[LENGTH:]
    stated = _read(statement)
    try:
        public.verify(signature, statement)
    except InvalidSignature:
        stated = None
    if stated is None or {name: stated[name] for name in ("bytes", "sha256")} != _described(data):
        raise SignatureError(
            f"the signature of {path.name} is not valid for the key {fingerprint(key)}: the file, its signature or the "
            "key was changed; do not use the file, get new copies of all three"
        )
    signed = SignedStatement(stated["kind"], stated["title"], stated["period"])
    for name, expected in (("title", title), ("period", period)):
        if expected is None or stated[name] == expected:
            continue
        raise SignatureError(
            f"{path.name} was signed with the {name} {stated[name]!r}, expected {expected!r}: the signer made "
            "it, but it is another file"
        )
    return signed


def _kind(path: Path) -> str:
    """Return the kind of a file; refuse files of other kinds."""
    if sealed.has_field(path, "holds", HOLDS):
        read_index(path)
        return "release in parts"
    importlib.import_module(READER).read_ppd(path)
    return MEASUREMENTS if sealed.has_field(path, "holds", MEASUREMENTS) else "release"


def _described(data: bytes) -> Json:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _read(statement: bytes) -> Json | None:
    """Read a statement; None for anything else, which no version has signed."""
    try:
        stated = json.loads(statement.decode("utf-8"))
    except ValueError:
        return None
    known = {"version", "kind", "title", "period", "bytes", "sha256"}
    if not isinstance(stated, dict) or stated.get("version") != VERSION or set(stated) != known:
        return None
    return stated


def fingerprint(key: FilePath) -> str:
    """Return the fingerprint of a public key: SHA-256 of its 32 bytes, in 16 groups of 4."""
    form = _serialization()
    digest = hashlib.sha256(_load(key).public_bytes(form.Encoding.Raw, form.PublicFormat.Raw)).hexdigest()
    return " ".join(digest[k : k + 4] for k in range(0, 64, 4))


def _load(key: FilePath) -> Any:
    try:
        public = _serialization().load_pem_public_key(Path(key).read_bytes())
    except ValueError:
        public = None
    if not isinstance(public, _ed25519().Ed25519PublicKey):
        raise SignatureError(f"{Path(key).name} is not a public Ed25519 key in PEM, as ppdinf key new writes to .pub")
    return public


def _signature(path: Path) -> Path:
    return path.with_name(f"{path.name}.sig")


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise SignatureError("signatures need the package cryptography: pip install cryptography") from None
    return ed25519


def _serialization() -> Any:
    _ed25519()
    from cryptography.hazmat.primitives import serialization

    return serialization
