"""Signatures: only the holder of a key can sign, and every byte of file and signature is covered."""

import os
import shutil
import stat
import subprocess

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

import ppdinf as ppd
from ppdinf.cli import app
from ppdinf.errors import SignatureError, WriteError
from ppdinf.releases.signatures import fingerprint, new_key, sign, verify


@pytest.fixture
def signed(tmp_path):
    file, key = tmp_path / "a.ppd", tmp_path / "agency.key"
    ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1).release([3, 1, 2]).save(file)
    new_key(key)
    sign(file, key)
    return file, key, tmp_path / "agency.key.pub"


def run(*arguments, code=0, typed=None):
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, [str(a) for a in arguments], input=typed)
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def test_a_signature_holds_for_this_file_and_this_key_alone(signed, tmp_path):
    file, key, public = signed
    verify(file, public)
    beside = file.with_name("a.ppd.sig")
    data, signature, rng = file.read_bytes(), beside.read_bytes(), np.random.default_rng(1)
    assert len(signature) == 64
    for path, whole, flips in ((file, data, 200), (beside, signature, 64)):
        for at in rng.integers(0, len(whole), flips):
            wrong = bytearray(whole)
            wrong[at] ^= 1 << int(rng.integers(8))
            path.write_bytes(bytes(wrong))
            with pytest.raises(SignatureError, match="is not valid for the key"):
                verify(file, public)
        for cut in (whole[:-1], whole + b"\0", b""):
            path.write_bytes(cut)
            with pytest.raises(SignatureError, match="is not valid for the key"):
                verify(file, public)
        path.write_bytes(whole)
    verify(file, public)
    new_key(tmp_path / "other.key")
    with pytest.raises(SignatureError, match="is not valid for the key"):
        verify(file, tmp_path / "other.key.pub")
    beside.unlink()
    with pytest.raises(SignatureError, match="is not signed"):
        verify(file, public)
    assert sign(file, key) == beside
    assert beside.read_bytes() == signature  # Ed25519 draws nothing


def test_everybody_can_compute_a_valid_digest(signed):
    """The control: an edited guarantee with a recomputed digest is accepted; only its signature is invalid."""
    file, _, public = signed
    release = ppd.read_release(file)
    forged = ppd.Release(release.table, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/100"))
    forged._drawn = forged.table.values.copy()  # as whoever edits the code can have it
    forged.save(file, overwrite=True)
    assert ppd.read_release(file).provenance == "drawn"
    with pytest.raises(SignatureError):
        verify(file, public)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_keys_are_for_their_owner_and_never_overwritten(signed, tmp_path):
    file, key, public = signed
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    for name in ("agency.key", "agency.key.pub"):
        with pytest.raises(FileExistsError):
            new_key(tmp_path / name.removesuffix(".pub"))
    assert key.read_bytes() == before
    with pytest.raises(WriteError):
        new_key(tmp_path / "none" / "agency.key")
    for wrong in (public, file):
        with pytest.raises(SignatureError, match="not a private key"):
            sign(file, wrong)
    for wrong in (key, file):
        with pytest.raises(SignatureError, match="not a public Ed25519 key"):
            verify(file, wrong)
    other = ec.generate_private_key(ec.SECP256R1())
    form = serialization
    pem = other.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    (tmp_path / "ec.key").write_bytes(pem)
    with pytest.raises(SignatureError, match="another kind"):
        sign(file, tmp_path / "ec.key")


def test_passphrases(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    new_key(tmp_path / "k", passphrase="open sesame")
    assert b"ENCRYPTED" in (tmp_path / "k").read_bytes()
    for wrong in (None, "", "sesame"):
        with pytest.raises(SignatureError, match="passphrase"):
            sign(tmp_path / "file", tmp_path / "k", passphrase=wrong)
    sign(tmp_path / "file", tmp_path / "k", passphrase="open sesame")
    verify(tmp_path / "file", tmp_path / "k.pub")
    new_key(tmp_path / "plain")
    with pytest.raises(SignatureError, match="has no passphrase"):
        sign(tmp_path / "file", tmp_path / "plain", passphrase="open sesame")


def test_the_command_line(signed, tmp_path):
    file, _, public = signed
    text = run("check", file, "--key", public)
    assert fingerprint(public) in text
    assert "The file states that ppdinf's release() drew the noise" in text
    assert fingerprint(public) in run("key", "show", public)
    assert "Fingerprint" in run("key", "new", tmp_path / "b.key", "--passphrase", typed="xyz\nxyz\n")
    assert "needs its passphrase" not in run("sign", file, "--key", tmp_path / "b.key", typed="xyz\n")
    assert "is not valid for the key" in run("check", file, "--key", public, code=1)
    run("check", file, "--key", tmp_path / "b.key.pub")
    assert "exists" in run("key", "new", tmp_path / "b.key", code=1)
    stated = tmp_path / "stated.ppd"
    ppd.Release([3, 1, 2], ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1)).save(stated)
    assert "its creator states the guarantee" in run("check", stated)
    assert "is not signed" in run("check", stated, "--key", public, code=1)


def test_without_the_package_it_is_named(signed, monkeypatch):
    file, key, public = signed
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.asymmetric", None)
    for attempt in (lambda: sign(file, key), lambda: verify(file, public), lambda: new_key(file)):
        with pytest.raises(SignatureError, match=r"pip install 'ppdinf\[sign\]'"):
            attempt()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no OpenSSL here")
def test_openssl_agrees(signed):
    file, _, public = signed
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", file]
    command += ["-sigfile", f"{file}.sig"]
    said = subprocess.run(command, capture_output=True, text=True)
    assert "Verified Successfully" in said.stdout, said.stderr
    file.write_bytes(file.read_bytes() + b" ")
    assert subprocess.run(command, capture_output=True).returncode != 0
