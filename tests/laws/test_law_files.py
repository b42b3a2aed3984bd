"""What files state about every law of published numbers, and laws that files do not name."""

import numpy as np
import pytest

import ppdinf as ppd
from ppdinf import laws
from ppdinf.errors import PrivacyError
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
    seen = ppd.Measurements({"area": list("ABC")}, ppd.measured(inv.margin("area"), values, law))
    seen.save(tmp_path / "seen.ppd")
    again = ppd.read_measurements(tmp_path / "seen.ppd")
    assert again.equals(seen)
    assert again.to_dataframe().released.tolist() == seen.to_dataframe().released.tolist()
    again.save(tmp_path / "again.ppd")
    assert (tmp_path / "again.ppd").read_bytes() == (tmp_path / "seen.ppd").read_bytes()


@pytest.mark.parametrize(("law", "values"), [
    (laws.Sampled([13, 6.2, np.nan]), [26, 12.5, None]),
    (laws.RandomizedResponse(np.array([30, 20, 30]), keep=0.8, flip=0.1), [4, 9, 0]),
    (laws.Clipped(laws.DiscreteGaussian(variance=[4.95, np.nan, 2])), [26, None, 0]),
])  # fmt: skip
def test_files_with_a_law_for_each_entry(law, values, tmp_path):
    seen = ppd.Measurements({"area": list("ABC")}, ppd.measured(inv.margin("area"), values, law))
    seen.save(tmp_path / "seen.ppd")
    again = ppd.read_measurements(tmp_path / "seen.ppd")
    assert again.equals(seen)
    assert [form.to_dict() for form, _ in again.entries.forms] == [one.to_dict() for one in law.laws]


@pytest.mark.parametrize("data", [{"name": "other"}, {}, None, {"name": ["double-geometric"]}])
def test_unknown_laws_are_refused(data):
    with pytest.raises(PrivacyError, match="does not know noise"):
        IntegerLaw.from_dict(data)


@pytest.mark.parametrize("law", [stated[0] for stated in STATED if isinstance(stated[0], IntegerLaw)], ids=str)
def test_laws_of_noise_are_rebuilt(law):
    assert IntegerLaw.from_dict(law.to_dict()) == law
    assert all(isinstance(value, str) for value in law.to_dict().values())
