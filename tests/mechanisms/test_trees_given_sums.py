"""Pairs and small trees of counts given public sums: draws, normalizers, losses and posteriors against enumeration."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from chi_square import p_value_of_tables
from integer_programmes import distance_by_programme
from scipy import special

import ppdinf as ppd
from ppdinf.errors import CountError, InvariantError, PrivacyError
from ppdinf.invariants import at_least, inequality, linear, margin, nonnegative, total
from ppdinf.lattice.fiber_tables import fiber_tables
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, L2Laplace, Staircase
from ppdinf.mechanisms import DirichletMultinomial, bound_trees, trees_given_sums, weighted
from ppdinf.mechanisms.bound_trees import forest_of, prefix_sums
from ppdinf.mechanisms.trees_given_sums import RATIO_BOUND, TreesGivenSums
from ppdinf.noise.exact.l2_laplace_mixture import log_sum
from ppdinf.noise.primitives.stream import seeded_stream

ALARM = 1e-6
PAIRS = xr.DataArray(
    [[3, 1], [0, 0], [2, 2]], dims=("county", "kind"), coords={"county": list("xyz"), "kind": ["cases", "deaths"]}
)
CHAIN = xr.DataArray(
    [[3, 2, 1], [1, 1, 0]], dims=("county", "kind"), coords={"kind": ["cases", "in hospital", "deaths"]}
)
ROW = np.tile([1, 0], 3)[np.newaxis]
SMALLER = nonnegative() & at_least("cases", "deaths", dim="kind")
STATEMENTS = {
    "cases": (linear(ROW, ["cases"]) & SMALLER, PAIRS),
    "cases and deaths": (margin("kind") & SMALLER, PAIRS),
    "weighted sum": (linear(ROW + 2 * ROW[:, ::-1], ["weighted"]) & SMALLER, PAIRS),
    "no sum of cases": (linear(ROW[:, ::-1], ["deaths"]) & SMALLER & inequality(-np.eye(6, dtype=int)[::2], [-4] * 3),
                        PAIRS),
    "chain": (
        total()
        & nonnegative()
        & at_least("cases", "in hospital", dim="kind")
        & at_least("in hospital", "deaths", dim="kind"),
        CHAIN,
    ),
    "upper bound of a sum": (total() & nonnegative() & inequality([[-1, -2, 0, 0]], [-7], ["limit"]),
                             xr.DataArray([2, 1, 0, 4], dims="cell")),
}  # fmt: skip
LAWS = {"l1": DoubleGeometric("1/2"), "l2": L2Laplace(1), "Gaussian": DiscreteGaussian(2)}


def prior(cells):
    """Dirichlet-multinomial weights of every second cell."""
    return DirichletMultinomial([5 * k if k % 4 else None for k in range(1, cells + 1)], "1/3")


def enumerated(system, x, law, base=None, misprint=False):
    """List all releases of a table, their probabilities and the log of their total weight."""
    points = fiber_tables(system.A, system.A @ x, system.B, system.limits, most=10**6)
    z = points - x
    log_w = -float(law.epsilon) * np.linalg.norm(z, axis=1) if law.is_mixture else law.log_weight(z).sum(axis=1)
    for i, alpha in enumerate(() if base is None else base.alpha):
        if alpha is not None:
            y = points[:, i]
            log_w = log_w + special.gammaln(y + float(alpha)) - special.gammaln(float(alpha))
            log_w -= special.gammaln(np.maximum(y, 1) if misprint else y + 1)
    log_c = special.logsumexp(log_w)
    return points, np.exp(log_w - log_c), log_c


def sampler(system, x, law, base=None):
    return TreesGivenSums(system, forest_of(system), x, law, base)


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("has_prior", [False, True])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", STATEMENTS)
def test_draws_have_the_enumerated_law(name, law, has_prior):
    """False alarms below 1e-6 for each case; noise 15 % narrower, or without its base measure, is detected."""
    public, table = STATEMENTS[name]
    system, x, noise = public.on(table), table.values.ravel(), LAWS[law]
    base = prior(x.size) if has_prior else None
    points, p, log_c = enumerated(system, x, noise, base)
    found = sampler(system, x, noise, base)
    drawn = found.draw(20_000, seeded_stream(3))
    assert p_value_of_tables(drawn, points, p) > ALARM
    wrong = p**1.15 / (p**1.15).sum()
    assert p_value_of_tables(drawn, points, wrong) < ALARM or len(points) < 10
    if has_prior:
        assert p_value_of_tables(drawn, points, enumerated(system, x, noise)[1]) < ALARM
        assert p_value_of_tables(drawn, points, enumerated(system, x, noise, base, misprint=True)[1]) < ALARM
    log_total = found.log_total()
    assert (log_total is None) == (name not in ("cases", "no sum of cases"))
    if log_total is not None:
        expected = (
            log_c - sum(float(base.weight(i, count).log()) for i, count in enumerate(x.tolist())) if base else log_c
        )
        assert log_total == pytest.approx(expected, abs=2e-3 if law == "l2" else 1e-10)


@pytest.mark.parametrize("law", ["l1", "l2"])
def test_balls_decide_as_doubles_do(law):
    """Draws are the same if doubles decide no word; wrong sums in balls change them."""
    public, table = STATEMENTS["cases"]
    system, x, base = public.on(table), table.values.ravel(), prior(6)
    node, bernoulli = bound_trees.Trees._node, trees_given_sums.draw_bernoulli

    def drawn(patch, power=None):
        def doubted(self, i, bits=0):
            found = node(self, i, bits)
            return replace(found, sums=found.sums**power) if bits else replace(found, relative=1.0)

        patch.setattr(TreesGivenSums, "_slack", lambda self, proposals: 1e-9)
        if power is not None:
            patch.setattr(bound_trees.Trees, "_node", doubted)
            patch.setattr(trees_given_sums, "draw_bernoulli", lambda log_p, error, *rest: bernoulli(log_p, 1e9, *rest))
        return sampler(system, x, LAWS[law], base).draw(3, seeded_stream(1)).tolist()

    with pytest.MonkeyPatch.context() as patch:
        usual = drawn(patch)
        assert drawn(patch, power=1) == usual
    with pytest.MonkeyPatch.context() as patch:
        assert drawn(patch, power=2) != usual


def test_prefix_sums_and_the_mixture_are_within_their_bounds():
    values = np.random.default_rng(1).exponential(size=5000)
    exact = np.array([0.0, *np.cumsum(values.astype(np.longdouble))])
    assert np.abs(prefix_sums(values) - exact).max() <= bound_trees.terms(5000) * bound_trees.UNIT * exact[-1]
    distances = np.append(0.0, np.geomspace(1e-6, 1e4, 3000))
    assert np.exp(log_sum(distances, 1)).min() > RATIO_BOUND


def test_windows_contain_all_but_a_negligible_weight():
    """Weights and tails, with and without a base measure, against balls for all counts."""
    x, alpha = np.array([40, 3, 200]), (None, Fraction(1, 9), Fraction(60))
    for law in (DoubleGeometric("1/20"), DiscreteGaussian(30)):
        for tilt in (Fraction(0), Fraction(-1, 50)):
            weights = bound_trees.Weights(x, np.zeros(3), np.full(3, 3000.0), law, alpha, (tilt,) * 3)
            for i in range(3):
                window = weights.window(i, 30)
                every = np.array([float(weights.enclose(i, y).log()) for y in range(3001)])
                inside = slice(window.first, window.first + window.logs.size)
                assert np.abs(every[inside] - window.logs).max() <= window.error + 1e-12
                missing = np.delete(np.exp(every - every.max()), np.arange(3001)[inside]).sum()
                assert missing <= window.tail * np.exp(every[inside] - every.max()).sum()
                assert window.tail <= 2 * 1.01 * 2.0**-30


@pytest.fixture
def slow_elimination(monkeypatch):
    """Let mechanisms on small tables use trees."""
    monkeypatch.setattr(weighted, "LARGEST_WORK", 0)
    weighted._log_normaliser.cache_clear()


@pytest.mark.usefixtures("slow_elimination")
@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_the_mechanism_publishes_pairs(loss, tmp_path):
    """Density, release and file."""
    base, slack = DirichletMultinomial([2, None, 0, None, 3, None], "1/2"), {"l1": 1e-9, "l2": 3e-3}[loss]
    mechanism = ppd.WassersteinExponential(STATEMENTS["cases"][0], 2, 2, "x", base_measure=base, loss=loss)
    system, x = mechanism.public.on(PAIRS), PAIRS.values.ravel()
    points, p, _ = enumerated(system, x, mechanism.law, base)
    assert "trees" in str(mechanism.sampler_plan(PAIRS))
    assert sum(np.exp(mechanism.log_weight(system, y, x)) for y in points) == pytest.approx(1, abs=slack)
    released = mechanism.release(PAIRS)
    released.save(tmp_path / "pairs.ppd")
    again = ppd.read_release(tmp_path / "pairs.ppd")
    assert again.mechanism == mechanism
    assert again.table.equals(released.table)
    own = p[(points == released.table.values.ravel()).all(axis=1)]
    assert mechanism.logp(released.table, PAIRS) == pytest.approx(np.log(own[0]), abs=slack)


def statuses(fatality=0.2):
    """Laws of pairs of two counties with 2 cases in total, if a person of the first has died, and if not a case."""
    laws = []
    for case, death in ((1, 1), (0, 0)):
        law, left = {}, 2 - case
        for k in range(left + 1):
            for a in range(k + 1):
                for b in range(left - k + 1):
                    p = special.comb(2, k) * special.comb(2, left - k) * special.comb(k, a) * special.comb(left - k, b)
                    p *= fatality ** (a + b) * (1 - fatality) ** (left - a - b)
                    law[case + k, death + a, left - k, b] = p
        laws.append({cells: p / sum(law.values()) for cells, p in law.items()})
    return laws


@pytest.mark.usefixtures("slow_elimination")
@pytest.mark.parametrize(("loss", "order"), [("l1", 1), ("l2", 2)])
def test_sensitivity_and_loss_of_pairs(loss, order):
    """Delta is the distance by a linear programme; the enumerated loss exceeds epsilon with a too small Delta only."""
    public = linear([[1, 0, 1, 0]], ["cases"]) & SMALLER
    table, pair = PAIRS[:2].copy(data=[[1, 1], [1, 0]]), statuses()
    delta = distance_by_programme(*pair, order)

    def stated(sensitivity, models=None):
        return ppd.WassersteinExponential(public, 1, sensitivity, "death", loss=loss, models=models)

    with pytest.raises(PrivacyError, match="must be at least"):
        stated(0.99 * delta, [pair])
    system = public.on(table)
    points = fiber_tables(system.A, system.values, system.B, system.limits)

    def loss_of(mechanism):
        log_p = {x: [mechanism.log_weight(system, y, np.array(x)) for y in points] for law in pair for x in law}
        given = [sum(p * np.exp(log_p[x]) for x, p in law.items()) for law in pair]
        return np.abs(np.log(given[0] / given[1])).max()

    assert loss_of(stated(delta * (1 + 1e-6), [pair])) <= 1
    assert loss_of(stated(delta / 8)) > 1


@pytest.mark.deep
@pytest.mark.usefixtures("slow_elimination")
@pytest.mark.parametrize("name", ["cases", "cases and deaths"])
def test_posterior_of_a_table_of_pairs(name):
    """Sampled tables against the enumerated posterior; a posterior without the normalizer differs from it."""
    public, table = STATEMENTS[name]
    mechanism = ppd.WassersteinExponential(public, 6, 2, "x", base_measure=prior(6))
    system, y = public.on(table), np.array([1, 0, 3, 2, 1, 1])
    release, rate = ppd.Release(table.copy(data=y.reshape(3, 2)), mechanism), np.array([[2, 0.5], [1, 0.4], [2, 1]])
    with pm.Model(coords=release.coords):
        ppd.PartiallyPrivate("pairs", pm.Poisson.dist(rate), release=release)
        idata = pm.sample(8000, tune=200, chains=2, cores=1, random_seed=1, progressbar=False)
    points, *_ = enumerated(system, y, mechanism.law)
    log_prior = (points * np.log(rate.ravel()) - special.gammaln(points + 1)).sum(axis=1)
    own = (points == y).all(axis=1)
    exact = np.log([enumerated(system, x, mechanism.law, prior(6))[1][own][0] for x in points])
    without = -float(mechanism.law.epsilon) * np.linalg.norm(points - y, ord=1, axis=1)
    drawn = idata.posterior["pairs"].values.reshape(-1, 6)[::8]

    def p_value(log_likelihood):
        p = np.exp(log_prior + log_likelihood)
        return p_value_of_tables(drawn, points, p / p.sum(), least=10)

    assert p_value(exact) > ALARM
    assert p_value(without) < 1e-3


CYCLE = inequality([[1, -1, 0, 0], [0, 1, -1, 0], [-1, 0, 1, 0]], [0, 0, -2])


@pytest.mark.usefixtures("slow_elimination")
@pytest.mark.parametrize(
    ("public", "law", "words"),
    [
        (inequality([[-1, -1, -1, 0]], [-9], ["three"]), DoubleGeometric(1), "'three' has more than two cells"),
        (CYCLE, DoubleGeometric(1), "bounds of two cells form a cycle"),
        (nonnegative(), Staircase(1, 3, 2), "in steps of 3"),
    ],
)
def test_other_statements_are_refused_by_name(public, law, words, monkeypatch):
    monkeypatch.setattr(weighted, "lower_bounds_and_groups", lambda *_: None)
    with pytest.raises(InvariantError, match=words):
        ppd.Conditioned(total() & nonnegative() & public, law).sampler_plan(np.array([3, 2, 1, 4]))


def test_unbounded_and_too_wide_l2_noise_and_weights_of_no_cell_are_refused():
    wide = ppd.WassersteinExponential(STATEMENTS["cases"][0], "1e-9", 2, "x", loss="l2")
    with pytest.raises(InvariantError, match=r"tables of its weights would have [\d,]+ counts, more than 268,435,456"):
        wide.simulate(10**8 * PAIRS, draws=1, rng=1)
    mechanism = ppd.WassersteinExponential(at_least("cases", "deaths", dim="kind"), 1, 2, "x", loss="l2")
    with pytest.raises(InvariantError, match="needs bounds on every cell"):
        mechanism.simulate(PAIRS, draws=1, rng=1)
    with pytest.raises(CountError, match="one for each cell"):
        DirichletMultinomial([None, None])


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("epsilon", "loss"), [(1, "l1"), ("1/100", "l1"), (1, "l2"), ("1/100", "l2")])
def test_67_counties(epsilon, loss):
    """Sums and bounds of wide tables hold, and the mean distance of a count is that of the noise, to a factor."""
    rng = np.random.default_rng(5)
    cases = rng.negative_binomial(0.6, 0.6 / 1500, 67)
    table = xr.DataArray(np.stack([cases, rng.binomial(cases, 0.02)], axis=1), dims=("county", "kind"))
    table = table.assign_coords(kind=["cases", "deaths"])
    public = linear(np.tile([1, 0], 67)[np.newaxis], ["cases"]) & SMALLER
    base = DirichletMultinomial([k for count in cases.tolist() for k in (count, None)], "1/10")
    for measure in (None, base):
        mechanism = ppd.WassersteinExponential(public, epsilon, 2, "x", measure, loss)
        drawn = mechanism.simulate(table, draws=4, rng=1).values
        assert (drawn[..., 0].sum(axis=1) == cases.sum()).all()
        assert ((drawn[..., 1] >= 0) & (drawn[..., 1] <= drawn[..., 0])).all()
        away = np.abs(drawn - table.values).mean() * float(mechanism.law.epsilon)
        assert 0.2 < away < {"l1": 1.2, "l2": 12}[loss]
