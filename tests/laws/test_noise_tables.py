"""Draws of laws of published numbers, probabilities that sum to 1, and perturbation tables in files."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import CountError, PrivacyError

inv, laws = ppd.invariants, ppd.laws
SKEWED = {-3: 0.1, -1: 0.2, 0: 0.4, 2: 0.3}
BANDS = {0: {0: 1}, 1: {-1: 0.7, 2: 0.3}, 3: {-1: 0.2, 0: 0.6, 1: 0.2}}
PTABLE = "i,j,v,p,type\n0,0,0,1,all\n1,0,-1,0.5,all\n1,2,1,0.5,all\n2,1,-1,0.25,all\n2,2,0,0.5,all\n2,3,1,0.25,all\n"


@pytest.mark.parametrize("law", [
    laws.AdditiveNoise(SKEWED), laws.BandedNoise(BANDS), laws.Thresholded(laws.AdditiveNoise(SKEWED), 3),
    laws.Clipped(laws.BandedNoise(BANDS), 1), laws.Thresholded(laws.RandomRounding(3), 3),
    laws.Clipped(laws.DoubleGeometric(1), 2),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("x", [0, 1, 4])
def test_draws_have_the_probabilities(law, x):
    """Each comparison has a false alarm rate of 1e-6."""
    drawn = law.publish(np.full(4000, x), np.random.default_rng(x))
    y, number = np.unique(np.append(np.arange(-60, 61), drawn), return_counts=True)
    number[(y >= -60) & (y <= 60)] -= 1
    log_p = np.where(law.is_possible(y), law.log_weight(y, np.full(y.size, x)), -np.inf)
    mark = y == getattr(law, "mark", None)
    p = np.exp(log_p)
    p[~mark] *= (1 - p[mark].sum()) / p[~mark].sum() if p[~mark].sum() else 1  # weights of marks are probabilities
    assert p.sum() == pytest.approx(1)
    assert number[p == 0].sum() == 0
    common = p > 1e-3
    if common.sum() > 1:
        assert stats.chisquare(number[common], p[common] / p[common].sum() * number[common].sum()).pvalue > 1e-6


@pytest.mark.parametrize("law", [laws.AdditiveNoise(SKEWED), laws.BandedNoise(BANDS)], ids=str)
def test_files_and_columns(law, tmp_path):
    y = [0, 2, 7]
    seen = ppd.Measurements(
        {"area": list("ABC")},
        ppd.measured(inv.margin("area"), y, law),
        ppd.measured(inv.total(), 4, laws.Thresholded(law, 2)),
        ppd.measured(inv.total(), 4, laws.Clipped(law)),
    )
    seen.save(tmp_path / "seen.ppd")
    assert ppd.read_measurements(tmp_path / "seen.ppd").equals(seen)
    low, high = law.support_bounds(np.array(y), 0.0)
    for column in law.columns(np.array(y)):
        for entry, begin in zip(column.entries, column.begins, strict=True):
            x = begin + np.arange(column.log_weights.size)
            np.testing.assert_array_equal(column.log_weights, law.log_weight(np.full(x.size, y[entry]), x))
            outside = np.array([begin - 1, x[-1] + 1])
            assert (law.log_weight(np.full(2, y[entry]), outside) == -np.inf).all()
            possible = x[np.isfinite(column.log_weights)]
            assert low[entry] <= possible.min()
            assert possible.max() <= high[entry]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_ptable(tmp_path, separator):
    path = tmp_path / "ptable.csv"
    path.write_text(PTABLE.replace(",", separator))
    law = laws.read_ptable(path)
    x = np.array([0, 1, 2, 30_000])
    p = np.exp(law.log_weight(x[:, None] + np.arange(-1, 2), x[:, None]))
    np.testing.assert_allclose(p, [[0, 1, 0], [0.5, 0, 0.5], [0.25, 0.5, 0.25], [0.25, 0.5, 0.25]])
    cells, total = ppd.measured(inv.margin("area"), [0, 2, 29_990], law), ppd.measured(inv.total(), 29_993, law)
    seen = ppd.Measurements({"area": list("ABC")}, cells, total)
    draws = ppd.denoise(seen, draws=200, rng=1, prior="flat", progressbar=False).draws
    assert set(draws.sel(area="A").values.ravel().tolist()) == {0, 1}
    assert set(draws.sel(area="B").values.ravel().tolist()) == {1, 2, 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i,p\n0,1\n", "needs the columns"),
        ("i,v,p\n0,0,1\n2,0,1\n", "must be 0, 1"),
        ("i,v,p\n0,0,1\n1,0,0.5\n", "the band from 1 on must have probabilities"),
        ("i,v,p\n0,0,x\n", "no number in data row 1"),
        ("i,v,p,type\n0,0,1,even\n0,0,1,odd\n", "several types"),
    ],
)
def test_faulty_ptables_are_refused(tmp_path, text, message):
    (tmp_path / "ptable.csv").write_text(text)
    with pytest.raises(PrivacyError, match=message):
        laws.read_ptable(tmp_path / "ptable.csv")


def test_distributions_in_several_forms():
    array = np.array(list(SKEWED.items()))
    for form in (SKEWED, pd.Series(SKEWED), array, array[::-1]):
        law = laws.AdditiveNoise(form)
        assert (law.first, law.last) == (-3, 2)
        np.testing.assert_allclose(law.probabilities, [0.1, 0, 0.2, 0.4, 0, 0.3])
    for wrong in ({0: 0.5}, {0: -0.5, 1: 1.5}, {0.5: 1.0}, {}, [1.0], {0: 0.5, 10**8: 0.5}, [[0, 0.5], [0, 0.5]]):
        with pytest.raises(PrivacyError):
            laws.AdditiveNoise(wrong)
    for wrong in ({}, {0.5: {0: 1}}, {0: {0: 0.5}}, [[0, 1]]):
        with pytest.raises(PrivacyError):
            laws.BandedNoise(wrong)


def test_randomized_response_of_two_answers(tmp_path):
    """Parameters, files, and the limits keep = 1 and flip = 0, where reports are answers."""
    law = laws.RandomizedResponse(np.array([10, 30, 10]), keep=0.8, flip=0.1)
    seen = ppd.Measurements({"area": list("ABC")}, ppd.measured(inv.margin("area"), [4, 9, 0], law))
    seen.save(tmp_path / "seen.ppd")
    assert ppd.read_measurements(tmp_path / "seen.ppd").equals(seen)
    honest = laws.RandomizedResponse(5, 1, 0)
    np.testing.assert_array_equal(np.exp(honest.log_weight(np.arange(6)[:, None], np.arange(6))), np.eye(6))
    assert honest.support_bounds(np.array([2]), 0.0) == (2, 2)
    x = np.arange(7)
    assert (honest.log_weight(np.array(7), x) == -np.inf).all()
    assert honest.log_weight(np.array(5), np.array([6])) == -np.inf
    drawn = laws.RandomizedResponse(10, 0.8, 0.1).publish(np.full(4000, 4), np.random.default_rng(1))
    assert drawn.mean() == pytest.approx(4 * 0.8 + 6 * 0.1, abs=5 * np.sqrt((4 * 0.16 + 6 * 0.09) / 4000))
    for wrong in ((0, 0.8, 0.1), (10, 1.2, 0.1), (10, 0.5, 0.5), (10**6, 0.8, 0.1), (2.5, 0.8, 0.1)):
        with pytest.raises(PrivacyError):
            laws.RandomizedResponse(*wrong)
    with pytest.raises(CountError, match="10 respondents"):
        ppd.Measurements({"area": [0]}, ppd.measured(inv.total(), 11, laws.RandomizedResponse(10, 0.8, 0.1)))


def test_impossible_numbers_are_refused():
    with pytest.raises(CountError, match="impossible for every count"):
        ppd.Measurements({"area": [0]}, ppd.measured(inv.total(), 0, laws.BandedNoise({1: {0: 1}})))
    gap = laws.BandedNoise({0: {0: 0.5, 3: 0.5}, 1: {2: 1}})
    assert gap.is_possible(np.array([-1, 0, 1, 2, 3, 4])).tolist() == [False, True, False, False, True, True]
