"""Every constructor and every release refuses bad input by a typed error that states a remedy and shows no count."""

import math

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf import mechanisms
from ppdinf.counts import TwoStage
from ppdinf.errors import CountError, InvariantError, LabelError, PpdinfError, PrivacyError
from ppdinf.invariants import cells, nonnegative, total
from ppdinf.mechanisms import (
    Conditioned,
    CorrelatedGaussian,
    DirichletMultinomial,
    DiscreteGaussian,
    DoubleGeometric,
    GeneralizedGaussian,
    GeneralizedLaplace,
    Gradient,
    KNorm,
    KNormGradient,
    LinearRegression,
    LogisticRegression,
    Mean,
    PostProcessed,
    Quantile,
    Staircase,
    SubspaceGaussian,
    SubspaceLaplace,
    Suppression,
    TopDown,
    Transition,
    WassersteinExponential,
    random_rounding,
)

COUNTS = [7_654_321, 8_123_457, 9_031_333]
PREVIOUS = [4, 2, 3]

PUBLIC = {  # constructors with the parameters public and epsilon
    "GeneralizedLaplace": lambda public, epsilon=1: GeneralizedLaplace(public, epsilon),
    "GeneralizedLaplace l2": lambda public, epsilon=1: GeneralizedLaplace(public, epsilon, norm="l2"),
    "GeneralizedGaussian": lambda public, epsilon=1: GeneralizedGaussian(public, epsilon, "1e-6"),
    "SubspaceGaussian": lambda public, epsilon=1: SubspaceGaussian(public, epsilon, "1e-6"),
    "SubspaceLaplace": lambda public, epsilon=1: SubspaceLaplace(public, epsilon),
    "CorrelatedGaussian": lambda public, epsilon=1: CorrelatedGaussian(public, epsilon, "1e-6"),
    "KNorm": lambda public, epsilon=1: KNorm(public, epsilon),
    "Conditioned": lambda public, epsilon=1: Conditioned(public, noise=DoubleGeometric(epsilon)),
    "WassersteinExponential": lambda public, epsilon=1: WassersteinExponential(public, epsilon, 1, "x"),
    "PostProcessed": lambda public, epsilon=1: PostProcessed(public, epsilon),
    "TopDown": lambda public, epsilon=1: TopDown(public, epsilon, levels=total()),
}
OTHER = {"Suppression": lambda public: Suppression(public)}
EPSILON = {
    **{name: lambda epsilon, make=make: make(total(), epsilon) for name, make in PUBLIC.items()},
    # an array makes a law for each entry, which measurements have and mechanisms refuse
    "DoubleGeometric": lambda epsilon: Conditioned(total(), noise=DoubleGeometric(epsilon)),
    "Staircase": lambda epsilon: Conditioned(total(), noise=Staircase(epsilon)),
    "DiscreteGaussian": lambda sigma: Conditioned(total(), noise=DiscreteGaussian(sigma)),
    "KNormGradient": lambda epsilon: KNormGradient(Mean(1.0), epsilon),
    "sensitivity": lambda sensitivity: WassersteinExponential(total(), 1, sensitivity, "x"),
    "TwoStage": lambda epsilon: TwoStage(epsilon, 5),
    "rho": lambda rho: GeneralizedGaussian(total(), rho=rho),
    "delta_z": lambda delta_z: KNormGradient(Mean(1.0), 1, delta_z=delta_z),
    "DirichletMultinomial": lambda concentration: DirichletMultinomial(PREVIOUS, concentration),
}
DELTA = {
    "GeneralizedGaussian": lambda delta: GeneralizedGaussian(total(), 1, delta),
    "SubspaceGaussian": lambda delta: SubspaceGaussian(total(), 1, delta),
    "CorrelatedGaussian": lambda delta: CorrelatedGaussian(total(), 1, delta),
}
NO_LOSS = [0, -1, math.nan, math.inf, -math.inf, "much", "", True, None, 1j, [1], "1/0"]


def test_every_constructor_is_here():
    named = {name.split()[0] for name in [*PUBLIC, *OTHER, *EPSILON, *NUMBERS]}
    assert set(mechanisms.__all__) - named == {"ErrorPlan", "Mechanism"}


@pytest.mark.parametrize("value", NO_LOSS, ids=repr)
@pytest.mark.parametrize("name", EPSILON)
def test_privacy_parameters(name, value):
    with pytest.raises(PrivacyError):
        EPSILON[name](value)


@pytest.mark.parametrize("value", [-0.1, 1, 2, math.nan, math.inf, "some", True, None], ids=repr)
@pytest.mark.parametrize("name", DELTA)
def test_deltas(name, value):
    with pytest.raises(PrivacyError, match="delta"):
        DELTA[name](value)


NUMBERS = {
    "Mean": Mean,
    "LogisticRegression": LogisticRegression,
    "LinearRegression": LinearRegression,
    "Quantile": lambda upper: Quantile(0.5, 0.0, upper),
    "Transition": Transition,
    "random_rounding": lambda most: random_rounding(3, most),
    "Gradient": lambda radius: Gradient(lambda data, y: y, 1.0, 1, radius),
}


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "1", True, None], ids=repr)
@pytest.mark.parametrize("name", NUMBERS)
def test_bounds_of_objectives(name, value):
    with pytest.raises(PrivacyError):
        NUMBERS[name](value)


@pytest.mark.parametrize(
    "public", [None, "total", [[1, 1, 1]], total, 1], ids=["none", "text", "matrix", "function", "number"]
)
@pytest.mark.parametrize("name", [*PUBLIC, *OTHER])
def test_public_statements(name, public):
    with pytest.raises(PpdinfError):
        (PUBLIC | OTHER)[name](public)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GeneralizedLaplace(total(), 1, norm="l3"),
        lambda: GeneralizedGaussian(total(), 1, "1e-6", calibration="best"),
        lambda: GeneralizedGaussian(total()),
        lambda: GeneralizedGaussian(total(), 1, "1e-6", rho=1),
        lambda: SubspaceGaussian(total(), 1, "1e-6", method="extented"),
        lambda: SubspaceLaplace(total(), 1, method="none"),
        lambda: SubspaceLaplace(total(), 1, neighbours="other"),
        lambda: KNorm(total(), 1, query=[[0.5, 1, 1]]),
        lambda: KNorm(total(), 1, query=[[1, 1], [1]]),
        lambda: PostProcessed(total(), 1, method="guess"),
        lambda: TopDown(total(), 1, levels=[]),
        lambda: TopDown(total(), 1, levels=total(), shares=[1, 1]),
        lambda: Conditioned(total(), noise=GeneralizedLaplace(total(), 1)),
        lambda: Staircase(1, sensitivity=0),
        lambda: Staircase(1, step=3),
        lambda: WassersteinExponential(total(), 1, 1, ""),
        lambda: WassersteinExponential(total(), 1, 1, "x", loss="l3"),
        lambda: WassersteinExponential(total(), 1, 1, "x", base_measure="counting"),
        lambda: DirichletMultinomial([1, -1, 2]),
        lambda: DirichletMultinomial([1.5, 1, 2]),
        lambda: KNormGradient("mean", 1),
        lambda: KNormGradient(Mean(1.0), 1, norm="l7"),
    ],
)  # fmt: skip
def test_choices(make):
    with pytest.raises(PpdinfError):
        make()


def county(values, labels=("Adams", "Berks", "Chester")):
    return xr.DataArray(values, dims="county", coords={"county": list(labels)})


TABLES = {
    "fractions": (county([7_654_321.5, 1.0, 2.0]), CountError),
    "whole floats": (county([7_654_321.0, 1.0, 2.0]), CountError),
    "nan": (county([7_654_321.0, math.nan, 2.0]), CountError),
    "infinite": (county([7_654_321.0, math.inf, 2.0]), CountError),
    "negative": (county([7_654_321, -8_123_457, 2]), CountError),
    "bool": (county([True, False, True]), CountError),
    "objects": (county(np.array(COUNTS, dtype=object)), CountError),
    "datetime": (county(pd.to_datetime(COUNTS)), CountError),
    "masked": (np.ma.array(COUNTS, mask=[0, 1, 0]), CountError),
    "overflow": (county(np.array([1, 2**63 + 1, 2], dtype=np.uint64)), CountError),
    "labels twice": (county(COUNTS, ["Adams", "Adams", "Chester"]), LabelError),
    "look-alikes": (county(COUNTS, ["fifth", "\ufb01fth", "x"]), LabelError),
    "no array": ({"Adams": 7_654_321}, CountError),
}


@pytest.mark.parametrize("case", TABLES)
@pytest.mark.parametrize("name", [*PUBLIC, *OTHER])
def test_tables(name, case):
    table, error = TABLES[case]
    mechanism = (PUBLIC | OTHER)[name](total() & nonnegative() if name in ("Conditioned", "Suppression") else total())
    uses = [mechanism.release, lambda t: mechanism.simulate(t, draws=2, rng=1)]
    if case != "negative":  # a plan uses labels only, so a noisy table is valid input
        uses.append(mechanism.sampler_plan)
    for use in uses:
        with pytest.raises(error) as caught:
            use(table)
        assert not any(str(count) in str(caught.value) for count in (*COUNTS, -8_123_457, 7_654_321.5))


@pytest.mark.parametrize("name", [*PUBLIC, *OTHER])
def test_statements_that_do_not_fit_the_table(name):
    mechanism = (PUBLIC | OTHER)[name](cells({"county": "Dauphin"}) & nonnegative())
    with pytest.raises(PpdinfError, match="Dauphin"):
        mechanism.release(county(COUNTS))


@pytest.mark.parametrize("name", [*PUBLIC, *OTHER])
def test_a_table_that_breaks_a_public_bound(name):
    public = total() & ppd.invariants.between(0, 10)
    mechanism = (PUBLIC | OTHER)[name](public)
    with pytest.raises(PpdinfError) as caught:
        mechanism.release(county(COUNTS))
    assert isinstance(caught.value, InvariantError | PrivacyError)
    assert not any(str(count) in str(caught.value) for count in COUNTS)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_release_takes_no_seed(name):
    with pytest.raises(PrivacyError, match="simulate"):
        PUBLIC[name](total()).release(county(COUNTS), rng=1)
