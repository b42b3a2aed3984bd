"""What is said of the error before a release, against enumeration, and that no count enters it."""

from itertools import product

import numpy as np
import pytest
import xarray as xr
from enumerated import KINDS

import ppdinf as ppd
from ppdinf.errors import PrivacyError
from ppdinf.laws import DoubleGeometric
from ppdinf.mechanisms.expected_error import cell_law

TOTAL = ppd.invariants.total()


def enumerated(law, cells, reach):
    """Standard deviation and 90 % half-width of the first cell, over all noise tables that sum to zero."""
    moves = np.array([(*z, -sum(z)) for z in product(range(-reach, reach + 1), repeat=cells - 1)])
    mass = np.exp(law.log_weight(moves.astype(float)).sum(axis=1))
    mass /= mass.sum()
    first = np.abs(moves[:, 0])
    within = [mass[first <= k].sum() for k in range(reach + 1)]
    return np.sqrt(mass @ first**2.0), int(np.searchsorted(within, 0.9))


@pytest.mark.parametrize(("kind", "scale"), [("l1", "1"), ("l1", "1/2"), ("gaussian", "2")])
@pytest.mark.parametrize("cells", [2, 3])
def test_a_cell_under_one_sum_against_enumeration(kind, scale, cells):
    law = KINDS[kind](scale)
    sd, half = enumerated(law, cells, 60)
    values, mass = cell_law(law, cells)
    assert np.sqrt(mass @ values**2.0) == pytest.approx(sd, rel=1e-9)
    made = ppd.GeneralizedLaplace if kind == "l1" else ppd.GeneralizedGaussian
    (row,) = made(TOTAL, **{"epsilon" if kind == "l1" else "sigma": scale}).expected_error((cells,)).to_dict("records")
    assert (row["sd"], row["half_width"], row["exact"]) == (pytest.approx(sd), half, True)
    assert row["cv_100"] == pytest.approx(sd / 100)
    free = np.sqrt(cell_law(law, 1)[1] @ cell_law(law, 1)[0] ** 2.0)
    assert free > 1.1 * sd  # the law without the sum would be wrong


def test_many_cells_under_one_sum_are_nearly_free():
    values, mass = cell_law(DoubleGeometric("1/10"), 100_000)
    a = np.exp(-0.1)
    assert np.sqrt(mass @ values**2.0) == pytest.approx(np.sqrt(2 * a) / (1 - a), rel=1e-4)


def test_each_kind_of_cell_has_a_row():
    table = xr.DataArray(np.zeros(6, dtype=int), dims="c", coords={"c": list("abcdef"), "g": ("c", list("xxyyyz"))})
    found = ppd.GeneralizedLaplace(ppd.invariants.groups("g"), epsilon=1).expected_error(table)
    assert found["cells"].to_dict() == {
        "in a public sum of 2 cells": 2, "in a public sum of 3 cells": 3, "fixed by public sums": 1,
    }  # fmt: skip
    assert found.loc["fixed by public sums", "sd"] == 0
    none = ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon=1).expected_error((2, 3))
    assert none.index.tolist() == ["in no public sum"]


def test_simulated_laws_agree_with_enumeration_and_say_that_they_are():
    """3 x 2 with both margins, and l2: pooled draws; four standard errors of a simulated sd are 4 %."""
    margins = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")
    found = ppd.GeneralizedLaplace(margins, epsilon=1).expected_error((3, 2))
    (kind,) = found.index
    assert kind == "in sums that cross, 6 cells"
    assert not found["exact"].any()
    (law, reach) = DoubleGeometric(1), 30
    columns = np.array([(a, b, -a - b) for a in range(-reach, reach + 1) for b in range(-reach, reach + 1)])
    mass = np.exp(2 * law.log_weight(columns.astype(float)).sum(axis=1))
    sd = np.sqrt(mass @ (columns**2.0).mean(axis=1) / mass.sum())
    assert found["sd"].iloc[0] == pytest.approx(sd, rel=0.06)
    two = ppd.GeneralizedLaplace(TOTAL, epsilon=1, norm="l2").expected_error((2,))
    z = np.arange(-80, 81)
    mass = np.exp(-np.sqrt(2) * np.abs(z))
    assert two["sd"].iloc[0] == pytest.approx(np.sqrt(mass @ z**2.0 / mass.sum()), rel=0.06)


def test_no_count_enters_the_answer():
    mechanism = ppd.GeneralizedLaplace(TOTAL, epsilon="1/4")
    one, other = mechanism.expected_error(np.array([0, 0, 9])), mechanism.expected_error(np.array([10**6, 3, 1]))
    assert one.equals(other)
    real = ppd.SubspaceGaussian(TOTAL, epsilon=1, delta="1e-6")
    assert real.expected_error([5, 1, 2]).equals(real.expected_error((3,)))


def test_errors_that_depend_on_counts_are_refused():
    bounded = ppd.Conditioned(TOTAL & ppd.invariants.nonnegative(), noise=ppd.mechanisms.DoubleGeometric(1))
    with pytest.raises(PrivacyError, match="may depend on the counts"):
        bounded.expected_error((3,))
    with pytest.raises(PrivacyError, match="may depend on the counts"):
        ppd.Suppression(TOTAL).expected_error((3,))
