"""Signatures, and damage to every kind of file: every byte of file and signature is covered."""

import hashlib
import os
import shutil
import stat
import subprocess
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

import ppdinf as ppd
from ppdinf.cli import app
from ppdinf.errors import ReleaseFileError, SessionError, SignatureError, WriteError
from ppdinf.invariants import covariates, margin, nonnegative, total
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, Thresholded, TransitionMatrix
from ppdinf.releases.signatures import SignedStatement, fingerprint, new_key, sign, verify

STATED = {"title": "Cases by county", "period": "2024-01"}
OPTIONS = ["--title", "Cases by county", "--period", "2024-01"]


@pytest.fixture
def signed(tmp_path):
    file, key = tmp_path / "a.ppd", tmp_path / "agency.key"
    ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1).release([3, 1, 2]).save(file)
    new_key(key)
    sign(file, key, **STATED)
    return file, key, tmp_path / "agency.key.pub"


def run(*arguments, code=0, typed=None):
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, [str(a) for a in arguments], input=typed)
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def test_a_signature_is_valid_for_one_file_and_one_key(signed, tmp_path):
    file, key, public = signed
    verify(file, public)
    beside = file.with_name("a.ppd.sig")
    signature = beside.read_bytes()
    for cut in (signature[:-1], signature + b"\0", signature[:64], signature[64:], b""):
        beside.write_bytes(cut)
        with pytest.raises(SignatureError, match="is not valid for the key"):
            verify(file, public)
    beside.write_bytes(signature)
    verify(file, public)
    new_key(tmp_path / "other.key")
    with pytest.raises(SignatureError, match="is not valid for the key"):
        verify(file, tmp_path / "other.key.pub")
    beside.unlink()
    with pytest.raises(SignatureError, match="is not signed"):
        verify(file, public)
    assert sign(file, key, **STATED) == beside
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
            sign(file, wrong, **STATED)
    for wrong in (key, file):
        with pytest.raises(SignatureError, match="not a public Ed25519 key"):
            verify(file, wrong)
    other = ec.generate_private_key(ec.SECP256R1())
    form = serialization
    pem = other.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    (tmp_path / "ec.key").write_bytes(pem)
    with pytest.raises(SignatureError, match="is not an Ed25519 key"):
        sign(file, tmp_path / "ec.key", **STATED)


def test_passphrases(tmp_path):
    ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1).release([3, 1, 2]).save(tmp_path / "file")
    new_key(tmp_path / "k", passphrase="open sesame")
    assert b"ENCRYPTED" in (tmp_path / "k").read_bytes()
    for wrong in (None, "", "sesame"):
        with pytest.raises(SignatureError, match="passphrase"):
            sign(tmp_path / "file", tmp_path / "k", **STATED, passphrase=wrong)
    sign(tmp_path / "file", tmp_path / "k", **STATED, passphrase="open sesame")
    verify(tmp_path / "file", tmp_path / "k.pub")
    new_key(tmp_path / "plain")
    with pytest.raises(SignatureError, match="has no passphrase"):
        sign(tmp_path / "file", tmp_path / "plain", **STATED, passphrase="open sesame")


def test_the_command_line(signed, tmp_path):
    file, _, public = signed
    text = run("check", file, "--key", public)
    assert fingerprint(public) in text
    assert "The file states that ppdinf's release() drew the noise" in text
    assert fingerprint(public) in run("key", "show", public)
    assert "Fingerprint" in run("key", "new", tmp_path / "b.key", "--passphrase", typed="xyz\nxyz\n")
    assert "needs its passphrase" not in run("sign", file, "--key", tmp_path / "b.key", *OPTIONS, typed="xyz\n")
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
    for attempt in (lambda: sign(file, key, **STATED), lambda: verify(file, public), lambda: new_key(file)):
        with pytest.raises(SignatureError, match="pip install cryptography"):
            attempt()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no OpenSSL here")
def test_openssl_agrees(signed):
    file, _, public = signed
    whole, folder = file.with_name("a.ppd.sig").read_bytes(), file.parent
    (folder / "signature").write_bytes(whole[:64])
    (folder / "statement").write_bytes(whole[64:])
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", folder / "statement"]
    command += ["-sigfile", folder / "signature"]
    said = subprocess.run(command, capture_output=True, text=True)
    assert "Verified Successfully" in said.stdout, said.stderr
    assert hashlib.sha256(file.read_bytes()).hexdigest() in whole[64:].decode()
    (folder / "statement").write_bytes(whole[64:] + b" ")
    assert subprocess.run(command, capture_output=True).returncode != 0


def test_another_signed_release_under_the_same_name_is_distinguished(signed, tmp_path):
    """Two months by one key: the pair of the first month takes the place of the second one."""
    january, key, public = signed
    (tmp_path / "later").mkdir()
    february = tmp_path / "later" / "a.ppd"
    ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1).release([5, 2, 2]).save(february)
    sign(february, key, title="Cases by county", period="2024-02")
    assert verify(february, public) == SignedStatement("release", "Cases by county", "2024-02")
    verify(february, public, title="Cases by county", period="2024-02")
    for name in ("a.ppd", "a.ppd.sig"):
        shutil.copy(january.with_name(name), february.with_name(name))
    assert verify(february, public).period == "2024-01"
    with pytest.raises(SignatureError, match="period '2024-01', expected '2024-02'"):
        verify(february, public, period="2024-02")
    with pytest.raises(SignatureError, match="title 'Cases by county', expected 'Deaths by county'"):
        verify(february, public, title="Deaths by county")
    check = ["check", february, "--key", public]
    text = run(*check)
    assert "the title 'Cases by county' and the period '2024-01' of this release file" in text
    assert "expected '2024-02'" in run(*check, "--period", "2024-02", code=1)
    run(*check, "--period", "2024-01", "--title", "Cases by county")
    assert "--key" in run("check", february, "--period", "2024-01", code=1)


def test_a_statement_cannot_be_edited_or_moved_to_another_file(signed, tmp_path):
    file, _, public = signed
    beside = file.with_name("a.ppd.sig")
    whole = beside.read_bytes()
    for old, new in ((b"2024-01", b"2024-02"), (b"Cases", b"Death"), (b'"release"', b'"measurements"')):
        assert old in whole
        beside.write_bytes(whole.replace(old, new))
        with pytest.raises(SignatureError, match="is not valid for the key"):
            verify(file, public)
    beside.write_bytes(whole)
    ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1).release([3, 1, 9]).save(tmp_path / "b.ppd")
    shutil.copy(beside, tmp_path / "b.ppd.sig")
    with pytest.raises(SignatureError, match="is not valid for the key"):
        verify(tmp_path / "b.ppd", public)


def test_only_releases_and_measurements_are_signed(signed, tmp_path):
    file, key, public = signed
    inv = ppd.invariants
    counts = ppd.measured(inv.margin("area"), [31, -2], ppd.laws.DoubleGeometric("1/4"))
    ppd.Measurements({"area": ["A", "B"]}, counts).save(tmp_path / "areas.ppd")
    run("sign", tmp_path / "areas.ppd", "--key", key, *OPTIONS)
    assert verify(tmp_path / "areas.ppd", public).kind == "measurements"
    ppd.Session.open(tmp_path / "a.budget", epsilon=1)
    (tmp_path / "table.csv").write_text("a,n\nx,3\n")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "cut.ppd").write_bytes(file.read_bytes()[:-9])
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("manifest.json", '{"holds": "measurements"}')
    for name in ("a.budget", "table.csv", "empty", "cut.ppd", "other.zip", "agency.key", "a.ppd.sig"):
        with pytest.raises(ReleaseFileError):
            sign(tmp_path / name, key, **STATED)
        assert "Error" in run("sign", tmp_path / name, "--key", key, *OPTIONS, code=1)
        assert not (tmp_path / f"{name}.sig").exists()


def test_titles_and_periods_are_one_line_of_text(signed, tmp_path):
    file, key, public = signed
    before = file.with_name("a.ppd.sig").read_bytes()
    for wrong in ("", "  ", "a\nb", "a\x1b[31m", "\ud800", None, 2024):
        for name in STATED:
            with pytest.raises(SignatureError, match=f"{name} must be text"):
                sign(file, key, **STATED | {name: wrong})
    assert file.with_name("a.ppd.sig").read_bytes() == before
    sign(file, key, title="Fälle «α» ☂", period="2024/25")
    assert verify(file, public).title == "Fälle «α» ☂"
    assert "Signed" in run("sign", file, "--key", key, typed="Cases by county\n2024-01\n")  # asked for
    assert file.with_name("a.ppd.sig").read_bytes() == before


TABLE = ppd.as_table([[30, 4, 12], [0, 7, 5]], dims=("county", "sex"))


def release(folder):
    table = xr.DataArray([5, 1, 2], dims="county", coords={"county": ["x", "y", "z"], "size": ("county", [10, 5, 7])})
    mechanism = ppd.GeneralizedLaplace(total() & covariates("size") & nonnegative(), epsilon="1/4")
    mechanism.release(table).save(folder / "a.ppd")
    return folder / "a.ppd", ReleaseFileError, lambda: ppd.read_release(folder / "a.ppd")


def measurements(folder):
    ppd.Measurements(
        TABLE * 0,
        ppd.measured(margin("county"), [40, None], law=DoubleGeometric("1/4")),
        ppd.measured(margin("county"), [40, 13], law=Thresholded(DiscreteGaussian(2), 3)),
        ppd.measured(total(), [1], law=TransitionMatrix([[0.5, 0.5], [0.25, 0.75]])),
        public={ppd.invariants.cells({"county": 1, "sex": 0}): 0},
    ).save(folder / "m.ppd")
    return folder / "m.ppd", ReleaseFileError, lambda: ppd.read_measurements(folder / "m.ppd")


def index(folder):
    def read(state):
        return xr.DataArray([3, 1], dims="age", coords={"state": ("age", [state] * 2)})

    mechanism = ppd.GeneralizedLaplace(ppd.invariants.hierarchy("state"), epsilon="1/2")
    parts = ppd.releases.release_parts(
        mechanism, read, ["A", "B"], by="state", folder=folder / "parts", progressbar=False
    )
    return parts.folder / "index.ppd", ReleaseFileError, lambda: ppd.releases.read_parts(parts.folder)


def session(folder):
    """The digest that was noted before shows that a session file was truncated."""
    opened = ppd.Session.open(folder / "s.budget", epsilon=9)
    for month in range(4):
        opened.release(ppd.GeneralizedLaplace(total(), epsilon="1/4"), TABLE, name=f"month {month}")
    noted = opened.digest

    def read():
        if ppd.Session.open(folder / "s.budget").digest != noted:
            raise SessionError("s.budget has another digest than was noted")

    return folder / "s.budget", SessionError, read


def signed_files(folder):
    file, *_ = release(folder)
    new_key(folder / "k")
    sign(file, folder / "k", title="Cases", period="2024-01")
    return file, SignatureError, lambda: verify(file, folder / "k.pub")


def signature(folder):
    file, error, read = signed_files(folder)
    return file.with_name("a.ppd.sig"), error, read


def damaged(data, positions, rng):
    """At each position: one flipped bit, a truncation, and up to 40 bytes replaced by up to 20 random ones."""
    for at in positions:
        wrong = bytearray(data)
        wrong[at] ^= 1 << int(rng.integers(8))
        yield bytes(wrong)
        yield data[:at]
        yield data[:at] + rng.bytes(rng.integers(20)) + data[at + rng.integers(40) :]


def unnoticed(kind, folder, places=None):
    """Number of damaged files that are read, of three at random places, or at all places."""
    path, error, read = kind(folder)
    read()
    rng, data, found, messages = np.random.default_rng(1), path.read_bytes(), 0, []
    positions = range(len(data)) if places is None else rng.integers(0, len(data), places)
    for wrong in damaged(data, positions, rng):
        path.write_bytes(wrong)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                read()
            except error as refused:
                messages.append(str(refused))
                continue
        # only the line feed at the end of a session can be missing or another: every line counts all the same
        found += wrong.rstrip(b"\n") != data.rstrip(b"\n")
    assert all(path.name.removesuffix(".sig") in message for message in messages)
    return found


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("places", [25, pytest.param(None, marks=pytest.mark.deep)])
@pytest.mark.parametrize("kind", [release, measurements, index, session, signed_files, signature])
def test_damage_is_noticed(kind, places, tmp_path):
    assert unnoticed(kind, tmp_path, places) == 0


def test_a_plain_table_hides_most_of_the_same_damage(tmp_path):
    """The control: CSV without a digest is read without an error after most damage."""
    path = tmp_path / "plain.csv"
    TABLE.to_series().rename("n").to_csv(path)

    def read():
        try:
            pd.read_csv(path)
        except Exception as error:
            raise ReleaseFileError(path.name) from error

    assert unnoticed(lambda _: (path, ReleaseFileError, read), tmp_path, 25) > 38
