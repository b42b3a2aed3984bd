"""Cells released by a matrix, and suppressed tables: the law, files, refusals, and posteriors against enumeration."""

import math
from itertools import product

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from known_parameters import QUIET, known
from scipy import special, stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.errors import InvariantError, ModelError, PrivacyError
from ppdinf.invariants import Public, between, margin, nonnegative, total
from ppdinf.lattice.fiber_tables import fiber_tables
from ppdinf.mechanisms import Mechanism, random_rounding
from ppdinf.models.compare import gaussian
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.privacy import Ledger, audit, compose

THREE = random_rounding(3, upper=12)


def skewed(n=5):
    """A matrix that is not a law of differences."""
    matrix = np.random.default_rng(2).dirichlet(np.ones(n), size=n)
    return matrix / matrix.sum(axis=1, keepdims=True)


def exact_posterior(matrix, y, rate, total=None):
    """Probability of every table, by enumeration."""
    tables = np.array(list(product(range(len(matrix)), repeat=len(y))))
    if total is not None:
        tables = tables[tables.sum(axis=1) == total]
    with np.errstate(divide="ignore"):
        weight = np.log(np.asarray(matrix)[tables, y]).sum(axis=1) + stats.poisson.logpmf(tables, rate).sum(axis=1)
    return tables, np.exp(weight - logsumexp(weight)), logsumexp(weight)


def model_of(mechanism, y, total=None, **options):
    public = None if total is None else ppd.invariants.total().on(np.array(y), values=[total])
    release = ppd.Release(np.array(y), mechanism, public=public)
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 2, 1)
        ppd.PartiallyPrivate("counts", pm.Poisson.dist(rate), release=release, **options)
    return model


@pytest.mark.parametrize("total", [None, 6])
@pytest.mark.parametrize("matrix", [skewed(), THREE.matrix[:7]], ids=["skewed", "rounding"])
def test_marginal_density_is_the_enumerated_sum(matrix, total):
    y = [3, 0, 3] if len(matrix) == 7 else [1, 4, 2]
    model = model_of(ppd.Transition(matrix), y, total)
    assert [v.name for v in model.free_RVs] == ["rate"]
    logp = model.compile_logp()
    for rate in (0.4, 2.0, 5.0):
        expected = exact_posterior(matrix, y, rate, total)[2] + stats.gamma.logpdf(rate, 2) + np.log(rate)
        assert logp({"rate_log__": np.log(rate)}) == pytest.approx(float(expected), abs=1e-9)


@pytest.mark.parametrize("total", [None, 6])
def test_joint_density_is_the_listed_one(total):
    matrix, y = skewed(), [1, 4, 2]
    model = model_of(ppd.Transition(matrix), y, total, marginalize=False)
    logp = model.compile_logp()
    for x in ([2, 2, 2], [4, 0, 2]):
        expected = np.log(matrix[x, y]).sum() + stats.poisson.logpmf(x, 2).sum() + stats.gamma.logpdf(2, 2) + np.log(2)
        assert logp({"rate_log__": np.log(2), "counts": np.array(x)}) == pytest.approx(expected, abs=1e-9)
    assert logp({"rate_log__": np.log(2), "counts": np.array([5, 1, 0])}) == -np.inf  # no row for 5


@pytest.mark.parametrize("marginalize", ["auto", pytest.param(False, marks=pytest.mark.deep)])
def test_cells_against_enumeration(marginalize):
    """Means of cells under a public total within 4.5 standard errors (6 means: false alarm 4e-5); a band of the matrix
    that is off by 5 % moves the exact log likelihood by more than its tolerance above.
    """
    matrix, y, total = skewed(), [1, 4, 2], 6
    release = ppd.Release(
        np.array(y), ppd.Transition(matrix), public=ppd.invariants.total().on(np.array(y), values=[total])
    )
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("counts", pm.Poisson.dist(2.0), release=release, marginalize=marginalize)
        walked = {"tune": 200, "chains": 2, "cores": 1, "random_seed": 1, **QUIET}
        idata = known(1000) if marginalize == "auto" else pm.sample(500, **walked)
    drawn = ppd.sample_confidential(idata, model, random_seed=1)
    cells = drawn.values.reshape(-1, 3)
    assert (cells.sum(axis=1) == total).all()
    tables, p, _ = exact_posterior(matrix, y, 2.0, total)
    mean, sd = p @ tables, np.sqrt(p @ tables**2 - (p @ tables) ** 2)
    assert np.abs((cells.mean(axis=0) - mean) / (sd / np.sqrt(len(cells) / 4))).max() < 4.5


def test_a_band_that_is_off_is_caught():
    matrix, y = skewed(), [1, 4, 2]
    wrong = matrix.copy()
    wrong[np.arange(5), np.arange(5)] *= 1.05
    wrong /= wrong.sum(axis=1, keepdims=True)
    right = model_of(ppd.Transition(matrix), y).compile_logp()({"rate_log__": 0.7})
    assert abs(model_of(ppd.Transition(wrong), y).compile_logp()({"rate_log__": 0.7}) - right) > 1e-3


def ranks(draw_release, log_likelihood, replicates, rng):
    """Ranks of a Gamma(2, 1/2) rate of 30 Poisson cells in its posterior, on a grid of its values."""
    grid = stats.gamma.ppf((np.arange(400) + 0.5) / 400, 2, scale=2)
    counts = np.arange(40)
    prior = stats.poisson.pmf(np.minimum(counts, 39), grid[:, None])
    found = []
    for _ in range(replicates):
        rate = rng.gamma(2, 2)
        y, matrix = draw_release(np.minimum(rng.poisson(rate, 30), 39))
        weight = log_likelihood(prior @ matrix, y)
        posterior = np.exp(weight - logsumexp(weight))
        found.append(posterior[grid < rate].sum())
    return np.array(found)


def product_likelihood(of_cells, y):
    with np.errstate(divide="ignore"):
        return np.log(of_cells[:, y]).sum(axis=1)


def test_ranks_through_random_rounding():
    """Uniform with the matrix (p above 1e-4), not if rounded counts are taken as true to within half of the base."""
    rounding, rng = random_rounding(3, upper=39), np.random.default_rng(3)

    def draw(x, says=rounding.probabilities):
        return rounding.draw(None, x, 1, seeded_stream(rng))[0], says

    right = ranks(draw, product_likelihood, 600, rng)
    assert stats.kstest(right, "uniform").pvalue > 1e-4
    nearest = np.zeros_like(rounding.probabilities)
    nearest[np.arange(40), np.rint(np.arange(40) / 3).astype(int) * 3] = 1
    wrong = ranks(lambda x: draw(x, 0.999 * nearest + 0.001 / 40), product_likelihood, 600, rng)
    assert stats.kstest(wrong, "uniform").pvalue < 1e-4


def test_files_and_guarantees(tmp_path):
    release = THREE.release(np.array([3, 1, 7, 12]))
    release.save(tmp_path / "rounded.ppd")
    again = ppd.read_release(tmp_path / "rounded.ppd")
    assert (again.mechanism.matrix == THREE.matrix).all()
    assert again.guarantee.epsilon == 0
    assert float(again.guarantee.delta) == pytest.approx(1 / 3, abs=1e-8)
    assert "counted in one of them and not in the other" in again.guarantee.describe()
    geometric = ppd.Transition(ppd.counts.truncated_geometric(8, 1).matrix)
    assert geometric.guarantee.variant == "pure"
    assert float(geometric.guarantee.epsilon) == pytest.approx(1, abs=1e-8)


def test_law_of_draws():
    drawn = ppd.Transition(skewed()).simulate(np.full(20_000, 3), draws=1, rng=1).values.ravel()
    assert stats.chisquare(np.bincount(drawn, minlength=5), 20_000 * skewed()[3]).pvalue > 1e-4


CERTAIN = {
    "identity": (np.eye(3), 0),
    "permutation": (np.eye(4)[[2, 0, 3, 1]], 0),
    "one row is released exactly": ([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0.3, 0.7, 0, 0], [0, 0, 0, 1]], 2),
    "first row is released exactly": ([[1, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]], 0),
    "groups of released counts": ([[0.5, 0.5, 0, 0], [0, 0, 0.2, 0.8]], 0),
    "conventional rounding to base 3": (np.eye(7)[[0, 0, 3, 3, 3, 6, 6]], 1),
    "certain up to rounding": ([[1 - 1e-12, 1e-12, 0], [0, 1, 0], [0, 0.1, 0.9]], 0),
    "wide": (np.eye(2, 5), 0),
}


@pytest.mark.parametrize(("matrix", "count"), CERTAIN.values(), ids=CERTAIN)
def test_matrices_that_distinguish_neighbours_with_certainty_have_no_guarantee(matrix, count):
    matrix = np.array(matrix)
    with pytest.raises(PrivacyError, match=rf"counts {count} and {count + 1} with certainty.*require_guarantee=False"):
        ppd.Transition(matrix)
    stated = ppd.Transition(matrix, require_guarantee=False)
    again = Mechanism.from_dict(stated.to_dict(), stated.public)
    for mechanism in (stated, again):
        with pytest.raises(PrivacyError, match="has no guarantee"):
            mechanism.release([0, 1])
        with pytest.raises(PrivacyError, match="has no guarantee"):
            mechanism.guarantee  # noqa: B018
        with pytest.raises(PrivacyError, match="has no guarantee"):
            ppd.Release([0, 1], mechanism).guarantee  # noqa: B018
        drawn = mechanism.simulate(np.arange(len(matrix)), draws=20, rng=1).values
        assert (matrix[np.arange(len(matrix)), drawn] > 0).all()


def test_inference_from_rounding_without_a_guarantee():
    """Of counts rounded to the nearest multiple of 3, the density is that of all counts that are rounded so."""
    rounding = ppd.Transition(np.eye(13)[np.round(np.arange(12) / 3).astype(int) * 3], require_guarantee=False)
    model = model_of(rounding, [3, 6])
    counts = {3: [2, 3, 4], 6: [5, 6, 7]}

    def expected(log_rate):
        rate = np.exp(log_rate)
        return (
            sum(np.log(stats.poisson(rate).pmf(counts[y]).sum()) for y in (3, 6))
            + stats.gamma(2).logpdf(rate)
            + log_rate
        )

    logp = model.compile_logp()
    found = float(logp({"rate_log__": 0.3}) - logp({"rate_log__": 0.9}))
    assert found == pytest.approx(expected(0.3) - expected(0.9))


@pytest.mark.parametrize("base", [2, 3, 5, 10])
@pytest.mark.parametrize("upper", [1, 2, 6, 7, 30])
def test_random_rounding_and_count_mechanisms_have_a_guarantee(base, upper):
    assert ppd.mechanisms.random_rounding(base, upper).guarantee.delta < 1
    assert ppd.Transition(ppd.counts.truncated_geometric(upper + 1, 10).matrix).guarantee.delta == 0
    assert ppd.Transition(np.eye(1)).guarantee.delta == 0  # a single possible count


def test_releases_of_which_no_model_is_possible():
    with pm.Model(), pytest.raises(ModelError, match="needs noise that is added cell by cell"):
        gaussian("x", 1.0, 1.0, ppd.Release([0, 3], THREE))
    with pytest.raises(ModelError, match="excludes all counts near"):
        model_of(THREE, [2, 3])  # 2 is no multiple of 3


COUNTIES = xr.DataArray([4, 0, 2], dims="county")
SQUARE = xr.DataArray([[1, 2], [0, 3]], dims=("sex", "age"))
SUM = total() & nonnegative()
MARGINS = margin("sex") & margin("age") & nonnegative()


def test_tables_with_the_same_public_sums_have_the_same_release():
    mechanism = ppd.Suppression(SUM)
    released = {tuple(mechanism.release(table).table.values) for table in ([4, 0, 2], [0, 6, 0], [1, 2, 3])}
    assert released == {(2, 2, 2)}
    assert mechanism.simulate(COUNTIES, draws=3, rng=1).values.tolist() == [[2, 2, 2]] * 3
    assert ppd.Suppression(SUM).release([4, 0, 3]).table.values.tolist() != [2, 2, 2]


@pytest.mark.quick_cases(0)
def test_the_loss_is_zero_and_stated():
    system = SUM.on(COUNTIES)
    assert np.all(audit(ppd.Suppression(SUM), system, reach=0).loss == 0)
    assert not np.all(audit(ppd.GeneralizedLaplace(SUM, epsilon="1/2"), system, reach=2).loss == 0)
    guarantee = ppd.Suppression(SUM).release(COUNTIES).guarantee
    assert (guarantee.epsilon, guarantee.loss_at_nearest, guarantee.unprotected) == (0, 0, ("the total",))
    words = guarantee.describe()
    assert "a factor of 1, that is, not at all" in words
    assert "easier to distinguish" not in words
    assert "The guarantee does not cover tables that differ in the public information" in words


def test_it_costs_nothing_in_a_ledger_but_opens_its_sums():
    ledger = Ledger(epsilon="1/2")
    ledger.add(ppd.GeneralizedLaplace(SUM, epsilon="1/2").release(SQUARE))
    ledger.add(ppd.Suppression(margin("sex") & nonnegative()).release(SQUARE))
    assert ledger.remaining == 0
    assert ledger.guarantee.unprotected == ("the total", "the sum for every sex")
    both = compose(ppd.Suppression(SUM).guarantee, ppd.Suppression(MARGINS).guarantee)
    assert both.loss(20) == 0


def test_likelihood_is_that_of_the_public_total():
    """A sum of Poisson counts is Poisson: the density of the release, constants included."""
    release = ppd.Suppression(SUM).release(COUNTIES)
    weights = np.array([1.0, 2.0, 3.0])
    densities = {}
    for name, of in {
        "suppressed": release,
        "noisy": ppd.Release(release.table, ppd.GeneralizedLaplace(SUM, 1)),
    }.items():
        with pm.Model(coords=of.coords) as model:
            rate = pm.Uniform("rate", 0.1, 9, default_transform=None)
            ppd.PartiallyPrivate("x", pm.Poisson.dist(rate * weights), release=of, marginalize=True)
        logp = model.compile_fn(model.logp(sum=True, jacobian=False), inputs=model.value_vars, mode="FAST_COMPILE")
        prior = -math.log(8.9)
        densities[name] = [float(logp({"rate": np.array(value)})) - prior for value in (0.3, 1.0, 4.0)]
    expected = stats.poisson.logpmf(6, 6 * np.array([0.3, 1.0, 4.0]))
    assert densities["suppressed"] == pytest.approx(expected, abs=1e-9)
    assert densities["noisy"] != pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize(
    ("public", "table"), [(SUM, COUNTIES), (MARGINS, SQUARE), (total() & between(0, 3), COUNTIES - 1)]
)
@pytest.mark.deep
def test_posterior_of_the_table_equals_enumeration(public, table):
    """Given the public sums alone: multinomial or hypergeometric tables, for every placeholder."""
    table = np.abs(table)
    release = ppd.Suppression(public).release(table)
    system, rates = release.public, np.array([0.5, 2.0, 1.0, 1.5])[: table.size]
    tables = fiber_tables(system.A, system.values, system.B, system.limits)
    p = special.softmax((tables * np.log(rates) - special.gammaln(tables + 1)).sum(axis=1))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rates.reshape(table.shape)), release=release)
        walked = {"tune": 300, "chains": 2, "cores": 1, "random_seed": 1, **QUIET}
        idata = pm.sample(2500, **walked) if model.free_RVs else known(5000)
    draws = ppd.sample_confidential(idata, model, random_seed=2).values.reshape(5000, -1)
    frequencies = (draws[:, None] == tables).all(axis=2).mean(axis=0)
    noise = 0.5 * np.sqrt(2 * p / np.pi / 5000).sum()
    assert frequencies.sum() == pytest.approx(1)
    assert 0.5 * np.abs(frequencies - p).sum() < 3 * noise
    near = special.softmax(np.log(p) - 0.5 * np.abs(tables - release.table.values.ravel()).sum(axis=1))
    assert 0.5 * np.abs(frequencies - near).sum() > 3 * noise  # reading the stand-in as a noisy table is caught


def test_density():
    mechanism = ppd.Suppression(SUM)
    assert mechanism.logp(COUNTIES.copy(data=[2, 2, 2]), COUNTIES) == 0
    for y, x in ([[1, 2, 3], COUNTIES], [[2, 2, 2], COUNTIES + 1], [[2, 2, 2], COUNTIES.copy(data=[-1, 4, 3])]):
        assert mechanism.logp(COUNTIES.copy(data=y), x) == -np.inf


def test_refuses_unbounded_cells():
    with pytest.raises(InvariantError, match="must be public statements"):
        ppd.Suppression(None)
    for public, table, message in [
        (Public(), COUNTIES, "do not bound every cell"),
        (total(), COUNTIES, "do not bound every cell"),
        (SUM, COUNTIES + 10**9, "too many"),
    ]:
        release = ppd.Suppression(public).release(table)
        with pm.Model(coords=release.coords), pytest.raises(ModelError, match=message):
            ppd.PartiallyPrivate("x", pm.Poisson.dist(1.0), release=release)


def test_suppression_together_with_a_noisy_release():
    """The placeholder adds nothing: the density is that of the noisy release within the bounds, given the total."""
    noisy = ppd.Release(np.array([1, 0, 2]), ppd.GeneralizedLaplace(total(), epsilon=1))
    hidden = ppd.Release(np.array([1, 1, 1]), ppd.Suppression(total() & nonnegative()))
    with pm.Model() as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist([1.0, 2.0, 0.5]), release=[noisy, hidden], marginalize=False)
    log_density = model.compile_logp()
    tables = np.array([(a, b, 3 - a - b) for a in range(4) for b in range(4 - a)])
    found = np.array([float(log_density({"x": table})) for table in tables])
    wanted = stats.poisson.logpmf(tables, [1.0, 2.0, 0.5]).sum(axis=1) - abs(tables - [1, 0, 2]).sum(axis=1)
    np.testing.assert_allclose(found - found[0], wanted - wanted[0], atol=1e-9)
    assert float(log_density({"x": np.array([4, -1, 0])})) == -np.inf
