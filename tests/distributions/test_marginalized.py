"""Models with a marginalized table: density, gradient, table draws and their parts, against enumeration."""

import gc
import itertools
import weakref

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from enumeration import total_variation
from grids import box
from pytensor.graph.traversal import graph_inputs
from scipy import stats
from scipy.special import gammaln, logsumexp

import ppdinf as ppd
from ppdinf.distributions.marginal_logp import logp_natural, logp_table
from ppdinf.errors import InvariantError, ModelError
from ppdinf.invariants import at_least, margin, total

MODES = ["NUMBA", "FAST_COMPILE"]
RNG = np.random.default_rng(1)
LO = np.array([0, 2, -1, 0, 1])
BLOCK = np.array([0, -1, 0, 1, 1])
TOTAL = np.array([5, 6])
LOGW = RNG.normal(0, 1.5, (5, 6))
LOGW[3, 2] = -np.inf
ETA = RNG.normal(0, 0.5, 5)
PLACE = {"lo": LO, "total": TOTAL, "block": BLOCK}
logw, eta = pt.dmatrix(), pt.dvector()  # the same, symbolic
OFFSETS = np.array(list(itertools.product(range(6), repeat=5)))
OFFSETS = OFFSETS[[all((LO + x)[b == BLOCK].sum() == TOTAL[b] for b in (0, 1)) for x in OFFSETS]]


def enumerated(logw):
    """Return the log weight of all tables with the totals, by enumeration of every table."""
    return logsumexp(logw[np.arange(5), OFFSETS].sum(axis=1))


def weights(eta):
    return LOGW + eta[:, None] * (LO[:, None] + np.arange(6))


def slopes(function, at, step=1e-4):
    """Return central differences for each entry; zero where an entry is -inf."""
    out = np.zeros(at.shape)
    for index in zip(*np.nonzero(np.isfinite(at)), strict=True):
        up, down = at.copy(), at.copy()
        up[index] += step
        down[index] -= step
        out[index] = (function(up) - function(down)) / (2 * step)
    return out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transposed", [False, True], ids=["as it is", "in another memory order"])
def test_table_form(transposed, mode):
    logp = logp_table(logw.T if transposed else logw, **PLACE)
    function = pytensor.function([logw], [logp, pytensor.grad(logp.sum(), logw)], mode=mode)
    value, gradient = function(np.ascontiguousarray(LOGW.T) if transposed else LOGW)
    assert value.shape == (3,)
    assert value.sum() == pytest.approx(enumerated(LOGW), abs=1e-11)
    np.testing.assert_allclose(gradient.T if transposed else gradient, slopes(enumerated, LOGW), atol=1e-7)


@pytest.mark.parametrize("mode", MODES)
def test_natural_form(mode):
    logp = logp_natural(eta, LOGW, **PLACE)
    function = pytensor.function([eta], [logp, pytensor.grad(logp.sum(), eta)], mode=mode)
    value, gradient = function(ETA)
    assert value.sum() == pytest.approx(enumerated(weights(ETA)), abs=1e-11)
    expected = slopes(lambda e: enumerated(weights(e)), ETA)
    np.testing.assert_allclose(gradient, expected, atol=1e-7)
    wrong = np.exp(weights(ETA) - logsumexp(weights(ETA), axis=1, keepdims=True))  # totals ignored
    assert np.abs((wrong * (LO[:, None] + np.arange(6))).sum(1) - expected).max() > 0.1


@pytest.mark.parametrize("mode", MODES)
def test_large_groups_in_exponential_family_form_equal_those_of_the_table(mode):
    """Groups of 40 and 30 cells under a total and 30 free cells, by their cumulants; tables use their rows."""
    rng = np.random.default_rng(3)
    counts = rng.poisson(9, 100)
    released = counts + np.rint(rng.normal(0, 4, 100)).astype(int)
    lo, block, log_rate = np.maximum(released - 32, -1), np.repeat([0, 1, -1], [40, 30, 30]), rng.normal(2.2, 0.3, 100)
    x = lo[:, None] + np.arange(65)
    logh = np.where(x >= 0, -gammaln(np.maximum(x, 0) + 1.0), -np.inf) - (released[:, None] - x) ** 2 / 32
    place = {"lo": lo, "total": np.array([counts[:40].sum(), counts[40:70].sum()]), "block": block}
    found = []
    for logp in (logp_natural(eta, logh, **place), logp_table(logh + eta[:, None] * x, **place)):
        function = pytensor.function([eta], [logp, pytensor.grad(logp.sum(), eta)], mode=mode)
        found.append(function(log_rate))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-10)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-8)


def test_weights_of_the_totals_are_separate():
    logp = logp_natural(eta, LOGW, **PLACE)
    jacobian = np.array([pytensor.function([eta], pytensor.grad(logp[n], eta))(ETA) for n in range(3)])
    for n in range(3):
        np.testing.assert_array_equal(jacobian[n] != 0, n == BLOCK % 3)


@pytest.mark.parametrize("mode", MODES)
def test_impossible_totals_are_minus_inf_with_a_finite_gradient(mode):
    logw = pt.matrix(shape=LOGW.shape)
    logp = logp_table(logw, lo=0, total=99).sum()
    value, gradient = pytensor.function([logw], [logp, pytensor.grad(logp, logw)], mode=mode)(LOGW)
    assert value == -np.inf
    assert (gradient == 0).all()


@pytest.mark.parametrize("mode", MODES)
def test_nan_is_propagated(mode):
    spoiled = LOGW.copy()
    spoiled[0, 1] = np.nan
    function = pytensor.function([logw], logp_table(logw, **PLACE), mode=mode)
    assert np.isnan(function(spoiled)).tolist() == [True, False, False]
    function = pytensor.function([eta], logp_natural(eta, LOGW, **PLACE), mode=mode)
    assert np.isnan(function(np.array([0, np.nan, 0, 0, 0]))).tolist() == [False, False, True]


def test_gradient_through_a_table_that_depends_on_parameters():
    x, fixed = LO[:, None] + np.arange(6), np.where(np.isfinite(LOGW), LOGW, -3.0)
    scale = pt.dscalar()
    logp = logp_table(scale * fixed + eta[:, None] * x, **PLACE).sum()
    by_eta, by_scale = pytensor.function([eta, scale], pytensor.grad(logp, [eta, scale]))(ETA, 1.3)
    np.testing.assert_allclose(by_eta, slopes(lambda e: enumerated(1.3 * fixed + e[:, None] * x), ETA), atol=1e-7)
    numeric = slopes(lambda s: enumerated(s[0] * fixed + ETA[:, None] * x), np.array([1.3]))[0]
    assert by_scale == pytest.approx(numeric, abs=1e-7)


@pytest.mark.parametrize("form", ["table", "natural"])
def test_second_derivatives(form):
    """Products with the Hessian against second differences of the sum over all tables; wrong: independent cells."""
    x, v = LO[:, None] + np.arange(6), np.array([0.5, -1.0, 2.0, 0.3, 1.0])
    if form == "natural":
        logp = logp_natural(eta, LOGW, **PLACE).sum()
    else:
        logp = logp_table(LOGW + eta[:, None] * x, **PLACE).sum()
    product = pytensor.grad((pytensor.grad(logp, eta) * v).sum(), eta)
    of_tables = lambda e: enumerated(LOGW + e[:, None] * x)  # noqa: E731
    step = 1e-4
    expected = (slopes(of_tables, ETA + step * v) - slopes(of_tables, ETA - step * v)) / (2 * step)
    found = pytensor.function([eta], product)(ETA)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    columns = pytensor.function([eta], pytensor.gradient.hessian(logp, eta))(ETA)
    np.testing.assert_allclose(columns @ v, found, atol=1e-7)
    assert abs(found - np.diag(columns) * v).max() > 0.1


def test_totals_may_be_data():
    total = pytensor.shared(TOTAL, name="total", shape=(2,))
    logp = logp_natural(eta, LOGW, lo=LO, total=total, block=BLOCK)
    function = pytensor.function([eta], logp)
    before = function(ETA)
    total.set_value(np.array([5, 7]))
    after = function(ETA)
    assert before[0] == after[0]
    assert before[1] != after[1]


@pytest.mark.quick_cases(0)
def test_a_large_table_is_shared_not_embedded():
    x = np.arange(40_000)
    logh = -gammaln(x + 1.0) - 0.01 * np.abs(np.array([[100], [90], [80], [400]]) - x)
    logp = logp_natural(eta, logh, lo=0, total=650)
    function = pytensor.function([eta], logp)
    assert "fixed" in {v.name for v in function.get_shared()}
    narrow = logp_natural(eta, logh[:, :651], lo=0, total=650)
    at = np.log([100.0, 90.0, 80.0, 400.0])
    np.testing.assert_allclose(function(at), narrow.eval({eta: at}), rtol=1e-12)


@pytest.mark.quick_cases(0)
def test_constants_are_computed_once_for_all_functions_of_a_model():

    def fixed(logh=LOGW, place=PLACE, **more):
        logp = logp_natural(eta, logh, **place, **more)
        return {v.name: v for v in graph_inputs([logp]) if v.name == "fixed"}

    first = fixed()
    assert first == fixed(LOGW.copy())
    places = [{**PLACE, "total": TOTAL + 1}, {**PLACE, "lo": LO + 1}, {**PLACE, "block": np.zeros_like(BLOCK)}]
    others = [fixed(LOGW + 1), fixed(near=np.arange(len(LOGW))), *(fixed(place=place) for place in places)]
    for other in others:
        assert not set(first.values()) & set(other.values())
    value = weakref.ref(first["fixed"].get_value(borrow=True))
    del first, other, others
    gc.collect()
    assert value() is None, "numbers outlive the last graph that has them"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"total": np.array([1.0, 2.0])}, InvariantError, "total must have an integer type"),
        ({"lo": 0.5}, InvariantError, "lo must have an integer type"),
        ({"block": np.array([0, 1, 2, 0, 0])}, InvariantError, "block must be an index"),
        ({"block": np.zeros(5)}, InvariantError, "block must be an index"),
        ({"total": pt.lvector()}, InvariantError, "number of totals"),
        ({"logh": LOGW[0]}, ModelError, "table"),
        ({"logh": np.full((5, 6), np.nan)}, ModelError, "nan"),
        ({"eta": pt.dmatrix()}, ModelError, "dimensions"),
    ],
)
def test_refuses(change, error, message):
    arguments = {"eta": eta, "logh": LOGW, "lo": LO, "total": TOTAL, "block": BLOCK} | change
    with pytest.raises(error, match=message):
        logp_natural(**arguments)


def test_inconsistent_numbers_of_cells_are_refused_at_run_time():
    function = pytensor.function([eta], logp_natural(eta, LOGW, **PLACE))
    with pytest.raises(ModelError, match="number of cells"):
        function(np.zeros(4))


# -- twenty areas with a public total -------------------------------------------------------------------


def release_of(y, epsilon, public, states=None):
    table = xr.DataArray(np.array(y), dims=("county", "sex")[: np.ndim(y)])
    if states is not None:
        table = table.assign_coords(state=("county", states))
    return ppd.Release(table, ppd.GeneralizedLaplace(public, epsilon=epsilon))


DISTRIBUTIONS = {
    "poisson": lambda r: pm.Poisson.dist(r),
    "mixture": lambda r: pm.Mixture.dist([0.3, 0.7], [pm.Poisson.dist(r), pm.Poisson.dist(2 * r)]),
}


def enumerated_posterior(release, dist, rate):
    """Tables and their log weights by one call of logp: without windows and transforms."""
    y, system = release.table.values.ravel(), release.public
    points = box(0, int(max(system.values.max(), 1)), y.size)
    points = points[np.all(points @ system.A.toarray().T == system.values, axis=1)]
    points = points[np.all(points @ system.B.toarray().T >= system.limits, axis=1)]
    shaped = points.reshape(-1, *release.shape)
    log_data = pm.logp(dist(rate * np.ones(shaped.shape)), shaped).eval(mode="FAST_COMPILE")
    log_noise = -float(release.mechanism.epsilon) * np.abs(points - y).sum(axis=1) - release.likelihood.constant()
    return points, log_data.reshape(len(points), -1).sum(axis=1) + log_noise


EMPTY = {  # a distribution of counts given a rate, and its log probabilities
    "poisson": (pm.Poisson.dist, stats.poisson.logpmf),
    "negative binomial": (
        lambda rate: pm.NegativeBinomial.dist(mu=rate, alpha=2.0),
        lambda x, rate: stats.nbinom.logpmf(x, 2, 2 / (2 + rate)),
    ),
    "binomial": (lambda rate: pm.Binomial.dist(n=6, p=rate / 10), lambda x, rate: stats.binom.logpmf(x, 6, rate / 10)),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("family", EMPTY)
def test_a_county_without_people_is_uninformative(family):
    """Its count is 0; against the sum over the counts of the other two, and its slope."""
    dist, log_mass = EMPTY[family]
    y, x = np.array([3, 1, 2]), np.arange(7)
    release = ppd.Release(y, ppd.GeneralizedLaplace(total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        r = pm.Uniform("r", 0, 4, default_transform=None)
        ppd.PartiallyPrivate("x", dist(r * np.array([1.0, 0.0, 2.0])), release=release, marginalize=True)

    def expected(r):
        log_noise = -np.abs(y[0] - x) - np.abs(y[2] - (6 - x))
        return np.logaddexp.reduce(log_mass(x, r) + log_mass(6 - x, 2 * r) + log_noise)

    logp, gradient = model.compile_logp(), model.compile_dlogp()
    origin = logp({"r": np.array(1.0)}) - expected(1.0)
    for r in (0.5, 2.5):
        assert logp({"r": np.array(r)}) - origin == pytest.approx(expected(r), abs=1e-7)  # PyMC rounds alpha to float32
        slope = (expected(r + 1e-5) - expected(r - 1e-5)) / 2e-5
        assert gradient({"r": np.array(r)})[0] == pytest.approx(slope, abs=1e-6)


@pytest.mark.quick_cases(1)
@pytest.mark.compiled
@pytest.mark.parametrize("family", ["poisson", "mixture"])
def test_table_draws_equal_enumeration_given_the_parameters(family):
    release, dist = release_of([3, -1, 2], "1/2", total()), DISTRIBUTIONS[family]
    with pm.Model(coords=release.coords) as model:
        pm.Uniform("rate", 0, 5)
        ppd.PartiallyPrivate("x", dist(model["rate"]), release=release)
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset({"rate": (("chain", "draw"), np.full((2, 5_000), 1.5))})})
    draws = ppd.sample_confidential(idata, model, random_seed=8)
    assert draws.dims == ("chain", "draw", "county")
    assert draws.equals(idata.posterior["x"])
    points, log_joint = enumerated_posterior(release, dist, 1.5)
    p = np.exp(log_joint - np.logaddexp.reduce(log_joint))
    assert total_variation(draws.values.reshape(-1, 3), points, p) < 0.03  # 20 tables, 10,000 draws
    _, wrong = enumerated_posterior(release_of([3, -1, 2], "3/5", total()), dist, 1.5)
    wrong = np.exp(wrong - np.logaddexp.reduce(wrong))
    assert 0.5 * np.abs(wrong - p).sum() > 0.03  # the difference for an epsilon 20 % off


def test_tables_that_cannot_be_marginalized_are_refused_with_the_reason():
    crossing = release_of(np.eye(3, dtype=int), 1, margin("county") & margin("sex"))
    linked = release_of([[1, 0], [0, 2]], 1, total() & at_least(0, 1, dim="sex"))
    for release, message in ((crossing, "cross each other"), (linked, "'0 >= 1 at county=0, sex=0' links cells")):
        with pm.Model(coords=release.coords), pytest.raises(ModelError, match=message):
            ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), release=release, marginalize=True)
