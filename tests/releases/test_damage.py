"""Damage to every kind of file is noticed: flipped bits, truncated ends, inserted and removed bytes."""

import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.errors import ReleaseFileError, SessionError, SignatureError
from ppdinf.invariants import covariates, margin, nonnegative, total
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, Thresholded, TransitionMatrix
from ppdinf.releases.signatures import new_key, sign, verify

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


def signed(folder):
    file, *_ = release(folder)
    new_key(folder / "k")
    sign(file, folder / "k", title="Cases", period="2024-01")
    return file, SignatureError, lambda: verify(file, folder / "k.pub")


def signature(folder):
    file, error, read = signed(folder)
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


KINDS = pytest.mark.parametrize("kind", [release, measurements, index, session, signed, signature])


@pytest.mark.quick_cases(3)
@KINDS
def test_damage_is_noticed(kind, tmp_path):
    assert unnoticed(kind, tmp_path, 25) == 0


@pytest.mark.deep
@KINDS
def test_damage_at_every_byte_is_noticed(kind, tmp_path):
    assert unnoticed(kind, tmp_path) == 0


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
