"""Flipped bits and truncated ends of every kind of file: refused, or different from the written file."""

import warnings

import numpy as np
import pytest

import ppdinf as ppd
from ppdinf.errors import PpdinfError
from ppdinf.invariants import margin, total
from ppdinf.laws import DiscreteGaussian
from ppdinf.releases.signatures import new_key, sign, verify

TABLE = ppd.as_table([[30, 4, 12], [0, 7, 5]], dims=("county", "sex"))


def release(folder):
    ppd.GeneralizedLaplace(margin("county"), epsilon="1/4").release(TABLE).save(folder / "a.ppd")
    return folder / "a.ppd", lambda: ppd.read_release(folder / "a.ppd")


def measurements(folder):
    seen = ppd.measured(total(), [61], law=DiscreteGaussian(3))
    ppd.Measurements(TABLE * 0, seen, ppd.measured(margin("county"), [40, 13], law=DiscreteGaussian(2))).save(
        folder / "m.ppd"
    )
    return folder / "m.ppd", lambda: ppd.read_measurements(folder / "m.ppd")


def session(folder):
    """The digest that was noted before shows that a session file was truncated."""
    opened = ppd.Session.open(folder / "s.budget", epsilon=9)
    for month in range(4):
        opened.release(ppd.GeneralizedLaplace(total(), epsilon="1/4"), TABLE, name=f"month {month}")
    noted = opened.digest

    def read():
        if ppd.Session.open(folder / "s.budget").digest != noted:
            raise PpdinfError("another digest than was noted")

    return folder / "s.budget", read


def signature(folder):
    file, _ = release(folder)
    new_key(folder / "k")
    return sign(file, folder / "k", title="Cases", period="2024-01"), lambda: verify(file, folder / "k.pub")


def damaged(data, flips, cuts, seed):
    rng = np.random.default_rng(seed)
    for at in rng.integers(0, len(data), flips):
        wrong = bytearray(data)
        wrong[at] ^= 1 << int(rng.integers(8))
        yield bytes(wrong)
    for size in rng.integers(0, len(data), cuts):
        yield data[:size]


def unnoticed(kind, folder, flips, cuts):
    path, read = kind(folder)
    read()
    data, found = path.read_bytes(), 0
    for wrong in damaged(data, flips, cuts, 1):
        path.write_bytes(wrong)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                read()
            except PpdinfError:
                continue
        # only the line feed at the end of a session can be missing or another: every line counts all the same
        found += wrong.rstrip(b"\n") != data.rstrip(b"\n")
    return found


KINDS = pytest.mark.parametrize("kind", [release, measurements, session, signature])


@pytest.mark.quick_cases(2)
@KINDS
def test_damage_is_noticed(kind, tmp_path):
    assert unnoticed(kind, tmp_path, 60, 20) == 0


@pytest.mark.deep
@KINDS
def test_two_thousand_flips_and_two_hundred_cuts_are_noticed(kind, tmp_path):
    assert unnoticed(kind, tmp_path, 2000, 200) == 0


def test_a_plain_table_hides_most_of_the_same_damage(tmp_path):
    """The control: CSV without a digest is read without an error after most bit flips."""
    import pandas as pd

    path = tmp_path / "plain.csv"
    TABLE.to_series().rename("n").to_csv(path)

    def read():
        try:
            pd.read_csv(path)
        except Exception as error:
            raise PpdinfError from error

    assert unnoticed(lambda _: (path, read), tmp_path, 60, 20) > 40
