"""A law of noise that is defined outside of the package: releases, posteriors and files, against enumeration."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
from chi_square import p_value_of_tables
from flint import arb
from scipy import stats

import ppdinf as ppd
from ppdinf._internal.rationals import as_fraction, ball
from ppdinf._internal.values import assign
from ppdinf.errors import PrivacyError, ReleaseFileError
from ppdinf.lattice import structure
from ppdinf.laws import DoubleGeometric, IntegerLaw
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.noise.sampler_plan import exact_noise

inv = ppd.invariants
TABLES = np.array([(i, j, 7 - i - j) for i in range(8) for j in range(8 - i)])
Y = np.array([5, -1, 3])


@dataclass(frozen=True)
class HyperbolicSecant(IntegerLaw):
    """Weight ``1 / cosh(epsilon k)``."""

    name = "hyperbolic-secant"
    title = "hyperbolic secant"
    epsilon: Fraction

    def __init__(self, epsilon):
        assign(self, epsilon=as_fraction(epsilon, "epsilon"))

    def log_weight(self, z):
        rate = float(self.epsilon) * abs(z)
        return -rate - np.log1p(np.exp(-2 * rate)) + np.log(2)

    def weight(self, size):
        return 1 / (ball(self.epsilon) * size).cosh()

    def largest_ratio(self, size):
        return self.weight(size + 1) / self.weight(size)

    @property
    def epsilon_per_unit(self):
        return self.epsilon


@dataclass(frozen=True)
class TruncatedCauchy(IntegerLaw):
    """Weight ``1 / (1 + (k / scale)^2)`` for ``|k| <= 12``, otherwise 0: no privacy guarantee."""

    name = "truncated-cauchy"
    title = "truncated Cauchy"
    scale: int
    limit = 12

    def log_weight(self, z):
        return np.where(np.abs(z) <= self.limit, -np.log1p((z / self.scale) ** 2), -np.inf)

    def weight(self, size):
        return 1 / (1 + (arb(size) / self.scale) ** 2) if size <= self.limit else arb(0)

    def largest_ratio(self, size):
        """The ratios decrease, then increase up to the limit."""
        ends = (size, self.limit - 1) if size < self.limit else (self.limit,)
        return max((self.weight(k + 1) / self.weight(k) for k in ends), key=float)


LAW = HyperbolicSecant("1/2")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("public", [inv.total(), inv.total() & inv.between(-2, 5)], ids=["sum", "bounds"])
def test_releases_have_the_law(public):
    x = np.array([1, 0, 2])
    mechanism = ppd.Conditioned(public, noise=LAW)
    drawn = mechanism.simulate(x, draws=20_000, rng=1).values
    points = np.array([(i, j, 3 - i - j) for i in range(-40, 44) for j in range(-40, 44)])
    if len(public.statements) > 1:
        points = points[((points >= -2) & (points <= 5)).all(axis=1)]
    for law, agrees in ((LAW, True), (DoubleGeometric("1/2"), False)):
        p = np.exp(law.log_weight(points - x).sum(axis=1))
        assert (p_value_of_tables(drawn, points, p / p.sum()) > 1e-6) is agrees


def released(tmp_path):
    mechanism = ppd.Conditioned(inv.total(), noise=LAW)
    release = ppd.Release(Y, mechanism)
    release.save(tmp_path / "release.ppd")
    read = ppd.read_release(tmp_path / "release.ppd")
    assert read.mechanism == mechanism
    return read


def test_marginalized_posteriors_agree_with_enumeration(tmp_path):
    with pm.Model() as model:
        scale = pm.Gamma("scale", 2, 2)
        ppd.PartiallyPrivate("counts", pm.Poisson.dist(scale * np.array([2.0, 1.0, 3.0])), release=released(tmp_path))
    logp = model.compile_logp()
    found = [logp({"scale_log__": value}) for value in (0.0, 0.5)]
    expected = []
    for value in (0.0, 0.5):
        rates = np.exp(value) * np.array([2.0, 1.0, 3.0])
        log_p = stats.poisson.logpmf(TABLES, rates).sum(axis=1) + LAW.log_weight(Y - TABLES).sum(axis=1)
        prior = stats.gamma.logpdf(np.exp(value), 2, scale=1 / 2) + value
        expected.append(np.logaddexp.reduce(log_p) + prior)
    assert found[1] - found[0] == pytest.approx(expected[1] - expected[0], abs=1e-8)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("right", [LAW, TruncatedCauchy(2)], ids=lambda law: law.name)
def test_denoised_measurements_agree_with_enumeration(right):
    seen = ppd.Measurements({"a": list("ABC")}, ppd.measured(inv.margin("a"), Y, right), public={inv.total(): 7})
    drawn = ppd.denoise(seen, draws=1500, prior="flat", rng=1, progressbar=False).draws.values.reshape(-1, 3)
    for law, agrees in ((right, True), (DoubleGeometric("1/2"), False)):
        log_p = law.log_weight(Y - TABLES).sum(axis=1)
        p = np.exp(log_p - np.logaddexp.reduce(log_p))
        assert (p_value_of_tables(drawn, TABLES, p) > 1e-5) is agrees


def test_noise_without_a_guarantee_is_drawn_but_not_released():
    law = TruncatedCauchy(2)
    points = np.array([(i, -i) for i in range(-12, 13)])
    drawn = exact_noise(structure([[1, 1]]), law).draw(20_000, seeded_stream(1))
    p = np.exp(law.log_weight(points).sum(axis=1))
    assert p_value_of_tables(drawn, points, p / p.sum()) > 1e-6
    assert p_value_of_tables(drawn, points, np.sqrt(p) / np.sqrt(p).sum()) < 1e-6
    with pytest.raises(PrivacyError, match="no known privacy guarantee"):
        ppd.Conditioned(inv.total(), noise=law)


class OtherParameters(HyperbolicSecant):
    name = "secant-of-other-parameters"

    def to_dict(self):
        return {"name": self.name, "rate": str(self.epsilon)}


class OtherValue(HyperbolicSecant):
    name = "secant-of-another-value"

    def to_dict(self):
        return {"name": self.name, "epsilon": str(self.epsilon / 2)}


class WithoutName(HyperbolicSecant):
    def to_dict(self):
        return {"name": "unknown-secant", "epsilon": str(self.epsilon)}


@pytest.mark.parametrize("law", [OtherParameters, OtherValue, WithoutName])
def test_a_release_that_no_reader_can_rebuild_is_not_saved(law, tmp_path):
    release = ppd.Release(Y, ppd.Conditioned(inv.total(), noise=law("1/2")))
    with pytest.raises(ReleaseFileError, match="constructor that takes the texts"):
        release.save(tmp_path / "release.ppd")
    assert not list(tmp_path.iterdir())
