"""Named data models at ordinary, extreme and rounded parameters, for named releases, against the enumerator.

Chi-square tests of complete tables at p > 1e-6: with about 150 tests, one false alarm in 7,000 runs of all tests. The
draws must also differ from a posterior with a named fault, by the same test.
"""

import numpy as np
import pymc as pm
import pytest
from enumeration import contrast
from scipy import stats

import ppdinf as ppd
from combinations import formulas as own
from combinations.named import PUBLISHED, Named, NamedPosed, chain, drawn_given, moved_once, with_gradient
from combinations.named_laws import DATA_MODELS
from ppdinf.fiber.gibbs import table_update
from ppdinf.invariants import margin
from ppdinf.samplers import lattice_gibbs

# The default compiler takes seconds per model. Without it, PyTensor's rewrites of log(1 - p) are missing, so nan must
# be avoided explicitly.
QUICK = {"mode": "FAST_COMPILE"}
ALARM = 1e-6
FAR = 4.9  # z of the same probability
SUITED = {"multinomial rows": "rows", "Dirichlet-multinomial rows": "rows", "Bernoulli": "two persons"}
OTHERS = ["nothing", "groups", "gaussian", "staircase", "known apart", "at most 5", "suppressed"]
LIGHT = ["Poisson", "binomial", "discrete uniform below 0", "negative binomial of single precision", "multinomial rows"]
DRAWN = ["Poisson", "binomial", "geometric", "discrete uniform", "Poisson, a rate of 0"]
HEAVY = [
    "binomial, one p is 1", "negative binomial, shape unknown", "categorical", "beta-binomial",
    "zero-inflated binomial", "mixture of unlike supports", "mixture with a fixed count",
    "truncated negative binomial", "censored Poisson",
    "hurdle Poisson", "a density of one's own", "a law made of others", "discrete uniform below 0",
    "negative binomial of single precision", "multinomial rows", "Dirichlet-multinomial rows",
]  # fmt: skip


def suited(data):
    return SUITED.get(data, "total")


def others(data):
    """Return the other releases that the data model allows a table of, and that have the required shape."""
    law = DATA_MODELS[data]
    if law.whole or data in SUITED:
        return []
    if law.negative:
        return ["nothing"]

    def log_total(published):
        named = Named(data, published)
        return named.posed().listed(named.points("ordinary")[0])[0].log_total

    return [published for published in OTHERS if np.isfinite(log_total(published))]


def some_others(data):
    """Return two of the other releases, in turn."""
    possible, turn = others(data), list(DATA_MODELS).index(data)
    return [possible[(turn + k) % len(possible)] for k in range(min(2, len(possible)))]


def close(found, expected, scale=1.0):
    return np.allclose(found, expected, rtol=2e-6, atol=1e-7 * max(1.0, abs(scale)), equal_nan=False)


def check_marginalized(named, **mode):
    model, posed, fixed = named.model(marginalize=True), named.posed(), named.law.fixed
    function = model.compile_logp(**mode) if fixed else with_gradient(model, **mode)

    def at(point):
        with np.errstate(all="ignore"):
            found, slopes = (function(point), np.zeros_like(point["theta"])) if fixed else function(point)
        return float(found), slopes

    def expected(theta):
        return posed.log_density({"theta": theta})

    wrong = []
    for point in named.points("ordinary") + named.points("extreme"):
        if named.beyond(point):
            continue
        reference, slopes = expected(point["theta"]), own.slope(expected, point["theta"])
        found, found_slopes = at(point)
        if not abs(found - reference) <= 1e-8 * max(1.0, abs(reference)) or not close(found_slopes, slopes, reference):
            wrong.append((point["theta"].tolist(), found, reference, found_slopes.tolist(), slopes.tolist()))
    for point in named.points("rounded"):
        found, found_slopes = at(point)
        if np.isnan(found) or found == np.inf or not np.isfinite(found_slopes).all():
            wrong.append((point["theta"].tolist(), found, "rounded", found_slopes.tolist()))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("data", DATA_MODELS)
def test_density_of_marginalized_tables(data):
    check_marginalized(Named(data, suited(data)), **QUICK)


@pytest.mark.deep
@pytest.mark.parametrize("data", DATA_MODELS)
def test_density_of_marginalized_tables_of_other_releases(data):
    every = data in ("Poisson", "negative binomial")
    for published in others(data) if every else some_others(data):
        check_marginalized(Named(data, published), **QUICK)


@pytest.mark.deep
@pytest.mark.parametrize("data", ["binomial", "binomial by its logit", "zero-inflated Poisson", "hurdle Poisson"])
def test_density_as_compiled_by_default(data):
    check_marginalized(Named(data, suited(data)))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("rate", [0.3, 2.0, 7.0])
def test_the_data_model_can_override_the_noise(rate):
    """100 released comes from a count near 19: further away than noise is with a probability of 1e-12."""
    release = ppd.Release(np.array([100]), ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon=1))
    with pm.Model() as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 2), shape=1), release=release, marginalize=True)
    x = np.arange(300)

    def expected(rate):  # rate is on the log scale in the model
        likelihood = own.logsumexp(own.poisson(x, rate) - np.abs(100 - x))
        return likelihood + stats.gamma.logpdf(rate, 2, scale=1 / 2) + np.log(rate)

    value = model.compile_logp(**QUICK)
    found = [float(value({"rate_log__": np.log(at)})) for at in (rate, 3.0)]
    assert found[0] - found[1] == pytest.approx(expected(rate) - expected(3.0), abs=1e-7)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("data", [pytest.param(d, marks=() if d in LIGHT else pytest.mark.deep) for d in DATA_MODELS])
def test_density_of_sampled_tables(data):
    """The joint density at listed tables; -inf at a table that violates a sum."""
    named = Named(data, suited(data))
    posed, value = named.posed(), named.model(marginalize=False).compile_logp(**QUICK)
    tables, shape = posed.table_list(), posed.frame.shape
    chosen = tables[np.linspace(0, len(tables) - 1, min(40, len(tables))).astype(int)]
    for point in named.points("ordinary"):
        listed = posed.listed(point)[0]
        expected = [listed.log_weight_of(x) for x in chosen]
        with np.errstate(all="ignore"):
            found = [value(point | {"x": x.reshape(shape)}) for x in chosen]
        # the density of a sampled table is PyMC's own, as precise as its arguments
        assert own.alike(found, expected, 1e-5 if "single precision" in data else 1e-8), (found, expected)
        moved = chosen[0] + np.eye(posed.frame.size, dtype=int)[0]
        assert value(point | {"x": moved.reshape(shape)}) == -np.inf


def faulty(named):
    """Return the posterior with epsilon too large by a half; or, without noise, another distribution of the table."""
    return named.posed(power=1.5) if named.published == "suppressed" else named.posed(times=1.5)


def check_draws(named, draw, draws):
    model = named.model(marginalize=draw is drawn_given)
    for seed, point in enumerate(named.points("ordinary")[: 1 if draw is chain else 2]):
        found = draw(model, point, draws, seed)
        assert named.posed().listed(point)[0].p_value(found) > ALARM
        assert faulty(named).listed(point)[0].p_value(found) < ALARM, "a fault passes"


SUITED_PAIRS = [(data, suited(data)) for data in DRAWN + HEAVY]
SUITED_DRAWS = [
    pytest.param(
        *pair,
        marks=[pytest.mark.compiled] * (k == 0) if k < len(DRAWN) else [pytest.mark.deep, pytest.mark.interpreted],
    )
    for k, pair in enumerate(SUITED_PAIRS)
]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("draw", [drawn_given, chain])
@pytest.mark.parametrize(("data", "published"), SUITED_DRAWS)
def test_draws(data, published, draw):
    check_draws(Named(data, published), draw, 4000 if draw is drawn_given else 2500)


@pytest.mark.deep
@pytest.mark.interpreted
@pytest.mark.parametrize("published", OTHERS)
@pytest.mark.parametrize("data", ["negative binomial", "zero-inflated Poisson"])
def test_draws_of_marginalized_tables_of_other_releases(data, published):
    check_draws(Named(data, published), drawn_given, 20_000)


@pytest.mark.deep
@pytest.mark.interpreted
@pytest.mark.parametrize("published", [*OTHERS, "margins", "rows"])
@pytest.mark.parametrize("data", ["binomial", "zero-inflated Poisson"])
def test_draws_of_sampled_tables_of_other_releases(data, published):
    if published not in OTHERS or published in others(data):
        check_draws(Named(data, published), chain, 10_000)


def posterior_tables(named, point, number=2500):
    return named.posed().listed(point)[0].draw(number, np.random.default_rng(1))


@pytest.mark.deep
@pytest.mark.interpreted
@pytest.mark.parametrize("published", [name for name, release in PUBLISHED.items() if release.normalised])
def test_the_step_divides_by_the_normalizer(published):
    """Such a step accepts or rejects all updates together, so each step starts at its own posterior table."""
    named = Named("Poisson", published)
    point = named.points("ordinary")[0]
    starts = posterior_tables(named, point)
    found = moved_once(named.model(marginalize=False), point, starts, 2)
    assert (found != starts).any(axis=1).mean() > 0.3
    right = named.posed().listed(point)[0]
    assert right.p_value(found) > ALARM
    ((_, tables, p),) = right.probabilities()
    for wrong in named.posed(normalised=False), faulty(named):
        ((_, _, p_wrong),) = wrong.listed(point)[0].probabilities()
        z, z_wrong = contrast(found, tables, p, p_wrong)
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
    named = Named(data, published)
    point, model = named.points("ordinary")[0], named.model(marginalize=False)
    starts, p = posterior_tables(named, point), {}
    for kind in table_update.RandomTruncation, Follow:
        in_intervals(monkeypatch, kind)
        found = moved_once(model, point, starts, 2)
        assert (found != starts).any(axis=1).mean() > 0.2
        p[kind] = named.posed().listed(point)[0].p_value(found)
    assert p[Follow] < ALARM < p[table_update.RandomTruncation]


@pytest.mark.quick_cases(0)
def test_truncated_windows_with_noise_of_unknown_scale(monkeypatch):
    """l2 noise on a table with both margins public: given the scale, Gaussian."""
    in_intervals(monkeypatch, size=5)
    published, scale, theta = PUBLISHED["margins"], 1.7, 0.7
    noise = ppd.GeneralizedLaplace(margin("dim_0") & margin("dim_1"), epsilon="1/2", norm="l2")
    with pm.Model() as model:
        release = ppd.Release(np.array(published.noisy), noise)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(np.exp(theta), shape=(2, 3)), release=release, marginalize=False)
    found = chain(model, {"x_noise_scale_log__": np.log(scale)}, 2500, 3)
    for times, right in ((1.0, True), (1.5, False)):
        noise = own.gaussian(scale / 0.5 * times)

        def log_joint(point, x, noise=noise):
            return noise(np.ravel(published.noisy) - x) + own.poisson(x, np.exp(theta)).sum(axis=1)

        posed = NamedPosed(published.frame, published.system(), [], log_joint=log_joint)
        assert (posed.listed({})[0].p_value(found) > ALARM) is right
