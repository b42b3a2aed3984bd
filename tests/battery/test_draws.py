"""Tables drawn given the parameters, for marginalized and sampled tables, against the enumerated posterior.

Chi-square tests of complete tables at p > 1e-6: with about 150 tests, one false alarm in 7,000 runs of all tests. The
draws must also differ from a posterior with a named fault, by the same test.
"""

import enumerator as own
import numpy as np
import pymc as pm
import pytest
from chi_square import p_value_of_tables
from enumeration import contrast
from grids import tables
from posed import Posed, moved_once, summed_out, walked
from published import PUBLISHED
from test_densities import OTHERS, feasible, first

import ppdinf as ppd
from ppdinf.fiber.gibbs import table_update
from ppdinf.invariants import margin
from ppdinf.samplers import lattice_gibbs

ALARM = 1e-6
FAR = 4.9  # z of the same probability
HEAVY = [
    "binomial, one p is 1", "negative binomial, shape unknown", "categorical", "beta-binomial",
    "zero-inflated binomial", "mixture of unlike supports", "mixture with a fixed count",
    "truncated negative binomial", "censored Poisson",
    "hurdle Poisson", "a density of one's own", "a law made of others", "discrete uniform below 0",
    "negative binomial of single precision", "multinomial rows", "Dirichlet-multinomial rows",
]  # fmt: skip
LIGHT = ["Poisson", "binomial", "geometric", "discrete uniform", "Poisson, a rate of 0"]


def check_draws(posed, draw, draws, *, faults=None):
    marginalize = draw is summed_out
    model, listed = posed.model(marginalize=marginalize), posed.listed()
    for seed, point in enumerate(posed.points("ordinary")[: 1 if draw is walked else 2]):
        log_joint = posed.log_joint(point, listed)
        found = draw(model, point, draws, seed)
        assert p_value_of_tables(found, listed.tables, listed.probabilities(log_joint)) > ALARM
        for fault in faults or [faulty_noise(posed)]:
            wrong, log_wrong = fault(point)
            assert p_value_of_tables(found, wrong.tables, wrong.probabilities(log_wrong)) < ALARM, "a fault passes"


def faulty_noise(posed):
    """Return the posterior with epsilon too large by a half; or, without noise, another distribution of the table."""

    def fault(point):
        listed = posed.listed(times=1.5)
        if posed.published == "suppressed":
            return listed, 1.5 * posed.log_joint(point, listed)
        return listed, posed.log_joint(point, listed)

    return fault


def no_normaliser(posed):
    def fault(point):
        listed = posed.listed(normalised=False)
        return listed, posed.log_joint(point, listed)

    return fault


AS_BY_DEFAULT = [pytest.param(data, marks=[pytest.mark.compiled] * (data == "Poisson")) for data in LIGHT]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("data", AS_BY_DEFAULT)
def test_draws_of_marginalized_tables(data):
    check_draws(first(data), summed_out, 4000)


@pytest.mark.deep
@pytest.mark.interpreted
@pytest.mark.parametrize("data", HEAVY)
def test_draws_of_marginalized_tables_with_heavy_data_models(data):
    check_draws(first(data), summed_out, 4000)


@pytest.mark.deep
@pytest.mark.interpreted
@pytest.mark.parametrize("published", OTHERS)
@pytest.mark.parametrize("data", ["negative binomial", "zero-inflated Poisson"])
def test_draws_of_marginalized_tables_for_other_releases(data, published):
    check_draws(Posed(data, published), summed_out, 20_000)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("data", AS_BY_DEFAULT)
def test_draws_of_sampled_tables(data):
    check_draws(first(data), walked, 2500)


@pytest.mark.deep
@pytest.mark.interpreted
@pytest.mark.parametrize("data", HEAVY)
def test_draws_of_sampled_tables_with_heavy_data_models(data):
    check_draws(first(data), walked, 2500)


@pytest.mark.deep
@pytest.mark.interpreted
@pytest.mark.parametrize("published", [*OTHERS, "margins", "rows"])
@pytest.mark.parametrize("data", ["binomial", "zero-inflated Poisson"])
def test_draws_of_sampled_tables_for_other_releases(data, published):
    if feasible(data, published):
        check_draws(Posed(data, published), walked, 10_000)


@pytest.mark.deep
@pytest.mark.interpreted
@pytest.mark.parametrize("published", [name for name, release in PUBLISHED.items() if release.normalised])
def test_the_step_divides_by_the_normalizer(published):
    """Such a step accepts or rejects all updates together, so each step starts at its own posterior table."""
    posed = Posed("Poisson", published)
    listed, point = posed.listed(), posed.points("ordinary")[0]
    posterior = listed.probabilities(posed.log_joint(point, listed))
    starts = listed.tables[np.random.default_rng(1).choice(len(posterior), size=2500, p=posterior)]
    found = moved_once(posed.model(marginalize=False), point, starts, 2)
    assert (found != starts).any(axis=1).mean() > 0.3
    assert p_value_of_tables(found, listed.tables, posterior) > ALARM
    for fault in no_normaliser(posed), faulty_noise(posed):
        wrong, log_wrong = fault(point)
        z, z_wrong = contrast(found, listed.tables, posterior, wrong.probabilities(log_wrong))
        assert abs(z) < FAR < abs(z_wrong)


class Follow(table_update.RandomTruncation):
    """Truncate windows around the table: excluded counts cannot be returned to."""

    def around(self, table, at):
        return (self.lower, self.width) if at is None else (table - 1, self.size)


def in_intervals(monkeypatch, kind=table_update.RandomTruncation, size=4):
    """Truncate windows to a few counts."""
    monkeypatch.setattr(
        lattice_gibbs,
        "random_truncation",
        lambda lower, log_noise: kind(lower, log_noise.shape[1], size, np.ones(lower.size)),
    )


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("data", "published"), [("Poisson", "margins"), ("binomial", "total"), ("Poisson", "nothing")])
def test_steps_with_truncated_windows_keep_the_posterior(data, published, monkeypatch):
    """Each step starts at its own posterior table: all are independent, even if they move little."""
    posed = Posed(data, published)
    point, listed, model = posed.points("ordinary")[0], posed.listed(), posed.model(marginalize=False)
    posterior = listed.probabilities(posed.log_joint(point, listed))
    starts = listed.tables[np.random.default_rng(1).choice(len(posterior), size=2500, p=posterior)]
    p = {}
    for kind in table_update.RandomTruncation, Follow:
        in_intervals(monkeypatch, kind)
        found = moved_once(model, point, starts, 2)
        assert (found != starts).any(axis=1).mean() > 0.2
        p[kind] = p_value_of_tables(found, listed.tables, posterior)
    assert p[Follow] < ALARM < p[table_update.RandomTruncation]


@pytest.mark.quick_cases(0)
def test_truncated_windows_with_noise_of_unknown_scale(monkeypatch):
    """l2 noise on a table with both margins public: given the scale, Gaussian."""
    in_intervals(monkeypatch, size=5)
    y, scale, theta = np.array([[4, -1, 2], [0, 3, 1]]), 1.7, 0.7
    noise = ppd.GeneralizedLaplace(margin("dim_0") & margin("dim_1"), epsilon="1/2", norm="l2")
    with pm.Model() as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(np.exp(theta), shape=(2, 3)), release=ppd.Release(y, noise))
    A = [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0]]
    x = tables([0] * 6, [5] * 6, A, [5, 4, 4, 2])
    found = walked(model, {"x_noise_scale_log__": np.log(scale)}, 2500, 3)
    for times, right in ((1.0, True), (1.5, False)):
        listed = own.Listed(x, own.gaussian(scale / 0.5 * times)(y.ravel() - x))
        assert (
            p_value_of_tables(found, listed.tables, listed.probabilities(own.poisson(x, np.exp(theta)).sum(axis=1)))
            > ALARM
        ) is right
