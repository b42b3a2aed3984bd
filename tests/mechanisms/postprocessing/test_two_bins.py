"""The two-bin histogram with a public total: laws, variances and privacy levels of post-processing.

Noise of rate epsilon / 2 in both bins, s = (s_1, s_2) confidential. Conditioned, the noise of the first bin is Laplace
of rate epsilon; projected, it is (u_1 - u_2) / 2; nearest in l1 is any mixture beta u_1 - (1 - beta) u_2.
"""

import numpy as np
import pytest
from scipy import integrate

import ppdinf as ppd
from ppdinf.invariants import Public, total
from ppdinf.mechanisms.postprocessing import PostProcessed

EPSILON = 0.5
RATE = EPSILON / 2
TABLE = np.array([12, 40])
A = np.exp(-RATE)
VARIANCE = 2 * A / (1 - A) ** 2  # of one bin's noise; 8 / epsilon**2 in the limit of small epsilon
DRAWS = 40_000


def first_bin(method, draws=DRAWS):
    return PostProcessed(total(), RATE, method).simulate(TABLE, draws=draws, rng=1).values[:, 0]


def test_projection_is_the_half_difference_of_the_noise():
    noisy = PostProcessed(Public(), RATE, "truncated").simulate(TABLE + 10_000, draws=50, rng=1).values - 10_000
    noise = noisy - TABLE
    assert first_bin("l2", 50) == pytest.approx(TABLE[0] + (noise[:, 0] - noise[:, 1]) / 2)


def test_projection_is_unbiased_and_twice_as_variable_as_conditioning():
    """Erratum: the printed mean of both bins is their average."""
    found = first_bin("l2")
    error = found.std() / np.sqrt(DRAWS)
    assert abs(found.mean() - TABLE[0]) < 5 * error
    assert abs(found.mean() - TABLE.mean()) > 100 * error
    assert found.var() == pytest.approx(VARIANCE / 2, rel=0.05)
    assert pytest.approx(4 / EPSILON**2, rel=0.02) == VARIANCE / 2
    conditioned = ppd.GeneralizedLaplace(total(), epsilon=RATE).simulate(TABLE, draws=DRAWS, rng=2).values[:, 0]
    assert conditioned.var() == pytest.approx(2 / EPSILON**2, rel=0.05)


def test_law_of_the_half_difference():
    """Equation (4.7): an even mixture of a Laplace law and a signed Gamma(2) law, of rate epsilon."""
    t = np.linspace(0.3, 40, 60)

    def even_mixture(x):
        return 0.25 * EPSILON * (1 + EPSILON * abs(x)) * np.exp(-EPSILON * abs(x))

    def sum_of_two(x):  # density of (u_1 + u_2) / 2 at x, by convolution
        inner = lambda u: np.exp(-RATE * (abs(u) + abs(2 * x - u)))  # noqa: E731
        return 2 * (RATE / 2) ** 2 * integrate.quad(inner, -400, 400, points=[0, 2 * x], limit=400)[0]

    assert [sum_of_two(x) for x in t] == pytest.approx(even_mixture(t), rel=1e-6)
    assert integrate.quad(lambda x: x**2 * even_mixture(x), -400, 400, points=[0])[0] == pytest.approx(4 / EPSILON**2)


def mixture(beta):
    """Equation (A.1): density of beta u_1 + (1 - beta) u_2 for Laplace noise of rate epsilon / 2."""
    if beta in (0, 1):
        return lambda t: RATE / 2 * np.exp(-RATE * abs(t))
    wide, narrow = RATE / beta, RATE / (1 - beta)
    parts = (beta, wide), (beta - 1, narrow)
    return lambda t: sum(w * np.exp(-r * abs(t)) for w, r in parts) * EPSILON / (4 * (2 * beta - 1))


@pytest.mark.parametrize("beta", [0, 0.25, 0.4, 0.7, 1])
def test_l1_level(beta):
    """Moving a person shifts the first bin by 1: the loss is exactly epsilon / (2 max(beta, 1 - beta))."""
    density = mixture(beta)
    if 0 < beta < 1:
        for t in (0.4, 3.0, 17.0):
            kinks = sorted({0.0, t / (1 - beta)})
            part = lambda u: np.exp(-RATE * (abs(u) + abs(t - (1 - beta) * u) / beta))  # noqa: B023, E731
            direct = (RATE / 2) ** 2 / beta * integrate.quad(part, -300, 300, points=kinks, limit=400)[0]
            assert density(t) == pytest.approx(direct, rel=1e-6)
    t = np.linspace(-60, 60, 24_001)
    loss = np.abs(np.log(density(t) / density(t - 1)))
    level = EPSILON / (2 * max(beta, 1 - beta))
    assert loss.max() <= level * (1 + 1e-9)
    assert loss.max() > level * 0.99
    assert level < EPSILON or beta == 0.5


def test_integer_noise_does_not_reach_that_level():
    """The level is that of continuous noise. Integer noise reveals its grid: 2 u_1 - u_2 moved by 3."""
    beta, u = 2 / 3, np.arange(-200, 201)
    mass = A ** np.abs(u)
    law = np.zeros(1201)
    np.add.at(law, (2 * u[:, np.newaxis] - u).ravel() + 600, np.outer(mass, mass).ravel())
    near = np.arange(-90, 91) + 600
    loss = np.abs(np.log(law[near] / law[near - 3])).max()
    assert EPSILON / (2 * beta) * 1.05 < loss <= EPSILON


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "method", ["l2", pytest.param("l1", marks=pytest.mark.deep), "nonnegative", "rounded", "truncated"]
)
def test_post_processing_loses_no_more_than_the_noise(method):
    """All noise within reach, all tables with a total of 4: the loss is at most rate times l1 distance."""
    rate, reach = 1.0, 22
    mechanism = PostProcessed(total(), rate, method)
    noise = np.array(
        [(k, m) for k in range(-reach, reach + 1) for m in range(-reach, reach + 1) if abs(k) + abs(m) <= reach]
    )
    laws = []
    for first in range(5):
        table = np.array([first, 4 - first])
        system = mechanism.public.on(table)
        levels = mechanism._levels(system.frame)
        found = np.round(mechanism._fit(system, levels, [table + noise]), 6)
        law = {}
        for out, weight in zip(map(tuple, found), np.exp(-rate * np.abs(noise).sum(axis=1)), strict=True):
            law[out] = law.get(out, 0.0) + weight
        laws.append(law)
    left_out = 4 * reach * np.exp(-rate * (reach + 1)) * 4
    losses = []
    for x in range(5):
        for other in range(5):
            for out, weight in laws[x].items():
                if weight > 1e4 * left_out and x != other:
                    ratio = np.log(weight / (laws[other].get(out, 0.0) + left_out))
                    losses.append(ratio / (rate * 2 * abs(x - other)))
    assert max(losses) < 1 + 1e-3
    assert max(losses) > 0.4  # and it does say something


def test_truncation_is_biased_as_computed():
    """E max(x + K, 0) - x = a**(x + 1) / (1 - a**2)."""
    small = np.array([0, 1, 5])
    found = PostProcessed(Public(), RATE, "truncated").simulate(small, draws=DRAWS, rng=3).values
    expected = A ** (small + 1) / (1 - A**2)
    error = found.std(axis=0) / np.sqrt(DRAWS)
    assert (np.abs(found.mean(axis=0) - small - expected) < 5 * error).all()
    assert (expected > 20 * error).all()
    kept = PostProcessed(total(), RATE, "l2").simulate(small, draws=DRAWS, rng=3).values
    assert (np.abs(kept.mean(axis=0) - small) < 5 * kept.std(axis=0) / np.sqrt(DRAWS)).all()
