"""Log rates with effects: the distribution is the stated one, in every parametrization."""

import itertools

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy.optimize import brentq, minimize
from scipy.stats import halfnorm, multivariate_normal, norm

import ppdinf as ppd
from ppdinf._internal.pymc_compat import NUMBA_CONSTANT_SIZE_LIMIT, Constant, graph_inputs
from ppdinf.errors import LabelError, ModelError
from ppdinf.models.label_effects import intercept_given_total, log_rates

STATES = ["a", "a", "b", "b", "b", "c"]
PEOPLE = np.array([100, 4000, 50, 3000, 900, 70])


def as_function(model, what):
    """Compile a quantity of the model, or a list of them, as a function of its unconstrained values."""
    of_values = model.replace_rvs_by_values(what if isinstance(what, list) else [what])
    of_values = of_values if isinstance(what, list) else of_values[0]
    return model.compile_fn(of_values, inputs=model.value_vars, on_unused_input="ignore", mode="FAST_COMPILE")


def release(public, values=(3, 40, 0, 21, 7, 1), epsilon=1, people=PEOPLE):
    table = xr.DataArray(
        np.array(values),
        dims="county",
        coords={"county": list("uvwxyz"), "state": ("county", STATES), "people": ("county", people)},
    )
    return ppd.Release(
        table, ppd.GeneralizedLaplace(public & ppd.invariants.covariates("people", "state"), epsilon=epsilon)
    )


PUBLIC = {
    "states": ppd.invariants.groups("state"),
    "total": ppd.invariants.total(),
    "none": ppd.invariants.covariates("people"),
}


def areas_and_months(public=None, epsilon=1, seed=1, areas=4, months=6, level=2.0):
    """Draw areas in two regions and months in two seasons, from a seed."""
    rng = np.random.default_rng(seed)
    log_rate = level + rng.normal(0, 0.6, areas)[:, None] + rng.normal(0, 0.3, months)
    region = np.arange(areas) // (areas // 2)
    table = xr.DataArray(
        rng.poisson(np.exp(log_rate)),
        dims=("area", "month"),
        coords={
            "region": ("area", region),
            "coast": ("area", np.arange(areas) % 2),
            "season": ("month", np.arange(months) % 2),
        },
    )
    statement = (public or ppd.invariants.margin("month")) & ppd.invariants.covariates("region", "coast", "season")
    mechanism = ppd.GeneralizedLaplace(statement, epsilon=epsilon)
    return ppd.Release(mechanism.simulate(table, draws=1, rng=seed).squeeze("draw", drop=True), mechanism)


NESTED = ["state", "county"]
CROSSED = ["season", "area", "month", "region"]
PEOPLE_AT_RISK = {"exposure": "people"}
MODELS = {public: (lambda public=public: release(PUBLIC[public]), NESTED, PEOPLE_AT_RISK) for public in PUBLIC}
MODELS["one"] = lambda: release(PUBLIC["states"]), ["county"], PEOPLE_AT_RISK
for cells in ([5], [2, 3, 4], [0, 1, 5]):  # of one county, of three, of two states
    kept = np.isin(np.arange(6), cells, invert=True)
    MODELS[f"nobody at risk in {cells}"] = (
        lambda kept=kept: release(PUBLIC["none"], kept * (3, 40, 0, 21, 7, 1), people=kept * PEOPLE),
        NESTED,
        PEOPLE_AT_RISK,
    )
MODELS["crossed"] = areas_and_months, CROSSED, {}
MODELS["regions that cross"] = areas_and_months, ["area", "region", "coast"], {}
MODELS["far off"] = lambda: areas_and_months(epsilon=0.01, seed=2), CROSSED, {}
EDGES = {"state": [("a", "c")], "county": [("u", "v"), ("v", "w"), ("w", "u"), ("x", "y")], "area": [(0, 2), (2, 3)]}
NEAR = {name: pd.DataFrame(pairs) for name, pairs in EDGES.items()}  # with islands
MODELS["spatial"] = (
    lambda: release(PUBLIC["states"]), NESTED, PEOPLE_AT_RISK | {"spatial": {name: NEAR[name] for name in NESTED}},
)  # fmt: skip
MODELS["spatial and temporal"] = areas_and_months, CROSSED, {"spatial": {"area": NEAR["area"]}, "temporal": "month"}


def bym2_covariance(name, labels, mixing, scaled=True):
    """Return the covariance of BYM2 effects with standard deviation 1, by pseudo-inverses of components."""
    labels = list(labels)
    pairs = EDGES[name] if name in EDGES else list(itertools.pairwise(labels))
    Q, near = np.zeros((len(labels),) * 2), np.eye(len(labels))
    for one, other in pairs:
        a, b = labels.index(one), labels.index(other)
        Q[[a, b], [a, b]] += 1
        Q[[a, b], [b, a]] -= 1
        near[[a, b], [b, a]] = 1
    within = np.linalg.matrix_power(near, len(labels)) > 0
    s = np.eye(len(labels))
    for members in np.unique(within, axis=0):
        if members.sum() > 1:
            inverse = np.linalg.pinv(Q[np.ix_(members, members)], hermitian=True)
            typical = np.exp(np.log(np.diag(inverse)).mean()) if scaled else 1
            s[np.ix_(members, members)] = inverse / typical
    return mixing * s + (1 - mixing) * np.eye(len(labels))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.compiled] * (case == "one") + [pytest.mark.deep] * (case == "spatial"))
        for case in MODELS
    ],
)
def test_priors_are_those_stated_in_every_parametrization(case):
    """Density of the unconstrained values, against the stated density with the Jacobian by differences."""
    build, names, options = MODELS[case]
    of, exposure = build(), options.get("exposure")
    smooth = [*options.get("spatial", ()), *filter(None, [options.get("temporal")])]
    with pm.Model() as model:
        log_rate = log_rates(of, names, **options)
        told = [pm.math.flatten(model[name]) for name in ("intercept", *(f"{name}_effect" for name in names))]
        meaning = pm.math.concatenate(told)
    rng = np.random.default_rng(3)
    point = {v.name: rng.normal(0, 0.3, model.initial_point()[v.name].shape) for v in model.value_vars}
    moved = [v.name for v in model.value_vars if "_spread_" not in v.name and "_mixing_" not in v.name]
    scales = [f"{name}_spread" for name in names] + [f"{name}_mixing" for name in smooth]
    function = as_function(model, [meaning, log_rate, *(model[name] for name in scales)])

    def meant(flat):
        here, at = dict(point), 0
        for name in moved:
            size = point[name].size
            here[name] = flat[at : at + size].reshape(point[name].shape)
            at += size
        return function(here)[0]

    flat = np.concatenate([point[name].ravel() for name in moved])
    step = 1e-6
    jacobian = [(meant(flat + step * e) - meant(flat - step * e)) / (2 * step) for e in np.eye(flat.size)]
    value, codes = meant(flat), {name: of.frame.codes(name)[0] for name in names}
    scale, log_slope = {}, 0.0
    _, rates, *found = function(point)
    for k, name in enumerate(scales):
        (value_name,) = (v.name for v in model.value_vars if v.name.startswith(f"{name}_"))
        scale[name] = found[k]
        raised = function({**point, value_name: point[value_name] + 1e-5})[2 + k]
        log_slope += np.log((raised / scale[name] - 1) / 1e-5)
        log_slope += np.log(scale[name])
    at_risk = np.ones(of.table.size) if exposure is None else of.covariate(exposure).values
    overall = np.log(of.table.values.sum() / at_risk.sum())
    expected, effect = norm(overall, 2.5).logpdf(value[0]), value[1:]
    expected_rates, unscaled = value[0] + np.zeros(at_risk.size), 0.0
    for name in names:
        n, spread = codes[name].max() + 1, scale[f"{name}_spread"]
        expected += halfnorm.logpdf(spread)
        if name in smooth:
            prior = [
                multivariate_normal(
                    cov=spread**2 * bym2_covariance(name, of.frame.codes(name)[1], scale[f"{name}_mixing"], scaled)
                ).logpdf(effect[:n])
                for scaled in (True, False)
            ]
            expected += prior[0]
            unscaled += prior[1] - prior[0]
        else:
            expected += norm(0, spread).logpdf(effect[:n]).sum()
        expected_rates = expected_rates + effect[codes[name]]
        effect = effect[n:]
    expected += np.linalg.slogdet(jacobian)[1] + log_slope
    assert model.compile_logp(mode="FAST_COMPILE")(point) == pytest.approx(expected, rel=1e-5, abs=1e-4)
    wrong = expected - norm(overall, 2.5).logpdf(value[0]) + norm(overall, 2.0).logpdf(value[0])
    assert abs(wrong - expected) > 1e-3
    assert (abs(unscaled) > 1e-3) == bool(smooth)
    np.testing.assert_allclose(rates.ravel(), expected_rates, rtol=1e-12)


def narrowness(of, names, exposure=None, build=log_rates):
    """Ratio of the widest to the narrowest direction at the mode, about the steps per draw of NUTS; spreads are 1/2."""
    with pm.Model() as model:
        at_risk = 1 if exposure is None else of.frame.broadcast(exposure).reshape(of.shape)
        rate = pm.math.exp(build(of, names, exposure=exposure)) * at_risk
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=of, marginalize=True)
    start = model.initial_point()
    fixed = {name: np.log(0.5) if name.endswith("log__") else 0.0 for name in start if "_spread_" in name}
    free = [name for name in start if name not in fixed]
    sizes = np.cumsum([start[name].size for name in free])[:-1]
    gradient, value = (
        model.compile_dlogp([model.values_to_rvs[v] for v in model.value_vars if v.name in free]),
        model.compile_logp(),
    )

    def point(flat):
        parts = np.split(flat, sizes)
        return {**fixed, **{name: x.reshape(start[name].shape) for name, x in zip(free, parts, strict=True)}}

    flat = np.concatenate([start[name].ravel() for name in free])
    flat = minimize(lambda x: -value(point(x)), flat, jac=lambda x: -gradient(point(x)), method="L-BFGS-B").x
    step = 1e-4
    hessian = np.array(
        [(gradient(point(flat - step * e)) - gradient(point(flat + step * e))) / (2 * step) for e in np.eye(flat.size)]
    )
    sd = np.sqrt(np.diag(np.linalg.inv(hessian)))
    widths = np.linalg.eigvalsh(sd[:, None] * (hessian + hessian.T) / 2 * sd)
    return float(np.sqrt(widths[-1] / widths[0]))


def by_effects(of, names, exposure=None):
    """Build the model with centered effects."""
    eta = pm.Normal("intercept", 0, 2.5)
    for name in names:
        codes = of.frame.codes(name)[0]
        spread = pm.HalfNormal(f"{name}_spread", 1)
        eta = eta + pm.Normal(f"{name}_effect", 0, spread, shape=int(codes.max()) + 1)[codes]
    return eta.reshape(of.shape)


def states(epsilon, level, seed=1, n=60):
    """Return counties in twelve states with public totals."""
    rng = np.random.default_rng(seed)
    state = np.sort(np.concatenate([np.arange(12), rng.integers(0, 12, n - 12)]))
    people = np.exp(rng.normal(7, 1, n)).astype(int)
    rate = np.exp(level - 7 + rng.normal(0, 0.4, 12)[state] + rng.normal(0, 0.5, n))
    table = ppd.as_table(rng.poisson(people * rate), dims=["county"])
    table = table.assign_coords(state=("county", state), people=("county", people))
    public = ppd.invariants.groups("state") & ppd.invariants.covariates("people")
    mechanism = ppd.GeneralizedLaplace(public, epsilon=epsilon)
    return ppd.Release(mechanism.simulate(table, draws=1, rng=seed).squeeze("draw", drop=True), mechanism)


@pytest.mark.deep
@pytest.mark.interpreted
@pytest.mark.filterwarnings("ignore:Loop fusion failed")  # without a C compiler PyTensor fuses up to 32 operands
@pytest.mark.parametrize(("build", "names", "exposure"), [
    (lambda: areas_and_months(epsilon=0.25, areas=60, months=8, level=3.0), ["area", "month"], None),
    (lambda: areas_and_months(epsilon=0.25, areas=60, months=8, level=3.0), CROSSED, None),
    (lambda: states(0.5, 3.0), NESTED, "people"), (lambda: states(0.1, 0.0), NESTED, "people"),
    (lambda: states(1, 6.0), NESTED, "people"),
])  # fmt: skip
def test_the_posterior_has_no_narrow_direction(build, names, exposure):
    of = build()
    chosen, plain = narrowness(of, names, exposure), narrowness(of, names, exposure, by_effects)
    print(chosen, plain)
    assert chosen < 4
    assert plain > 1.5 * chosen


def test_finer_labels_precede_coarser_ones_and_crossing_labels_are_first():
    with pm.Model() as model:
        log_rates(release(PUBLIC["none"]), NESTED, exposure="people")
    assert [v.name for v in model.free_RVs] == [
        "county_spread", "county_level", "state_spread", "state_level", "level"
    ]  # fmt: skip
    with pm.Model() as model:
        log_rates(areas_and_months(), CROSSED)
    levels = [v.name for v in model.free_RVs if v.name.endswith("level")]
    assert levels == ["region_level", "area_level", "month_level", "season_level", "level"]


def test_public_sums_hold_at_zero_unconstrained_values():
    """With much information, chains start where expected sums are nearly those of the release."""
    with pm.Model() as model:
        log_rate = log_rates(
            release(PUBLIC["states"], values=(300, 9000, 20, 4000, 100, 700)), ["state"], exposure="people"
        )
    point = model.initial_point()
    rates = as_function(model, log_rate)(point)
    np.testing.assert_allclose(
        np.bincount([0, 0, 1, 1, 1, 2], weights=np.exp(rates) * PEOPLE), [9300, 4120, 700], rtol=0.05
    )


def test_tables_of_two_dimensions_and_refusals():
    table = xr.DataArray(
        np.arange(6).reshape(3, 2), dims=("age", "sex"), coords={"age": list("abc"), "sex": list("fm")}
    )
    two = ppd.Release(table, ppd.GeneralizedLaplace(ppd.invariants.margin("sex"), epsilon=1))
    with pm.Model() as model:
        log_rate = log_rates(two, ["age", "sex"])
        assert [v.name for v in model.free_RVs][-2:] == ["age_level", "level"]
        drawn = pm.draw([log_rate, model["intercept"], model["age_effect"], model["sex_effect"]], random_seed=1)
    np.testing.assert_allclose(drawn[0], drawn[1] + drawn[2][:, None] + drawn[3])
    with pm.Model(), pytest.raises(ModelError, match="distinct"):
        log_rates(two, ["age", "age"])
    with pm.Model(), pytest.raises(LabelError):
        log_rates(two, ["region"])
    with pm.Model(), pytest.raises(ModelError, match=r"a list of names, such as \['age'\]"):
        log_rates(two, "age")
    with pm.Model(coords={"level": ["basic", "higher"]}), pytest.raises(ModelError, match="a variable 'level', but"):
        log_rates(two, ["age"])
    with pm.Model():
        log_rates(two, ["age"])
        with pytest.raises(ModelError, match="a variable 'intercept', but"):
            log_rates(two, ["sex"])
        with pm.Model(name="again") as again:
            log_rates(two, ["sex"])
    assert "again::intercept" in again.named_vars


def test_spatial_and_temporal_effects_are_refused_without_their_labels():
    of = areas_and_months()
    for options, message in [
        ({"spatial": NEAR["area"]}, "must map one of the effects to its adjacency: {'area': adjacency}"),
        ({"spatial": {"region": NEAR["area"]}}, "must map one of the effects"),
        ({"temporal": "season"}, "one of the effects without an adjacency, found 'season'"),
        ({"spatial": {"area": NEAR["area"]}, "temporal": "area"}, "without an adjacency, found 'area'"),
    ]:
        with pm.Model() as model, pytest.raises(ModelError, match=message):
            log_rates(of, ["area", "month"], **options)
        assert not model.named_vars
    with pm.Model(), pytest.raises(LabelError, match="'area' has no label 9"):
        log_rates(of, ["area", "month"], spatial={"area": pd.DataFrame([(0, 9)])})


def test_large_arrays_are_not_constants_of_the_density():
    """PyMC refuses transforms that contain shared arrays on which the variables do not depend."""
    of = ppd.Release(np.arange(300), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model() as model:
        rate = pm.math.exp(log_rates(of, ["dim_0"], temporal="dim_0"))
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=of)
    assert not x.owner.op.unchanged  # nor data, which every density would compare
    large = [
        v for v in graph_inputs([model.logp()]) if isinstance(v, Constant) and v.data.nbytes > NUMBA_CONSTANT_SIZE_LIMIT
    ]
    assert large == []


@pytest.mark.quick_cases(0)
def test_prior_draws_have_the_covariance_of_bym2():
    """Draws given parameters; a prior without the independent part is outside the Monte Carlo error."""
    with pm.Model() as model:
        log_rates(areas_and_months(), ["area", "month"], spatial={"area": NEAR["area"]}, temporal="month")
    fixed = {"area_spread": 1.0, "area_mixing": 0.7, "month_spread": 1.0, "month_mixing": 0.7}
    at = pm.do(model, {model[name]: value for name, value in fixed.items()})
    for name in ("area", "month"):
        drawn = pm.draw(at[f"{name}_effect"], 4000, random_seed=1)
        covariance, labels = np.cov(drawn.T), range(drawn.shape[1])
        exact = bym2_covariance(name, labels, 0.7)
        tolerance = 4.5 / np.sqrt(4000) * np.sqrt(np.outer(np.diag(exact), np.diag(exact)) + exact**2)
        assert (np.abs(covariance - exact) < tolerance).all()
        for wrong in (bym2_covariance(name, labels, 1.0), bym2_covariance(name, labels, 0.7, scaled=False)):
            assert not (np.abs(covariance - wrong) < tolerance).all()


def test_the_expected_total_depends_only_on_the_level():
    """For all effects; levels of counties also change public sums only a little."""
    with pm.Model() as model:
        log_rate = log_rates(release(PUBLIC["states"], epsilon=0.1), NESTED, exposure="people")
    function, start = as_function(model, log_rate), model.initial_point()
    rng = np.random.default_rng(5)

    def sums(**moved):
        expected = np.exp(function({**start, **moved})) * PEOPLE
        return np.add.reduceat(expected, [0, 2, 5])

    names = {name.removesuffix("_standard_normal__"): name for name in start}
    before, county = sums(), names["county_level"]
    for _ in range(5):
        effects = {names["state_level"]: rng.normal(size=3), county: rng.normal(size=6)}
        assert sums(**effects).sum() == pytest.approx(before.sum(), rel=1e-12)
        off = np.log(sums(**{county: effects[county]}) / before)
        assert np.abs(off[:2]).max() < 0.2  # 43 and 28 are public: a seventh, a fifth
    (level,) = (name for name in start if name.startswith("level"))
    assert sums(**{level: start[level] + 1.0}).sum() > 1.1 * before.sum()


@pytest.mark.quick_cases(0)
def test_models_can_be_copied_and_intervened_on():
    """Densities at one point; chains start at the rough fit, as with ``initval=``."""
    with pm.Model() as model:
        log_rates(release(PUBLIC["states"]), NESTED, exposure="people")
    start = model.initial_point()
    assert as_function(model, model["county_spread"])(start) == pytest.approx(0.5)
    assert as_function(model, model["level"])(start) == pytest.approx(np.log(72 / PEOPLE.sum()))
    spread = {model["state_spread"]: 0.7}
    models = {"copy": model.copy(), "do": pm.do(model, spread), "observe": pm.observe(model, spread)}
    rng = np.random.default_rng(6)
    point = {name: rng.normal(0, 0.3, np.shape(value)) for name, value in start.items()}
    (moved,) = (name for name in point if name.startswith("state_spread_"))
    spread_at = as_function(model, model["state_spread"])

    def at(x):
        return float(spread_at({**point, moved: np.array(x)}))

    point[moved] = np.array(brentq(lambda x: at(x) - 0.7, -20, 20))
    slope = (at(point[moved] + 1e-5) - at(point[moved] - 1e-5)) / 2e-5
    density = {
        name: float(
            one.compile_logp(mode="FAST_COMPILE")({k: x for k, x in point.items() if name == "copy" or k != moved})
        )
        for name, one in models.items()
    }
    whole = float(model.compile_logp(mode="FAST_COMPILE")(point))
    assert density["copy"] == pytest.approx(whole)
    assert density["observe"] == pytest.approx(whole - np.log(slope), abs=1e-6)
    assert density["do"] == pytest.approx(density["observe"] - halfnorm.logpdf(0.7))
    again = models["copy"].initial_point()
    assert again.keys() == start.keys()
    for name, value in again.items():
        np.testing.assert_allclose(value, start[name])


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_models_of_releases_can_be_copied(norm):
    """The scale of l2 noise starts at the square root of its cells; an intercept given a total at 0."""
    noisy = ppd.Release(
        np.array([30, 4, 12]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/20", norm=norm)
    )
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, 1, shape=3)
        level = ppd.models.intercept_given_total("mu", pm.Normal.dist(2, 2), effect, 46)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.math.exp(level + effect)), release=noisy)
    start, copied = model.initial_point(), model.copy().initial_point()
    assert {name: value.tolist() for name, value in copied.items()} == {k: v.tolist() for k, v in start.items()}
    assert start["mu_level"] == 0
    if norm == "l2":
        assert start["x_noise_scale_log__"] == pytest.approx(np.log(3) / 2)


LOG_SIZE = np.log([2.0, 5.0, 30.0])
COUNTS = np.array([3, 4, 40])


def plain():
    with pm.Model() as model:
        mu, effect = pm.Normal("mu", -1, 2), pm.Normal("effect", 0, 0.7, shape=3)
        pm.Poisson("x", pm.math.exp(mu + effect + LOG_SIZE), observed=COUNTS)
    return model


def by_level():
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, 0.7, shape=3)
        mu = intercept_given_total("mu", pm.Normal.dist(-1, 2), effect + LOG_SIZE, total=COUNTS.sum())
        pm.Poisson("x", pm.math.exp(mu + effect + LOG_SIZE), observed=COUNTS)
    return model


def test_density_is_that_of_the_plain_model():
    one, other, rng = plain().compile_logp(), by_level().compile_logp(), np.random.default_rng(1)
    for _ in range(5):
        mu, effect = rng.normal(0, 1), rng.normal(0, 1, 3)
        level = (mu + np.log(np.exp(effect + LOG_SIZE).sum()) - np.log(47)) * np.sqrt(47)
        expected = one({"mu": mu, "effect": effect})
        assert other({"mu_level": level, "effect": effect}) == pytest.approx(expected, abs=1e-10)
        assert abs(other({"mu_level": mu, "effect": effect}) - expected) > 1e-3  # the level used as the intercept


def test_a_total_of_zero_is_refused():
    with pm.Model(), pytest.raises(ModelError, match="the total of 'mu' must be positive"):
        intercept_given_total("mu", pm.Normal.dist(), np.zeros(2), total=0)
