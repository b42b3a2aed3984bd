"""Formulas: the code of a model builds the model that an analyst would write, and the same code is run."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from typer.testing import CliRunner

import ppdinf as ppd
from ppdinf.cli import app
from ppdinf.errors import LabelError, ModelError
from ppdinf.models import log_rates
from ppdinf.models.formula import build, translate

pytest.importorskip("formulae")
COUNTIES = [f"c{i}" for i in range(12)]


@pytest.fixture(scope="module")
def release():
    rng = np.random.default_rng(3)
    people = rng.integers(100, 2000, 12)
    rural = np.repeat(["no", "yes"], 6)
    table = xr.DataArray(
        rng.poisson(people * 0.02 * np.exp(0.8 * (rural == "yes"))),
        dims="county",
        coords={
            "county": COUNTIES,
            "state": ("county", ["s", "t", "u"] * 4),
            "rural": ("county", rural),
            "people": ("county", people),
        },
    )
    public = ppd.invariants.total() & ppd.invariants.covariates("state", "rural", "people")
    noisy = table.values + np.array([1, -1, 0, 2, -2, 0, 1, 0, -1, 0, 1, -1])
    return ppd.Release(table.copy(data=noisy), ppd.GeneralizedLaplace(public, epsilon=1))


@pytest.fixture(scope="module")
def data():
    """Covariates in another order of the counties than the release."""
    rows = pd.DataFrame({"county": COUNTIES, "income": np.linspace(-1, 2, 12) ** 2})
    return rows.sample(frac=1, random_state=1)


def by_hand(release, data, family):
    """Write the models of `FORMULAS` as an analyst does."""
    income = data.set_index("county").loc[COUNTIES, "income"].to_numpy()
    rural = (release.covariate("rural").values == "yes").astype(float)
    people = release.covariate("people").values
    codes = pd.factorize(release.covariate("state").values)[0]
    centred = {"rural": rural - rural.mean(), "income": income - income.mean()}
    with pm.Model(coords=release.coords) as model:
        if family == "binomial":
            share = float(release.table.sum()) / people.sum()
            eta = pm.Normal("intercept", np.log(share / (1 - share)), 2.5)
        else:
            eta = log_rates(release, ["state"], exposure="people")
        for name, x in centred.items():
            eta = eta + x * pm.Normal(f"b_{name}", 0, 2.5 / np.std(x), shape=1)
        if family == "binomial":
            spread, unit = pm.HalfNormal("state_spread", 1), pm.Normal("state_unit", size=3)
            law = pm.Binomial.dist(n=people, logit_p=eta + (spread * unit)[codes])
        else:
            slopes = pm.HalfNormal("income_state_spread", 1 / income.std()) * pm.Normal("income_state_unit", size=3)
            mean = people * pm.math.exp(eta + income * slopes[codes])
            alpha = pm.Gamma("alpha", 2, 0.1) if family == "negativebinomial" else None
            law = pm.Poisson.dist(mean) if alpha is None else pm.NegativeBinomial.dist(mu=mean, alpha=alpha)
        ppd.PartiallyPrivate("cases", law, release=release)
    return model


RIGHT = "rural + income + (1 | state)"
FORMULAS = {
    "poisson": f"cases ~ {RIGHT} + (income | state) + offset(log(people))",
    "negativebinomial": f"cases ~ {RIGHT} + (income | state) + offset(log(people))",
    "binomial": f"proportion(cases, people) ~ {RIGHT}",
}


def density(model, seed=0):
    rng = np.random.default_rng(seed)
    point = {name: np.asarray(value) for name, value in model.initial_point().items()}
    moved = {name: point[name] + 0.3 * rng.normal(size=point[name].shape) for name in sorted(point)}
    return model.compile_logp(mode="FAST_COMPILE")(moved)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("family", FORMULAS)
def test_the_code_builds_the_model_that_an_analyst_writes(release, data, family):
    # also the rows of the covariates are in another order: joining by position would change the density
    expected = density(by_hand(release, data, family))
    model = build(translate(FORMULAS[family], release, family, data), release, data)
    assert density(model) == pytest.approx(expected, abs=1e-8)
    by_position = data.assign(county=COUNTIES)
    wrong = build(translate(FORMULAS[family], release, family, by_position), release, by_position)
    assert abs(density(wrong) - expected) > 0.01


def test_terms_and_counts_may_have_names_of_the_code(release, data):
    data = data.assign(a=np.arange(12) % 3, b=np.arange(12) % 4, a_b=np.arange(12.0) ** 2)
    code = translate("eta ~ a:b + a_b", release, "poisson", data)
    names = build(code, release, data)
    assert {"b_a:b", "b_a_b"} <= set(names.named_vars)
    variables = {line.split(" = ")[0] for line in code.splitlines() if line.startswith("x")}
    assert len(variables) == 2  # one variable for each term


@pytest.mark.deep
def test_a_fit_and_its_source(release, data, tmp_path):
    release.save(tmp_path / "cases.ppd")
    data.to_csv(tmp_path / "income.csv", index=False)
    fitted = ppd.fit(
        "cases ~ rural + income + offset(log(people))", release, data=data, draws=400, chains=2, random_seed=1
    )
    rural = fitted.idata.posterior["b_rural"]
    assert abs(float(rural.mean()) - 0.8) < 4 * float(rural.std())  # 6e-5 for a normal posterior
    assert float(rural.mean()) > 2 * float(rural.std())
    names = {}
    exec(fitted.source(str(tmp_path / "cases.ppd"), str(tmp_path / "income.csv")), names)
    assert density(names["model"]) == pytest.approx(density(fitted.model), abs=1e-8)
    options = ["--covariates", str(tmp_path / "income.csv"), "--draws", "300", "--chains", "2", "--output"]
    command = ["infer", str(tmp_path / "cases.ppd"), "--formula", "cases ~ income + (1 | state)", *options]
    result = CliRunner().invoke(app, [*command, str(tmp_path / "out")], catch_exceptions=False)
    assert result.exit_code in (0, 1)  # 1: the checks of a short chain
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"parameters.csv", "posterior.csv", "model.py"}


@pytest.mark.parametrize(("formula", "family", "message"), [
    ("cases ~ 0 + rural", "poisson", "no intercept"),
    ("cases ~ age", "poisson", "'age'"),
    ("cases ~ released", "poisson", "'released'"),
    ("cases ~ (1 | region)", "poisson", "'region'"),
    ("cases ~ (rural | state)", "poisson", r"\(rural\|state\)"),
    ("cases ~ income:0", "poisson", "cannot be read|same in every cell"),
    ("cases ~ log(income - 9)", "poisson", "not a finite number"),
    ("cases ~ rural + offset(log(people - people))", "negativebinomial", "exposure of 0"),
    ("cases", "poisson", "a formula reads"),
    ("people ~ rural", "poisson", "another name"),
    ("cases ~ rural", "binomial", "proportion"), ("cases ~ rural", "gaussian", "family"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero) encountered in log:RuntimeWarning")
def test_formulas_that_are_refused(release, data, formula, family, message):
    with pytest.raises(ModelError, match=message):
        translate(formula, release, family, data)


def test_a_refused_formula_makes_no_folder(release, tmp_path):
    release.save(tmp_path / "cases.ppd")
    command = ["infer", str(tmp_path / "cases.ppd"), "--output", str(tmp_path / "out"), "--formula", "cases ~ age"]
    assert CliRunner().invoke(app, command).exit_code != 0
    assert not (tmp_path / "out").exists()


def test_covariates_have_one_row_for_every_cell(release, data):
    for wrong, message in (
        (data.iloc[1:], "no row for"),
        (pd.concat([data, data.iloc[:1]]), "two rows for"),
        (data.rename(columns={"county": "place"}), "column of labels"),
        (data.assign(people=1), "no other column"),
    ):
        with pytest.raises(LabelError, match=message):
            translate("cases ~ income", release, "poisson", wrong)
