"""Noise that violates a public sum is a bug in the package: nothing is returned, and a session spends nothing."""

from fractions import Fraction

import numpy as np
import pymc as pm
import pytest

import ppdinf as ppd
from ppdinf.cli.release_commands import show_session
from ppdinf.errors import InternalError, PrivacyError
from ppdinf.lattice.algebra.systems import exact_product, integer_matrix
from ppdinf.mechanisms import table_mechanism

inv = ppd.invariants
TABLE = np.array([[731, 4], [12, 7]])
MARGINS = inv.margin("dim_0") & inv.margin("dim_1")
MECHANISMS = {
    "l1": ppd.GeneralizedLaplace(MARGINS, "1/2"),
    "gaussian": ppd.GeneralizedGaussian(MARGINS, 1, "1e-3"),
    "real": ppd.SubspaceLaplace(MARGINS, 1),
    "real on a grid": ppd.KNorm(inv.margin("dim_1"), 1, grid="1/8"),
    "bounded": ppd.Conditioned(MARGINS & inv.nonnegative(), ppd.mechanisms.DoubleGeometric(1)),
    "post-processed": ppd.PostProcessed(MARGINS & inv.nonnegative(), 1),
}


def broken(mechanism, monkeypatch, change=1):
    """Modify the last cell of every draw except the first."""
    drawn = type(mechanism).draw

    def draw(*arguments):
        found = drawn(*arguments)
        found[-1, -1] += change
        return found

    monkeypatch.setattr(type(mechanism), "draw", draw)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_broken_sum_is_never_returned(name, monkeypatch):
    mechanism = MECHANISMS[name]
    assert mechanism.simulate(TABLE, draws=3, rng=1).shape == (3, 2, 2)
    broken(mechanism, monkeypatch)
    with pytest.raises(InternalError, match=r"internal error of ppdinf: the noise violates 'dim_[01]=1'.*not the"):
        mechanism.simulate(TABLE, draws=3, rng=1)
    if name != "post-processed":  # its release draws by the mechanism of the noisy cells
        with pytest.raises(InternalError, match="Nothing was published") as refused:
            mechanism.release(TABLE)
        assert "731" not in str(refused.value)


def test_a_broken_bound_is_never_returned(monkeypatch):
    monkeypatch.setattr(
        ppd.Conditioned, "draw", lambda self, system, x, draws, *_: np.tile([[740, -5, 3, 16]], (draws, 1))
    )
    with pytest.raises(InternalError, match="violates 'dim_0=0, dim_1=1 at least 0'"):
        MECHANISMS["bounded"].simulate(TABLE, draws=2)


def test_draws_of_a_distribution_are_checked(monkeypatch):
    release = MECHANISMS["l1"].dist(pm.Poisson.dist(30, shape=(2, 2)))
    pm.draw(release, random_seed=1)
    broken(MECHANISMS["l1"], monkeypatch)
    with pytest.raises(InternalError):
        pm.draw(release, random_seed=1)


def test_every_draw_is_checked(monkeypatch):
    """Also if draws are checked in small batches."""
    system = MARGINS.on(TABLE)
    drawn = np.tile(TABLE.ravel(), (50, 1))
    monkeypatch.setattr(table_mechanism, "BATCH", 12)
    table_mechanism.require_kept(system, drawn, TABLE.ravel(), bounds=True)
    table_mechanism.require_kept(system, drawn, drawn, bounds=True)
    for row in (0, 2, 3, 49):
        wrong = drawn.copy()
        wrong[row, 1] += 1
        for cells in (TABLE.ravel(), drawn):
            with pytest.raises(InternalError):
                table_mechanism.require_kept(system, wrong, cells, bounds=True)


def test_sums_beyond_64_bits_are_exact():
    A, x = integer_matrix([[2**40, -(2**40), 0], [1, 1, 1]]), np.array([[2**30, 1], [2**30 - 1, 0], [5, 2**50]])
    assert exact_product(A, x).tolist() == [[2**40, 2**40], [2**31 + 4, 2**50 + 1]]


def test_a_session_spends_nothing(tmp_path, monkeypatch, capsys):
    from rich.console import Console

    session = ppd.Session.open(tmp_path / "cases.budget", epsilon="1/2")
    with monkeypatch.context() as patched:
        broken(MECHANISMS["l1"], patched)
        with pytest.raises(InternalError):
            session.release(MECHANISMS["l1"], TABLE, name="first")
    assert session.table()["outcome"].tolist() == ["void"]
    assert session.left == {"epsilon": Fraction(1, 2)}
    with pytest.raises(PrivacyError, match="at least one guarantee"):
        session.guarantee  # noqa: B018
    show_session(Console(), ppd.Session.open(session.path))
    assert "void" in capsys.readouterr().out
    session.release(MECHANISMS["l1"], TABLE, name="second")
    assert session.table()["outcome"].tolist() == ["void", "drawn"]
    assert session.left == {"epsilon": 0}
    assert ppd.Session.open(session.path).left == {"epsilon": 0}


def test_a_drawn_release_remains_spent(tmp_path):
    """A second outcome does not make a release void."""
    from ppdinf.sessions import journal

    session = ppd.Session.open(tmp_path / "cases.budget", epsilon="1/2")
    session.release(MECHANISMS["l1"], TABLE)
    journal.append(session.path, journal.read(session.path), {"outcome": 1, "state": "void"})
    assert session.left == {"epsilon": 0}
