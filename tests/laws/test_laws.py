"""The properties of every law of `ppdinf.laws`, against sums and draws, and of a law defined outside of the package."""

import inspect
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
from chi_square import p_value_of_tables
from flint import arb, ctx
from grids import box
from scipy import stats

import ppdinf as ppd
from ppdinf import laws
from ppdinf._internal.rationals import as_fraction, ball
from ppdinf._internal.values import assign
from ppdinf.errors import PrivacyError, ReleaseFileError
from ppdinf.invariants import Public, between, total
from ppdinf.lattice import structure
from ppdinf.laws import DoubleGeometric, IntegerLaw, L2Laplace, Law
from ppdinf.laws.synonyms import SYNONYMS as TABLE_OF_SYNONYMS
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.noise.sampler_plan import exact_noise

EXPORTED = [law for name in laws.__all__ if inspect.isclass(law := getattr(laws, name)) and issubclass(law, Law)]
CONCRETE = [law for law in EXPORTED if not inspect.isabstract(law)]
OF_CELLS = [law for law in CONCRETE if issubclass(law, IntegerLaw)]
SCALES = ["1/2", "1", "3/2"]  # the first parameter of every law
K = np.arange(-4000, 4001)


def named(law):
    return law.name


def test_all_laws_are_exported():
    """Every law that files can name is exported; laws that are not exported would not be tested."""
    files = {name: law for name, law in IntegerLaw._family.items() if law.__module__.startswith("ppdinf.")}
    assert {law.name: law for law in OF_CELLS} == files
    assert len({law.name for law in CONCRETE}) == len(CONCRETE) >= 4


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("make", OF_CELLS, ids=named)
def test_weights_of_cells(make, scale):
    law = make(scale)
    w = np.exp(law.log_weight(K.astype(float)))
    assert law.log_weight(0) == 0
    np.testing.assert_array_equal(w, w[::-1])
    assert (np.diff(w[4000:]) <= 0).all()
    for size in (0, 1, 2, 5, 17):
        assert float(law.weight(size)) == pytest.approx(w[4000 + size], rel=1e-12)
        ahead = w[4000 + size + law.period : 4400 + law.period]
        ratios = (ahead / np.maximum(w[4000 + size : 4400], 1e-300))[ahead > 1e-290]
        assert ratios.max() <= float(law.largest_ratio(size).upper()) * (1 + 1e-12)
    if law.log_quadratic is not None:
        rate, bend = law.log_quadratic
        np.testing.assert_allclose(law.log_weight(K.astype(float)), -(rate * np.abs(K) + bend * K**2 / 2), rtol=1e-12)
    assert law.log_mass([2, -1, 0]) == pytest.approx(float(law.log_weight(2) + law.log_weight(1)))


@pytest.mark.parametrize("scale", [*SCALES, "1/20"])
@pytest.mark.parametrize("make", OF_CELLS, ids=named)
def test_sums_of_weights(make, scale):
    """Bounds on tails hold and are sharp: beyond a quarter of the bound, the weight exceeds 1 % of the limit."""
    law, k = make(scale), np.arange(-200_000, 200_001)
    w, size = np.exp(law.log_weight(k.astype(float))), np.abs(k)
    whole = w.sum()
    assert np.log(whole) - 1e-12 <= law.log_total <= np.log(whole) + 0.05
    for tail_probability in (1e-2, 1e-4):
        start = law.tail_start(np.log(tail_probability))
        assert w[size > start].sum() <= tail_probability
        assert start < 4 or tail_probability < 100 * w[size > start // 4].sum()
        one = law.support_radius(1, tail_probability)
        assert w[size > one].sum() / whole <= tail_probability
        beyond = w[size > law.support_radius(1000, tail_probability)].sum() / whole  # of one cell among a thousand
        assert 1 - (1 - beyond) ** 1000 <= tail_probability
    if law.tail_start(-20 * np.log(2)) < 2**20:
        weights, left = law.window(20, ctx.prec)
        assert w[size >= len(weights)].sum() <= float(left) <= 2.0**-20
    else:
        with pytest.raises(PrivacyError, match="too many to list"):
            law.window(20, ctx.prec)
    if start >= 4:  # otherwise fewer than three weights suffice
        weights, left = law.window(20, ctx.prec, 2)
        assert (len(weights), left) == (3, 0)


@pytest.mark.quick_cases(9)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("make", CONCRETE, ids=named)
def test_noise_stays_within_its_support_radius(make, scale):
    """Enumerate three cells with a public sum, also with all noise values between -1 and 2."""
    law, tail_probability, reach = make(scale), 1e-3, 40
    points = box(-reach, reach, 2)
    points = np.column_stack([points, -points.sum(axis=1)])
    p = np.exp([law.log_mass(z) for z in points])
    assert law.log_mass(np.zeros(3)) == 0
    beyond = np.abs(points).max(axis=1) > law.support_radius(3, tail_probability)
    assert p[beyond].sum() <= tail_probability * p.sum()
    bounded = (points >= -1).all(axis=1) & (points <= 2).all(axis=1)
    beyond = np.abs(points).max(axis=1) > law.widest_half_width(3, tail_probability)
    assert p[beyond & bounded].sum() <= tail_probability * p[bounded].sum()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("make", OF_CELLS, ids=named)
def test_privacy_loss_bounds(make, scale):
    """Pure DP: every step. zCDP: Renyi divergences of orders 2, 3 and 10 for neighbouring integers."""
    law = make(scale)
    log_w = law.log_weight(K.astype(float))
    log_p = log_w - np.logaddexp.reduce(log_w)
    assert law.epsilon_per_unit is not None or law.rho_per_square is not None
    if law.epsilon_per_unit is not None:
        assert np.abs(np.diff(log_w)).max() <= float(law.epsilon_per_unit) + 1e-9
    if law.rho_per_square is not None:
        for order in (2, 3, 10):
            moment = np.logaddexp.reduce(order * log_p[1:] + (1 - order) * log_p[:-1])
            assert moment / (order - 1) <= order * float(law.rho_per_square) + 1e-9


def drawn(law, public, cells):
    """Draw noise around 0 with the lattice samplers, or conditional on all public information."""
    zeros = np.zeros(cells, dtype=int)
    system = public.on(zeros)
    if isinstance(law, L2Laplace):
        return exact_noise(structure(system.A), law).draw(20_000, seeded_stream(1))
    return ppd.Conditioned(public, noise=law).draw(system, zeros, 20_000, seeded_stream(1))


def grid(ends, free):
    return box(ends[0], ends[1], free)


FREE, SUM = grid((-40, 40), 1), grid((-40, 40), 2)
CASES = {
    "one cell": (Public(), FREE),
    "three cells with a sum": (total(), np.column_stack([SUM, -SUM.sum(axis=1)])),
    "two cells with bounds": (between(-2, 3), grid((-2, 3), 2)),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("make", CONCRETE, ids=named)
def test_draws_follow_the_weights(make, case):
    """The false alarm rate of each case is below 1e-6; a law with another scale is rejected."""
    public, points = CASES[case]
    bounded = case.endswith("bounds")
    if bounded and not issubclass(make, IntegerLaw):
        pytest.skip("bounds on l2 noise are those of WassersteinExponential")
    if bounded and make("3/2").epsilon_per_unit is None:
        with pytest.raises(PrivacyError, match="no known guarantee"):
            drawn(make("3/2"), public, points.shape[1])
        return
    if not bounded and issubclass(make, IntegerLaw) and make("3/2").tail_start(-50) > 2**20:
        with pytest.raises(PrivacyError, match="too many to list"):
            drawn(make("3/2"), public, points.shape[1])
        return
    found = drawn(make("3/2"), public, points.shape[1])
    for scale, agrees in (("3/2", True), ("11/10", False)):
        p = np.exp([make(scale).log_mass(z) for z in points])
        assert (p_value_of_tables(found, points, p / p.sum(), least=10, complete=False) > 1e-6) is agrees


def test_errors_in_constructors_are_raised():
    class Faulty(laws.Staircase):
        name = "faulty"

        def __init__(self, epsilon):
            raise TypeError("a fault of its own")

    try:
        with pytest.raises(TypeError, match="of its own"):
            IntegerLaw.from_dict({"name": "faulty", "epsilon": "1"})
    finally:
        del IntegerLaw._family["faulty"]


def test_discrete_gaussian_from_sigma_or_variance():
    half, root = laws.DiscreteGaussian("3/2"), laws.DiscreteGaussian(variance=2)
    assert (half.sigma, half.variance) == (Fraction(3, 2), Fraction(9, 4))
    assert root.sigma == pytest.approx(2**0.5)


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


EQUAL = [
    (laws.Laplace(b=4), laws.Laplace(4.0)),
    (laws.Laplace(epsilon="1/4"), laws.Laplace(4.0)),
    (laws.Laplace(sd=2), laws.Laplace.of_sd(2)),
    (laws.DoubleGeometric(scale=4), laws.DoubleGeometric("1/4")),
    (laws.DoubleGeometric(b="1/3"), laws.DoubleGeometric(3)),
    (laws.Gaussian(sigma=3), laws.Gaussian(3)),
    (laws.Gaussian(scale=3), laws.Gaussian(3)),
    (laws.Gaussian(rho="1/8"), laws.Gaussian(2.0)),
    (laws.DiscreteGaussian(rho="1/8"), laws.DiscreteGaussian(2)),
    (laws.DiscreteGaussian(rho="1/6"), laws.DiscreteGaussian(variance=3)),
    (laws.DiscreteGaussian(scale=2), laws.DiscreteGaussian(2)),
    (ppd.GeneralizedLaplace(ppd.invariants.total(), scale=4), ppd.GeneralizedLaplace(ppd.invariants.total(), "1/4")),
]


@pytest.mark.parametrize(("stated", "law"), EQUAL)
def test_names_of_papers_state_the_same_law(stated, law):
    assert stated == law


@pytest.mark.parametrize("kind", list(TABLE_OF_SYNONYMS))
def test_every_other_name_says_what_to_write(kind):
    make = getattr(laws, kind, None) or getattr(ppd, kind)
    first = [ppd.invariants.total()] if kind.startswith("Generalized") else []
    for name, meaning in TABLE_OF_SYNONYMS[kind].items():
        if isinstance(meaning, str):
            with pytest.raises(PrivacyError, match=rf"^{kind}\({name}=\): .*(write|use) "):
                make(*first, **{name: 1})
        else:
            assert meaning[0] in inspect.signature(make).parameters
            with pytest.raises(PrivacyError, match="state the same parameter"):
                make(*first, **{name: 1, meaning[0]: 1})


def test_names_of_papers_take_one_number_per_entry():
    assert [law.scale for law in laws.Laplace(epsilon=[0.25, 0.5]).laws] == [4, 2]
    assert laws.DoubleGeometric(scale=np.array([2.0, 4.0])).number.tolist() == [0, 1]
