"""The properties of every law of `ppdinf.laws`, against sums and draws; new laws are included automatically."""

import inspect
from fractions import Fraction

import numpy as np
import pytest
from chi_square import p_value_of_tables
from flint import ctx
from grids import box

import ppdinf as ppd
from ppdinf import laws
from ppdinf.errors import PrivacyError
from ppdinf.invariants import Public, between, total
from ppdinf.lattice import structure
from ppdinf.laws import IntegerLaw, L2Laplace, Law
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


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("make", OF_CELLS, ids=named)
def test_sums_of_weights(make, scale):
    """Bounds on tails hold and are sharp: beyond a quarter of the bound, the weight exceeds 1 % of the limit."""
    law, k = make(scale), np.arange(-200_000, 200_001)
    w, size = np.exp(law.log_weight(k.astype(float))), np.abs(k)
    whole = w.sum()
    assert np.log(whole) - 1e-12 <= law.log_total <= np.log(whole) + 0.05
    for tail_probability in (1e-2, 1e-4):
        start = law.tail_start(np.log(tail_probability))
        assert w[size > start].sum() <= tail_probability < 100 * w[size > start // 4].sum()
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
