"""What laws of noise and of published numbers refuse: the error, and what its message states."""

import numpy as np
import pandas as pd
import pytest

import ppdinf as ppd
from ppdinf import laws
from ppdinf.errors import CountError, LabelError, PrivacyError

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
