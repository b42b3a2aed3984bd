"""Likelihoods of mechanisms: three equal evaluations, integration over auxiliary variables, and refusals."""

import pickle

import numpy as np
import pytensor.tensor as pt
import pytest
from scipy import integrate

import ppdinf as ppd
from ppdinf.errors import ModelError
from ppdinf.invariants import Public, margin, nonnegative, total
from ppdinf.laws.likelihood import Likelihood, MixingScale, RemovedShift
from ppdinf.mechanisms import DiscreteGaussian, DoubleGeometric, Mean, Staircase, random_rounding

X = np.array([3, 0, 2, 1])
TABLES = np.array([[3, 0, 2, 1], [2, 1, 2, 1], [0, 0, 6, 0], [1, 1, 1, 3]])
QUERY = [[1, 1, 0, 0], [0, 1, 1, 1]]
BOUNDED = total() & nonnegative()
MECHANISMS = {
    "l1": ppd.GeneralizedLaplace(total(), "1/2"),
    "l2": ppd.GeneralizedLaplace(total(), "1/2", norm="l2"),
    "gaussian": ppd.GeneralizedGaussian(total(), sigma=2),
    "exact gaussian": ppd.GeneralizedGaussian(total(), 1, "1e-4", calibration="exact"),
    "conditioned": ppd.Conditioned(total(), noise=DiscreteGaussian(2)),
    "staircase": ppd.Conditioned(BOUNDED, noise=Staircase(1)),
    "bounded": ppd.Conditioned(BOUNDED, noise=DoubleGeometric("1/2")),
    "wasserstein, l2": ppd.WassersteinExponential(BOUNDED, 1, 2, "x", loss="l2"),
    "rounding": random_rounding(3, upper=12),
    "two stages": ppd.counts.TwoStage(1, n=8, measured=[1, 2, 0, 1, 0, 0, 0, 0]),
    "nothing": ppd.Suppression(BOUNDED),
    "subspace gaussian": ppd.SubspaceGaussian(total(), 1, "1e-4"),
    "subspace laplace": ppd.SubspaceLaplace(total(), 1),
    "extended": ppd.SubspaceLaplace(total(), 1, "extended"),
    "correlated": ppd.CorrelatedGaussian(total(), 1, "1e-4"),
    "k-norm": ppd.KNorm(total(), 1),
    "answers": ppd.SubspaceGaussian(Public(), 1, "1e-4", query=QUERY),
    "projected answers": ppd.SubspaceLaplace(total(), 1, query=QUERY),
}

POSSIBLE = {"rounding": [3, 3, 0, 0], "two stages": [3, 1, 0, 1]}  # releases that matrices allow


def stated(name):
    """Return the bound mechanism, the system of its answers, its likelihood, and a release of `X`."""
    mechanism = MECHANISMS[name]
    answers = X if mechanism.queries is None else np.array(mechanism.queries) @ X
    system = mechanism.public.on(answers)
    settled = mechanism.on(system)
    likelihood = settled.likelihood(system)
    y = np.array(POSSIBLE.get(name, answers + np.resize([-1, 1], answers.size)))
    return settled, system, likelihood, y


def auxiliary(likelihood):
    variable = likelihood.auxiliary
    if variable is None:
        return ()
    return (np.float64(variable.typical),) if variable.is_scalar else (np.full(variable.directions.shape[1], 0.3),)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("name", MECHANISMS)
def test_numpy_and_pytensor_agree(name):
    _, _, likelihood, y = stated(name)
    assert isinstance(likelihood, Likelihood)
    given = auxiliary(likelihood)
    symbolic = [pt.as_tensor(value) for value in given]
    answers = TABLES if likelihood.query is None else TABLES @ likelihood.query.T
    for own in answers:
        expected = likelihood.log_table(y, own, *given)
        found = likelihood.log_table(pt.as_tensor(y), pt.as_tensor(own), *symbolic).eval()
        assert found == pytest.approx(float(expected), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in ("answers", "projected answers")])
def test_weights_of_cells_sum_to_the_weight_of_the_table(name):
    """The sum of the weights of single cells equals the weight of the table; norms do not have such weights."""
    _, _, likelihood, y = stated(name)
    if likelihood.norm is not None:
        assert name in ("extended", "correlated", "k-norm")
        return
    given, counts = auxiliary(likelihood), np.tile(np.arange(13), (4, 1))
    weights = likelihood.log_counts(y, counts, *given)
    assert weights.shape == counts.shape
    for x in TABLES:
        added = weights[np.arange(4), x].sum() - likelihood.log_prior_in_weights(*given)
        assert added == pytest.approx(likelihood.log_table(y, x, *given), abs=1e-12, nan_ok=True)
    if likelihood.is_fixed_by_cell:
        np.testing.assert_array_equal(likelihood.log_cells(y[:, None], counts), weights)


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in ("projected answers", "nothing")])
def test_densities_agree_up_to_a_constant(name):
    """The likelihood equals the mechanism's density up to one constant.

    The factor of the whole table is included, and the auxiliary variable is integrated out. For l2 noise the normaliser
    of the table is not part of the likelihood, because the exchange step of the sampler accounts for it.
    """
    settled, system, likelihood, y = stated(name)
    tables = TABLES if likelihood.query is None else TABLES @ likelihood.query.T
    found = []
    for x in tables:
        if likelihood.auxiliary is None:
            one = likelihood.log_table(y, x)
        elif isinstance(likelihood.auxiliary, MixingScale):
            one = np.log(
                integrate.quad(lambda v, x=x: np.exp(likelihood.log_table(y, x, v) - v * v / 2), 0, 60, limit=200)[0]
            )
        else:
            kinks = sorted(x - y)
            one = np.log(
                integrate.quad(
                    lambda t, x=x: np.exp(likelihood.log_table(y, x, np.array([t])) - abs(t)),
                    -60,
                    60,
                    limit=500,
                    points=[0.0, *kinks],
                )[0]
            )
        found.append(one + likelihood.log_of_table(x))
    density = settled.log_unnormalised if isinstance(likelihood.auxiliary, MixingScale) else settled.log_weight
    expected = np.array([density(system, y, x) for x in tables])
    possible = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(found), possible)
    off = np.array(found)[possible] - expected[possible]
    np.testing.assert_allclose(off, off[0], atol=1e-7)


@pytest.mark.parametrize("name", MECHANISMS)
def test_likelihoods_can_be_pickled(name):
    _, _, likelihood, y = stated(name)
    again, given = pickle.loads(pickle.dumps(likelihood)), auxiliary(likelihood)
    answers = X if likelihood.query is None else likelihood.query @ X
    assert again.log_table(y, answers, *given) == likelihood.log_table(y, answers, *given)
    assert again.support_radius == likelihood.support_radius


def test_mechanisms_with_auxiliary_variables():
    kinds = {name: type(stated(name)[2].auxiliary) for name in MECHANISMS}
    of = lambda kind: {name for name, found in kinds.items() if found is kind}  # noqa: E731
    assert of(MixingScale) == {"l2", "wasserstein, l2"}
    assert of(RemovedShift) == {"subspace laplace", "projected answers"}


REFUSED = {
    "post-processed": (
        lambda: ppd.Release(X, ppd.PostProcessed(total(), 1)),
        "intractable: use the noisy table",
    ),
    "records": (
        lambda: ppd.KNormGradient(Mean(bound=1), epsilon=1).release(np.array([[0.1], [0.4]])),
        r"use log_density\(y, data\)",
    ),
    "own loss": (
        lambda: ppd.WassersteinExponential(BOUNDED, 1, 2, "x", loss=lambda y, x: np.abs(y - x).max()).release(X),
        "not a sum over the cells",
    ),
    "many dimensions": (
        lambda: ppd.Release(np.arange(12.0), ppd.KNorm(margin("dim_0") & margin("dim_1"), 1).on(BOX), public=BOX),
        "a linear program for every table",
    ),
    "no end": (lambda: ppd.Suppression(total()).release(X), "do not bound every cell"),
}
BOX = (margin("dim_0") & margin("dim_1")).on(np.ones((4, 5), dtype=int))


@pytest.mark.parametrize("name", REFUSED)
def test_missing_likelihoods_raise(name):
    make, message = REFUSED[name]
    if name == "many dimensions":
        settled = ppd.KNorm(margin("dim_0") & margin("dim_1"), 1)
        assert settled.likelihood(BOX) is None
        with pytest.raises(ModelError, match=message):
            settled.require_likelihood(BOX)
        return
    with pytest.raises(ModelError, match=message):
        make().likelihood  # noqa: B018


def test_normalisers_are_of_three_kinds():
    kinds = {name: stated(name)[2].normaliser for name in MECHANISMS}
    assert {name for name, kind in kinds.items() if kind is not None} == {"staircase", "bounded", "wasserstein, l2"}
    assert {name for name, kind in kinds.items() if kind is not None and kind.log is None} == {"wasserstein, l2"}
