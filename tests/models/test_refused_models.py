"""Models that are refused: parameters along the wrong dimension, noise that is counted twice, impossible numbers."""

import copy
import itertools
import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lattice_laws import log_total
from pymc.logprob.utils import ParameterValueError

import ppdinf as ppd
from ppdinf.errors import DiagnosisWarning, ModelError, PpdinfError
from ppdinf.invariants import Public, between, nonnegative, total, zeros

COORDS = {"county": ["A", "B"], "month": [1, 2]}
NOISE = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1)
RELEASE = ppd.Release(xr.DataArray([[3, 1], [0, 2]], coords=COORDS), NOISE)
EXPRESSIONS = {
    "last axis": lambda x: x,
    "first axis": lambda x: x[:, None],
    "transposed": lambda x: (x[None, :] + pt.ones((2, 1))).T,
    "nonlinear": lambda x: pt.exp(pt.log1p(x)[:, None] + np.array([0.0, 1.0])),
    "specified shape": lambda x: pt.specify_shape(x[:, None] * pt.ones((2, 2)), (2, 2)),
    "by another": lambda x: pt.switch(x[:, None] > 1, pm.Gamma("other", 2, 1), x[:, None]),
    "both": lambda x: x[:, None] + x[None, :],
}


DISTRIBUTIONS = {
    "Poisson": pm.Poisson.dist,
    "negative binomial": lambda mu: pm.NegativeBinomial.dist(mu, 2.0),
    "zero-inflated": lambda mu: pm.ZeroInflatedPoisson.dist(0.5, mu),
    "by its density": lambda mu: pm.CustomDist.dist(
        mu, logp=lambda x, mu: pm.logp(pm.Poisson.dist(mu), x), dtype="int64"
    ),
    "shifted": lambda mu: pm.Poisson.dist(mu, shape=(2, 2)) + 1,
}


def axes_that_change(model, expression):
    """Return the axes of an expression along which the parameter "rate" changes it, by its values."""
    others = {x: np.full(2 if x.ndim else (), 2.0) for x in model.free_RVs if x is not model["rate"]}
    one, other = (
        pt.broadcast_to(expression, (2, 2)).eval({model["rate"]: rate, **others}, on_unused_input="ignore")
        for rate in (np.array([1.0, 1.0]), np.array([1.0, 3.0]))
    )
    ratios = other / one
    return {axis for axis in (0, 1) if not np.allclose(np.take(ratios, 0, axis), np.take(ratios, 1, axis))}


@pytest.mark.parametrize("along", COORDS)
@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_wrong_axes_are_refused_and_right_ones_are_not(expression, along):
    with pm.Model(coords=COORDS) as model:
        made = expression(pm.Gamma("rate", 2, 1, dims=along))
        changing = axes_that_change(model, made)
        if changing == {list(COORDS).index(along)}:
            ppd.PartiallyPrivate("cases", pm.Poisson.dist(made), release=RELEASE)
        else:
            with pytest.raises(ModelError, match=f"has the dimension '{along}' .as 'rate' has. along the dimension"):
                ppd.PartiallyPrivate("cases", pm.Poisson.dist(made), release=RELEASE)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
def test_distributions(distribution):
    with pm.Model(coords=COORDS):
        rate = pm.Gamma("rate", 2, 1, dims=("month", "county"))
        with pytest.raises(ModelError, match=r"x\.T"):
            ppd.PartiallyPrivate("cases", distribution(rate), release=RELEASE)
        ppd.PartiallyPrivate("cases", distribution(rate.T), release=RELEASE)


def test_data_and_deterministics_have_dimensions():
    with pm.Model(coords=COORDS):
        exposure = pm.Data("exposure", np.ones((2, 2)), dims=("month", "county"))
        with pytest.raises(ModelError, match="as 'exposure' has"):
            ppd.PartiallyPrivate("cases", pm.Poisson.dist(pm.HalfNormal("level") * exposure), release=RELEASE)
    with pm.Model(coords=COORDS):
        rate = pm.Deterministic("rate", pm.HalfNormal("level", shape=2) + 1, dims="county")
        with pytest.raises(ModelError, match="dimension 'month' of the table"):
            ppd.PartiallyPrivate("cases", pm.Poisson.dist(rate), release=RELEASE)
        ppd.PartiallyPrivate("cases", pm.Poisson.dist(rate[:, None]), release=RELEASE)


def test_dimensions_that_prove_nothing_are_accepted():
    with pm.Model(coords={**COORDS, "area": [0, 1]}) as model:
        ppd.PartiallyPrivate("by area", pm.Poisson.dist(pm.Gamma("a", 2, 1, dims="area")), release=RELEASE)
        assert [x.name for x in model.observed_RVs] == ["by area_release"]
    places = {"origin": ["A", "B"], "destination": ["A", "B"]}
    moves = ppd.Release(
        xr.DataArray([[3, 1], [0, 2]], coords=places), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1)
    )
    with pm.Model(coords=places):
        attraction = pm.Gamma("attraction", 2, 1, dims="origin")
        ppd.PartiallyPrivate("moves", pm.Poisson.dist(attraction[:, None] * attraction), release=moves)


def test_linear_queries():
    ages = ppd.KNorm(ppd.invariants.total(), epsilon=1, query=np.array([[1, 1, 0, 0], [0, 0, 1, 1]]))
    release = ages.release(np.array([2, 3, 3, 1]))
    with pm.Model(coords={**release.coords, **COORDS}):
        rate = pm.Gamma("rate", 2, 1, dims="county")
        with pytest.raises(ModelError, match=r"'county' .* 'month'"):
            ppd.PartiallyPrivate("cases", pm.Poisson.dist(rate), release=release, dims=("county", "month"))
        ppd.PartiallyPrivate("cases", pm.Poisson.dist(rate[:, None]), release=release, dims=("county", "month"))


STATES_KEPT = ppd.GeneralizedLaplace(ppd.invariants.margin("state"), epsilon="1/10")
COUNTS = np.random.default_rng(1).poisson(30, (3, 24)) + np.array([-20, 7, 3])[:, None]
CELLS = {"state": ["A", "B", "C"], "age": range(24)}
BY_STATE = ppd.Release(xr.DataArray(COUNTS, coords=CELLS), STATES_KEPT)


def read(release, folder):
    release.save(folder / "cases.ppd")
    return ppd.read_release(folder / "cases.ppd")


AGAIN = {
    "the same": lambda release, _: release,
    "a copy": lambda release, _: copy.deepcopy(release),
    "read from a file": read,
    "made again": lambda release, _: ppd.Release(release.table, STATES_KEPT),
    "in a list": lambda release, folder: [read(release, folder)],
    "a part": lambda release, folder: read(release, folder).sel(state="B"),
    "a part of several labels": lambda release, _: copy.deepcopy(release).sel(state=["C", "A"]),
}


def both(first, second):
    with pm.Model():
        rate = pm.Gamma("rate", 2, 0.1)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), first)
        ppd.PartiallyPrivate("y", pm.Poisson.dist(rate), second)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("again", AGAIN.values(), ids=AGAIN)
def test_the_noise_of_a_release_is_in_a_model_once(again, tmp_path):
    other = again(BY_STATE, tmp_path)
    with pytest.raises(ModelError, match="already in the model as that of 'x': observe it only once"):
        both(BY_STATE, other)
    with pytest.raises(ModelError, match="observe it only once"):
        both(other, BY_STATE)


PARTS = {
    "one label of several": ({"state": "B"}, {"state": ["A", "B"]}),
    "overlap": ({"state": ["A", "B"]}, {"state": ["C", "B"]}),
    "overlap in another order": ({"state": ["C", "B", "A"]}, {"state": ["A", "C"]}),
    "part of a part": ({"state": ["A", "B"]}, {"state": ["B"]}),
}


@pytest.mark.parametrize(("first", "second"), PARTS.values(), ids=PARTS)
def test_parts_with_common_cells_are_refused(first, second):
    for one, other in ((first, second), (second, first)):
        with pytest.raises(ModelError, match="already in the model as that of 'x': observe it only once"):
            both(BY_STATE.sel(one), copy.deepcopy(BY_STATE).sel(other))


def test_parts_by_different_dimensions():
    """Parts by state and by age have common cells; nothing is exact, so both can be selected."""
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon="1/10")
    release = ppd.Release(xr.DataArray(COUNTS, coords=CELLS), mechanism)
    with pytest.raises(ModelError, match="observe it only once"):
        both(release.sel(state=["A", "B"]), release.sel(age=list(range(5, 15))))


def test_other_noise_of_the_same_cells_and_other_parts_are_accepted():
    changed = COUNTS.copy()
    changed[:, :2] += [1, -1]
    both(BY_STATE, ppd.Release(xr.DataArray(changed, coords=CELLS), STATES_KEPT))
    both(BY_STATE.sel(state="A"), BY_STATE.sel(state="B"))
    both(BY_STATE.sel(state="A"), BY_STATE.sel(state=["C", "B"]))
    other = ppd.Release(xr.DataArray(COUNTS, coords=CELLS), ppd.GeneralizedLaplace(STATES_KEPT.public, epsilon=1))
    both(BY_STATE.sel(state="A"), other)


def test_parts_and_tables_of_other_dimensions_are_accepted():
    """One mechanism without public sums for tables of different dimensions."""
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon="1/10")
    states = ppd.Release(xr.DataArray(COUNTS, coords=CELLS), mechanism)
    sexes = ppd.Release(xr.DataArray(COUNTS[:2], coords={"sex": ["f", "m"], "age": range(24)}), mechanism)
    both(states.sel(state="A"), sexes)
    both(sexes, states.sel(state="A"))


def test_small_tables_can_coincide():
    def small(month):
        return ppd.Release(
            xr.DataArray([3, 4], coords={f"area{month}": ["A", "B"]}),
            ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1),
        )

    both(small("May"), small("June"))
    with pytest.warns(DiagnosisWarning, match="the release and that of 'x' have the same mechanism"):
        both(small("May"), small("May"))


SOUND = [0.3, 0.5, 0.9, np.array([0.5, 0.9, 0.2]), 3, 6, 2.5, np.array([4, 6, 5])]
NUMBERS = st.sampled_from(
    [*SOUND * 4, 0, 1, 2, 1.0, 7, -1, float("nan"), float("inf"), 1e-300, 1e300, True, np.float32(0.5),
     np.array([0.5, 1.0, 2.0]), np.array([1, 2, 3]), np.array([0.2, 0.0, 1.0]), np.array([1.0, 2.0]), np.ones((3, 1))]
)  # fmt: skip
FAMILIES = {
    "poisson": lambda a, b: pm.Poisson.dist(a),
    "binomial": lambda a, b: pm.Binomial.dist(n=a, p=b),
    "negative binomial": lambda a, b: pm.NegativeBinomial.dist(mu=a, alpha=b),
    "geometric": lambda a, b: pm.Geometric.dist(b),
    "zero-inflated": lambda a, b: pm.ZeroInflatedPoisson.dist(psi=b, mu=a),
    "hurdle": lambda a, b: pm.HurdlePoisson.dist(psi=b, mu=a),
    "uniform": lambda a, b: pm.DiscreteUniform.dist(a, a + b),
    "beta-binomial": lambda a, b: pm.BetaBinomial.dist(n=a, alpha=b, beta=1.5),
    "truncated": lambda a, b: pm.Truncated.dist(pm.Poisson.dist(a), lower=1, upper=9),
    "mixture": lambda a, b: pm.Mixture.dist([0.3, 0.7], [pm.Poisson.dist(a), pm.Poisson.dist(b)]),
    "constant": lambda a, b: pm.DiracDelta.dist(a),
    "normal": lambda a, b: pm.Normal.dist(a, b),
    "multinomial": lambda a, b: pm.Multinomial.dist(n=4, p=b),
}
PUBLIC = [total(), total() & nonnegative(), between(0, 6), total() & zeros({"dim_0": 1}), Public()]
NOISES = {
    "l1": lambda public, scale: ppd.GeneralizedLaplace(public, epsilon=scale),
    "gaussian": lambda public, scale: ppd.GeneralizedGaussian(public, rho=scale),
    "l2": lambda public, scale: ppd.GeneralizedLaplace(public, epsilon=scale, norm="l2"),
}


def log_noise(kind, scale, z):
    return -scale * np.abs(z).sum(axis=1) if kind == "l1" else -scale * (z**2).sum(axis=1)


def listed(release, family, a, b, kind, scale):
    """Return the log of the sum over all tables, by one call of PyMC's density; None if there is no density."""
    high = int(release.public.values[0]) if release.public.names else 14
    points = np.array(list(itertools.product(range(max(high, 0) + 1), repeat=3)))
    A, B = release.public.A.toarray(), release.public.B.toarray()
    points = points[np.all(points @ A.T == release.public.values, axis=1)]
    points = points[np.all(points @ B.T >= release.public.limits, axis=1)]
    wide = (
        np.broadcast_to(np.asarray(v, dtype=float if np.asarray(v).dtype == bool else None), points.shape)
        for v in (a, b)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            data = pm.logp(FAMILIES[family](*wide), points).eval(mode="FAST_COMPILE").sum(axis=1)
        except Exception:
            return None
    found = np.logaddexp.reduce(data + log_noise(kind, scale, points - release.table.values), initial=-np.inf)
    free = 2 if "zero" in str(release.public.public.to_dict()) else 3  # cells with noise
    constant = log_total(lambda z: log_noise(kind, scale, z[:, None]), free, kept=bool(release.public.names))
    return None if np.isnan(found) else float(found - constant)


def looked_at(case):
    family, a, b, kind, scale, public, y, marginalize = case
    scale_of = {"1/2": 0.5, 1: 1.0}[scale]
    y = np.array(y)
    if "zero" in str(public.to_dict()):
        y[1] = 0
    release = ppd.Release(y, NOISES[kind](public, scale))
    try:
        dist = FAMILIES[family](a, b)
    except Exception:  # PyMC raises its own error
        return "refused by PyMC"
    try:
        with pm.Model(coords=release.coords) as model:
            ppd.PartiallyPrivate("x", dist, release=release, marginalize=marginalize)
        point = model.initial_point(random_seed=1)
        logp = model.compile_fn(
            model.logp(sum=True, jacobian=False), inputs=model.value_vars, mode="FAST_COMPILE", on_unused_input="ignore"
        )
        found = float(logp(point))
    except (PpdinfError, ParameterValueError) as error:
        return type(error).__name__ if 0 < len(str(error)) < 3000 else "a long story"
    if model.free_RVs or kind == "l2":
        return "walked"
    expected = listed(release, family, a, b, kind, scale_of)
    if expected is not None:
        tolerance = 1e-4 if not release.public.names else 1e-7
        assert found == pytest.approx(expected, abs=tolerance) or (expected == found == -np.inf), (found, expected)
        return "compared"
    return "no density"


CASES = st.tuples(
    st.sampled_from(sorted(FAMILIES)), NUMBERS, NUMBERS, st.sampled_from(sorted(NOISES)), st.sampled_from(["1/2", 1]),
    st.sampled_from(PUBLIC), st.lists(st.integers(-1, 6), min_size=3, max_size=3),
    st.sampled_from(["auto", "auto", "auto", True, False]),
)  # fmt: skip


def fuzz(cases):
    seen = {}

    @settings(
        max_examples=cases, derandomize=True, deadline=None, database=None,  # kernels are compiled in some cases
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(CASES)
    def run(case):
        outcome = looked_at(case)
        seen[outcome] = seen.get(outcome, 0) + 1

    run()
    return seen


@pytest.mark.deep
def test_many_models():
    seen = fuzz(100)
    assert "a long story" not in seen
    assert seen["compared"] > 10


def test_a_shape_known_only_later_is_refused_by_name():
    """A truncated distribution does not have a static shape, and its parameters may have another one."""
    release = ppd.Release(np.array([3, 5, 2]), NOISES["l1"](total(), 1))
    for wrong in (np.array([1.0, 2.0]), np.ones((2, 1))):
        with pm.Model(coords=release.coords), pytest.raises(ModelError, match="the table has"):
            ppd.PartiallyPrivate("x", FAMILIES["truncated"](wrong, 1), release=release)
    with pm.Model(coords=release.coords):
        ppd.PartiallyPrivate("x", FAMILIES["truncated"](np.array([1.0, 2.0, 3.0]), 1), release=release)


def test_truncation_to_improbable_values_can_have_no_draws():
    release = ppd.Release(np.array([2, 0, 3]), NOISES["l1"](total() & zeros({"dim_0": 1}), 1))
    improbable = pm.Truncated.dist(pm.Poisson.dist(np.array([0.2, 0.0, 1.0])), lower=1, upper=9, max_n_steps=200)
    with pm.Model(coords=release.coords), pytest.raises(PpdinfError):
        ppd.PartiallyPrivate("x", improbable, release=release)
