"""What files state about every law of published numbers, and the errors of laws and their messages."""

import numpy as np
import pandas as pd
import pytest

import ppdinf as ppd
from ppdinf import laws
from ppdinf.errors import CountError, LabelError, PrivacyError
from ppdinf.laws import IntegerLaw
from ppdinf.laws.observation_model import ObservationModel, as_observation_model

inv = ppd.invariants
SKEWED = {-3: 0.1, -1: 0.2, 0: 0.4, 2: 0.3}
KEYS = [[0, 0, 1], [1, -1, 0.7], [1, 2, 0.3]]
HALVES = [[1.0, 0.0], [0.5, 0.5]]
STATED = [  # a law, the parameters in files, and published numbers
    (laws.DoubleGeometric("1/3"), {"name": "double-geometric", "epsilon": "1/3"}, [4, -5, 7]),
    (laws.DiscreteGaussian(1.5), {"name": "discrete-gaussian", "sigma": "3/2"}, [4, -5, 7]),
    (laws.DiscreteGaussian(variance=2), {"name": "discrete-gaussian", "variance": "2"}, [4, -5, 7]),
    (laws.Staircase("1/2", 3), {"name": "staircase", "epsilon": "1/2", "sensitivity": "3", "step": "1"}, [4, 5, 7]),
    (laws.L2Laplace(0.5), {"name": "l2-laplace", "epsilon": "1/2"}, [4, -5, 7]),
    (laws.Gaussian(1 / 3), {"name": "gaussian", "sd": "0.3333333333333333"}, [2.5, 0.0, 1 / 3]),
    (laws.Laplace(2), {"name": "laplace", "scale": "2.0"}, [2.5, 0.0, -1 / 3]),
    (laws.Sampled(6.2), {"name": "sampled", "weight": "6.2"}, [26, 12.5, 0]),
    (laws.Rounded(5), {"name": "rounded", "base": "5", "direction": "nearest"}, [0, 5, 10]),
    (laws.Rounded(4, ties="even"), {"name": "rounded", "base": "4", "direction": "nearest", "ties": "even"}, [0, 4, 8]),
    (laws.RandomRounding(3), {"name": "random-rounding", "base": "3"}, [0, 3, 6]),
    (laws.RandomizedResponse(10, 0.8, 0),
     {"name": "randomized-response", "respondents": "10", "keep": "0.8", "flip": "0.0"}, [4, 8, 0]),
    (laws.Interval(), {"name": "interval"}, ["1-9", "17", "<5"]),
    (laws.AdditiveNoise(SKEWED), {"name": "additive-noise", "pmf": list(SKEWED.items())}, [4, -1, 7]),
    (laws.BandedNoise({1: {2: 0.3, -1: 0.7}, 0: {0: 1}}), {"name": "banded-noise", "bands": KEYS}, [0, 3, 7]),
    (laws.TransitionMatrix(np.array(HALVES)), {"name": "transition-matrix", "probabilities": HALVES}, [0, 1, 0]),
    (laws.Clipped(laws.Laplace(3), 2), {"name": "clipped", "of": "laplace", "scale": "3.0", "at": "2"}, [2.5, 2, 9]),
    (laws.Clipped(laws.BandedNoise({0: {0: 1}, 1: {-1: 0.7, 2: 0.3}})),
     {"name": "clipped", "of": "banded-noise", "bands": KEYS, "at": "0"}, [0, 3, 7]),
    (laws.Thresholded(laws.Rounded(5), 10),
     {"name": "thresholded", "of": "rounded", "base": "5", "direction": "nearest", "threshold": "10"}, [None, 10, 15]),
    (laws.Thresholded(laws.AdditiveNoise(SKEWED), 2),
     {"name": "thresholded", "of": "additive-noise", "pmf": list(SKEWED.items()), "threshold": "2"}, [None, 2, 7]),
    (laws.Suppressed(laws.Rounded(5), 8, 1, empty="missing"), {"name": "suppressed", "below": "8", "least": "1",
     "of-name": "rounded", "of-base": "5", "of-direction": "nearest"}, [0, 10, None]),
    (laws.Suppressed(laws.DoubleGeometric(1)),
     {"name": "suppressed", "least": "0", "of-name": "double-geometric", "of-epsilon": "1"}, [0, 10, 2]),
]  # fmt: skip


def reread(law, values, folder):
    seen = ppd.Measurements({"area": list("ABC")}, ppd.measured(inv.margin("area"), values, law))
    seen.save(folder / "seen.ppd")
    again = ppd.read_measurements(folder / "seen.ppd")
    assert again.equals(seen)
    return seen, again


def lists(stated):
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in stated.items()}


@pytest.mark.parametrize(("law", "stated", "values"), STATED, ids=lambda value: getattr(value, "name", None) or "")
def test_files_state_laws(law, stated, values, tmp_path):
    """The names of parameters and their texts in order, from the law and from the law that a reader builds."""
    model = as_observation_model(law)
    expected = lists({key: np.array(value) if isinstance(value, list) else value for key, value in stated.items()})
    for one in (model, ObservationModel.from_dict(model.to_dict())):
        assert list(lists(one.to_dict()).items()) == list(expected.items())
    with pytest.raises(PrivacyError, match="does not have the parameters"):
        ObservationModel.from_dict(model.to_dict() | {"seed" if "of-name" not in stated else "of-seed": "1"})
    seen, again = reread(law, values, tmp_path)
    assert again.to_dataframe().released.tolist() == seen.to_dataframe().released.tolist()
    again.save(tmp_path / "again.ppd")
    assert (tmp_path / "again.ppd").read_bytes() == (tmp_path / "seen.ppd").read_bytes()


@pytest.mark.parametrize(("law", "values"), [
    (laws.Sampled([13, 6.2, np.nan]), [26, 12.5, None]),
    (laws.RandomizedResponse(np.array([30, 20, 30]), keep=0.8, flip=0.1), [4, 9, 0]),
    (laws.Clipped(laws.DiscreteGaussian(variance=[4.95, np.nan, 2])), [26, None, 0]),
])  # fmt: skip
def test_files_with_a_law_for_each_entry(law, values, tmp_path):
    _, again = reread(law, values, tmp_path)
    assert [form.to_dict() for form, _ in again.entries.forms] == [one.to_dict() for one in law.laws]


@pytest.mark.parametrize("data", [{"name": "other"}, {}, None, {"name": ["double-geometric"]}])
def test_unknown_laws_are_refused(data):
    with pytest.raises(PrivacyError, match="does not know noise"):
        IntegerLaw.from_dict(data)


@pytest.mark.parametrize("law", [stated[0] for stated in STATED if isinstance(stated[0], IntegerLaw)], ids=str)
def test_laws_of_noise_are_rebuilt(law):
    assert IntegerLaw.from_dict(law.to_dict()) == law
    assert all(isinstance(value, str) for value in law.to_dict().values())


HALF = {0: 0.5}


def published(value, law):
    return ppd.Measurements({"area": ["b0"]}, ppd.measured(ppd.invariants.margin("area"), [value], law))


def weight(estimates, margins, confidence=0.9):
    return laws.Sampled.of_margin_of_error(estimates, margins, confidence)


REFUSED = [
    *((lambda given=given: laws.DiscreteGaussian(**given), PrivacyError, "exactly one of")
      for given in ({}, {"sigma": 1, "variance": 1})),
    (lambda: laws.Gaussian(0), PrivacyError, "is 0, so the published number is exact"),
    (lambda: laws.Gaussian(np.inf), PrivacyError, "must be a positive number"),
    *((lambda scale=scale: laws.Laplace(scale), PrivacyError, "a positive number") for scale in (-1, "1", True)),
    (lambda: laws.Gaussian.of_margin_of_error(1, 90), PrivacyError, "between 0 and 1"),
    (lambda: laws.Laplace.of_margin_of_error(1, 0), PrivacyError, "between 0 and 1"),
    (lambda: laws.Laplace.of_epsilon(1, 0), PrivacyError, "the sensitivity must be a positive number"),
    *((lambda value=value, law=law: published(value, law), CountError, "must be a number|is not an integer or a range")
      for value in ("2,5", np.inf, "x") for law in (laws.Gaussian(3), laws.Clipped(laws.Laplace(3)))),
    (lambda: laws.Sampled(0.5), PrivacyError, "a number from 1 to"),
    (lambda: laws.Sampled([2, np.inf]), PrivacyError, "position 1: the weight"),
    (lambda: laws.Sampled(True), PrivacyError, "a number from 1 to"),
    (lambda: published(-3, laws.Sampled(2)), CountError, "area=b0.*from 0"),
    (lambda: published("x", laws.Sampled(2)), CountError, "area=b0"),
    (lambda: published(1.7, laws.Sampled(1)), CountError, "area=b0"),
    (lambda: weight([0, 0], [12, 12]), PrivacyError, "positive estimates"),
    (lambda: weight([5], [-555555555]), PrivacyError, "found -5.*nan"),
    (lambda: weight([5], [3], 90), PrivacyError, "between 0 and 1"),
    (lambda: weight([5, 6], [3]), LabelError, "same labels"),
    (lambda: weight(pd.Series([5, 6], ["a", "b"]), pd.Series([3, 4], ["b", "a"])), LabelError, "same labels"),
    (lambda: laws.Thresholded(laws.Sampled(3), 5), PrivacyError, "cannot be thresholded"),
    *((lambda pmf=pmf: laws.AdditiveNoise(pmf), PrivacyError, message) for pmf, message in (
        (HALF, "sum to 1"), ({0: -0.5, 1: 1.5}, "non-negative"), ({0.5: 1.0}, "integers"), ({}, "integers"),
        ([1.0], "must be a mapping"), ({0: 0.5, 10**8: 0.5}, "at most 10,000,000"), ([[0, 0.5], [0, 0.5]], "different"),
    )),
    *((lambda bands=bands: laws.BandedNoise(bands), PrivacyError, message) for bands, message in (
        ({}, "bands must map"), ({0.5: {0: 1}}, "bands must map"), ({0: HALF}, "band from 0 on"), ([[0, 1]], "bands"),
    )),
    (lambda: published(0, laws.BandedNoise({1: {0: 1}})), CountError, "impossible for every count"),
    *((lambda given=given: laws.RandomizedResponse(*given), PrivacyError, message) for given, message in (
        ((0, 0.8, 0.1), "respondents"), ((10**6, 0.8, 0.1), "respondents"), ((2.5, 0.8, 0.1), "respondents"),
        ((10, 1.2, 0.1), "keep must be a probability"), ((10, 0.5, 0.5), "must differ"),
    )),
    (lambda: published(11, laws.RandomizedResponse(10, 0.8, 0.1)), CountError, "10 respondents"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(("text", "message"), [
    ("i,p\n0,1\n", "needs the columns"), ("i,v,p\n0,0,1\n2,0,1\n", "must be 0, 1"),
    ("i,v,p\n0,0,1\n1,0,0.5\n", "the band from 1 on must have probabilities"),
    ("i,v,p\n0,0,x\n", "no number in data row 1"),
    ("i,v,p,type\n0,0,1,even\n0,0,1,odd\n", "several types"),
])  # fmt: skip
def test_faulty_ptables_are_refused(tmp_path, text, message):
    (tmp_path / "ptable.csv").write_text(text)
    with pytest.raises(PrivacyError, match=message):
        laws.read_ptable(tmp_path / "ptable.csv")
