"""The likelihood of a post-processed table alone, against enumeration of all noisy tables and of all counts."""

import itertools

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.errors import ModelError
from ppdinf.invariants import Public, at_least, linear, margin, total
from ppdinf.laws.preimage import rounding_order
from ppdinf.mechanisms.postprocessing import PostProcessed, TopDown
from ppdinf.noise.primitives.stream import seeded_stream

METHODS = ("truncated", "l2", "nonnegative", "rounded")
PAIRS = linear([[1, 1, 0, 0], [0, 0, 1, 1]])
SCALE = np.array([1.0, 0.5, 1.0, 2.0])


def law_by_enumeration(mechanism, table, reach):
    """Published tables and their probabilities: the mechanism's own processing of all noise within reach."""
    system, rate = mechanism.public.on(table), float(mechanism.epsilon)
    noise = np.array(list(itertools.product(range(-reach, reach + 1), repeat=table.size)))
    published = mechanism._fit(system, mechanism._levels(system.frame), [table + noise])
    p = np.exp(-rate * np.abs(noise).sum(axis=1)) * np.tanh(rate / 2) ** table.size
    _, first, which = np.unique(np.round(published, 6), axis=0, return_index=True, return_inverse=True)
    return published[first], np.bincount(which.ravel(), p)


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("public", "table"), [(total(), [3, 0, 1]), (total(), [0, 0, 0]), (Public(), [1, 0, 2]), (PAIRS, [1, 0, 0, 2])]
)
def test_density_is_the_sum_over_all_noisy_tables(public, table, method):
    table, mechanism = np.array(table), PostProcessed(public, 2, method)
    published, p = law_by_enumeration(mechanism, table, 9 if table.size == 3 else 6)
    likely = np.argsort(-p)[:150]
    found = np.exp([mechanism.logp(published[i], table) for i in likely])
    assert found == pytest.approx(p[likely], abs=1e-4 if table.size == 4 else 1e-6)
    assert len(p) > 150 or found.sum() == pytest.approx(1, abs=1e-9)  # normalized where all tables are listed
    if len(p) > 1 and method != "l2":  # a published 0 is not a noisy count of 0, and sums hide the noise of the mean
        as_noisy = np.exp([mechanism.measurement.logp(np.rint(published[i]).astype(int), table) for i in likely])
        assert np.abs(as_noisy - p[likely]).max() > 0.02


def test_equal_fractions_are_rounded_up_in_a_fixed_order():
    """Rounding errors of the projection do not decide: the preimage is known."""
    mechanism, table = PostProcessed(total(), "1/4", "rounded"), np.array([3, 90_001, 0, 77, 1204, 9])
    target = total().on(table)
    noisy = table + np.random.default_rng(1).integers(-4, 5, (300, 6))
    published = mechanism._fit(target, mechanism._levels(target.frame), [noisy])
    for y, t in zip(noisy, published, strict=True):
        order = np.argsort(rounding_order(6))
        shifts = (y - t)[order][t[order] > 0]
        assert shifts.max() - shifts.min() <= 1
        assert (np.diff(shifts) >= 0).all()


def log_likelihood(mechanism, published, rates):
    """Log likelihood of each rate of Poisson counts, by enumeration of all tables with the public sums."""
    tables = np.array(list(itertools.product(range(8), repeat=4)))
    system = mechanism.public.on(np.rint(published).astype(int))
    tables = tables[(tables @ system.A.T.toarray() == np.rint(system.A @ published)).all(axis=1)]
    log_p = np.array([mechanism.logp(published, x) for x in tables])
    return np.array([logsumexp(log_p + stats.poisson.logpmf(tables, r * SCALE).sum(axis=1)) for r in rates])


def model_of(release, marginalize="auto"):
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 2, 1)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate * SCALE), release=release, marginalize=marginalize)
    return model


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("public", [total(), PAIRS], ids=["total", "pairs"])
def test_marginal_likelihood_of_a_model(public, method):
    """Summed over the integers of the groups, the density of the model is the sum over noise and counts."""
    mechanism, rates = PostProcessed(public, 1, method), np.array([0.2, 0.7])
    published = mechanism.simulate(np.array([3, 0, 1, 2]), draws=9, rng=5).values
    published = max(published, key=lambda y: (y < 1e-9).sum())  # many zeros
    model = model_of(ppd.Release(published, mechanism))
    log_p, point = model.compile_logp(), model.initial_point()
    shift = point.get("x_noise_shift", np.zeros(0, dtype=int))
    reach = 45 if shift.size == 1 else 12 * (1 + (method == "rounded"))
    found = []
    for rate in rates:
        point["rate_log__"] = np.array(np.log(rate))
        terms = []
        for k in itertools.product(range(-reach, reach + 1), repeat=shift.size):
            terms.append(log_p(point | ({"x_noise_shift": np.array(k)} if shift.size else {})))
        found.append(logsumexp(terms) - stats.gamma.logpdf(rate, 2) - np.log(rate))
    assert found == pytest.approx(log_likelihood(mechanism, published, rates), abs=2e-3 if shift.size == 0 else 1e-4)


@pytest.mark.parametrize("method", ["truncated", "rounded"])
def test_other_uses_of_the_published_table(method):
    """Releases of many tables are drawn again; `denoise` and lists have no sum over the preimage."""
    mechanism, table = PostProcessed(total(), "1/2", method), np.array([3, 0, 1, 2])
    drawn = pm.draw(mechanism.dist(pm.Multinomial.dist(6, np.full(4, 0.25))), draws=40, random_seed=1)
    assert (drawn >= 0).all()
    assert method == "truncated" or (drawn.sum(axis=1) == 6).all()
    tables = np.array([table, [0, 6, 0, 0]] * 2000)
    released = mechanism.draw(mechanism.public.on(table), tables, 4000, seeded_stream(1))
    laws = [mechanism.simulate(x, draws=2000, rng=2).values.mean(axis=0) for x in tables[:2]]
    assert released[::2].mean(axis=0) == pytest.approx(laws[0], abs=0.4)  # 6 standard errors of a cell
    assert released[1::2].mean(axis=0) == pytest.approx(laws[1], abs=0.4)
    with pytest.raises(ModelError, match="not supported by denoise and in lists"):
        ppd.Measurements.of_releases([ppd.Release(released[0], mechanism)])


@pytest.mark.deep
@pytest.mark.parametrize("marginalize", ["auto", False])
def test_posterior_of_the_rate_and_of_the_counts(marginalize):
    """Four chains against enumeration; the published table read as the noisy table has another posterior."""
    mechanism, published = PostProcessed(total(), "1/2", "rounded"), np.array([6, 0, 0, 0])
    release = ppd.Release(published, mechanism)
    tables = np.array([x for x in itertools.product(range(7), repeat=4) if sum(x) == 6])
    log_p = np.array([mechanism.logp(published, x) for x in tables])
    log_prior = stats.multinomial.logpmf(tables, 6, SCALE / SCALE.sum())  # independent of the rate given the total
    exact = np.exp(log_p + log_prior - logsumexp(log_p + log_prior)) @ tables
    model = model_of(release, marginalize)
    with model:
        idata = pm.sample(2000, tune=1000, chains=4, cores=1, random_seed=1, progressbar=False, quiet=True)
    draws = ppd.sample_confidential(idata, model, random_seed=2) if marginalize == "auto" else idata.posterior.x
    found = draws.mean(("chain", "draw")).values
    assert found == pytest.approx(exact, abs=0.12)
    naive = np.array([mechanism.measurement.logp(published, x) for x in tables]) + log_prior
    assert abs(np.exp(naive - logsumexp(naive)) @ tables - exact).max() > 0.4


def test_unknown_preimages_are_refused_by_name():
    crossing = ppd.as_table([[3, 0], [1, 2]], dims=("a", "b"))
    for mechanism in (
        PostProcessed(total(), 1, "l1"),
        PostProcessed(margin("a") & margin("b"), 1),
        PostProcessed(total() & at_least("0", "1", dim="b"), 1),
        TopDown(total(), 1, margin("a")),
    ):
        release = ppd.Release(crossing.assign_coords(b=["1", "0"]), mechanism)
        with pm.Model(coords=release.coords), pytest.raises(ModelError, match=r"maps to one table.*release\.noisy"):
            ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), release=release)
        with pytest.raises(ModelError, match="maps to one table"):
            mechanism.logp(crossing.assign_coords(b=["1", "0"]), crossing.assign_coords(b=["1", "0"]))
