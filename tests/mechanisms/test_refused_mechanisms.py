"""What mechanisms refuse: typed errors that state a remedy and show no count."""

import math

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import sparse

import ppdinf as ppd
from ppdinf import mechanisms
from ppdinf.counts import TwoStage
from ppdinf.errors import CountError, InvariantError, LabelError, ModelError, PpdinfError, PrivacyError
from ppdinf.invariants import Public, cells, hierarchy, inequality, linear, margin, nonnegative, total
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
    PermutationSwapping,
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
from ppdinf.mechanisms.postprocessing import projection

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
    "PermutationSwapping": lambda rate: PermutationSwapping("area", "age", rate),
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


@pytest.mark.parametrize("value", [-0.1, 0, 1, 2, math.nan, math.inf, "some", True, None], ids=repr)
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


def subspace(**more):
    return SubspaceGaussian(total(), 1, "1e-6", **more)


def wasserstein(public=None, table=None, base=None, **more):
    """Return a mechanism, or its release of a table."""
    made = WassersteinExponential(total() if public is None else public, 1, 2, "x", base, **more)
    return made if table is None else made.release(table)


def gradient(**more):
    return KNormGradient(Mean(1), 1, **more)


TWO = DirichletMultinomial([1, 2])
TRIPLES = ppd.Transition(np.eye(3) / 2 + 1 / 6)
SKEWED = [[0.5, 0.5], [0.5, 0.4]]
MARGINS = margin("dim_0") & margin("dim_1")
BOX = MARGINS.on(np.ones((4, 5), dtype=int))
THREE_WAYS, NO_ROWS = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]), sparse.csr_array((0, 3), dtype=int)
SWAPPED = PermutationSwapping("dim_0", "dim_1", "1/2")
LINE = {"subspace": [[1], [2]], "known": "x"}
KNOWN = {"known": "x"}
CHOICES = [
    (lambda: GeneralizedLaplace(total(), 1, norm="l3"), PrivacyError, "norm must be"),
    (lambda: GeneralizedLaplace(total(), 1, 2), PrivacyError, "norm must be"),
    (lambda: GeneralizedGaussian(total(), 1, "1e-6", calibration="best"), PrivacyError, "calibration must be one of"),
    (lambda: GeneralizedGaussian(total()), PrivacyError, "no privacy loss is given"),
    (lambda: GeneralizedGaussian(total(), 1, "1e-6", rho=1), PrivacyError, "no privacy loss is given"),
    (lambda: subspace(method="extented"), PrivacyError, "method must be one of"),
    (lambda: subspace(calibration="best"), PrivacyError, "calibration must be 'analytic' or"),
    (lambda: SubspaceGaussian(total(), 5, "1e-9", "projected", "printed"), PrivacyError, "printed"),
    (lambda: SubspaceLaplace(total(), 1, method="none"), PrivacyError, "method must be one of"),
    *((lambda make=make, value=value: make(neighbours=value), PrivacyError, "neighbours must be one of")
      for make in (subspace, lambda **k: SubspaceLaplace(total(), 1, **k), lambda **k: KNorm(total(), 1, **k))
      for value in ("exchanged", None)),
    *((lambda query=query: subspace(query=query), PrivacyError, "query") for query in (
        "answers", [1, 2], [[0.5, 1, 1]], [[-1, 1]], [[1], [1, 2]], [[2**60]],
    )),
    (lambda: KNorm(total(), 1, neighbours="swapped", query=[[1, 1]]), PrivacyError, "give no query"),
    (lambda: SubspaceLaplace(total(), 1, neighbours="swapped"), PrivacyError, "neighbours must be one of"),
    (lambda: KNorm(linear([[1, 1, 0, 0], [0, 0, 1, 1]]), 4, neighbours="added", grid=1).release([5] * 4), PrivacyError,
     "a grid of 1 is too coarse"),
    (lambda: SubspaceGaussian(total(), 5, "0.1", grid=1).release([5, 2, 1]), PrivacyError, "a grid of 1 is too coarse"),
    (lambda: SubspaceLaplace(Public(), 1, query=[[1, 2**19]]).simulate([1, 2, 3], draws=1), InvariantError,
     "2 columns, the table has 3 cells"),
    (lambda: SubspaceLaplace(Public(), 1, query=[[1, 2**19]]).simulate([1, 2**40], draws=1), CountError,
     "an answer exceeds"),
    (lambda: CorrelatedGaussian(total(), 1, "1e-6").simulate(np.ones(800, dtype=int), draws=1), PrivacyError,
     "too many to enumerate"),
    (lambda: SubspaceLaplace(MARGINS, 1).logp(np.ones((3, 3)), np.ones((3, 3), dtype=int)), ModelError,
     "no density in closed form"),
    *((lambda y=y: subspace().logp(y, [1, 2, 3]), error, None) for y, error in (
        ([1.0, math.nan, 3.0], CountError), ([1.0, 2.0], LabelError), (["a", "b", "c"], CountError),
        (xr.DataArray([1.0, 2.0, 3.0], dims="county"), LabelError),
    )),
    (lambda: PostProcessed(total(), 1, method="guess"), PrivacyError, "method must be one of"),
    (lambda: PostProcessed(total(), 0), PrivacyError, "epsilon must be positive"),
    (lambda: PostProcessed("total", 1), InvariantError, "first argument"),
    (lambda: PostProcessed(total(), 1).release([1, -2]), CountError, "negative"),
    (lambda: PostProcessed(total(), 1).release(county(COUNTS).assign_coords(state=("county", list("AAB")))), LabelError,
     "nothing declares the coordinates 'state'"),
    *((lambda shares=shares: TopDown(total(), 1, hierarchy("state"), shares), PrivacyError, "3 numbers that sum to 1")
      for shares in (["1/2", "1/2"], ["1/2", "1/2", "1/2"])),
    (lambda: TopDown(total(), 1, Public()), InvariantError, "levels must state the sums"),
    (lambda: TopDown(total(), 1, nonnegative()).simulate([1, 2], draws=1), InvariantError, "is not a level"),
    # projections and roundings without a result; the last two are halves on a cube with integer sums of two dimensions
    (lambda: projection.onto_sums([1, 2], [[1, 1], [1, 1]], [3, 4]), InvariantError, "contradict"),
    (lambda: projection.onto_bounds([1, 2], [[1, 1]], [-1], np.eye(2), np.zeros(2)), InvariantError,
     "all public sums and bounds"),
    (lambda: projection.onto_simplices([1, 2], [0, 0], [-1]), InvariantError, "group 0 of 2 non-negative cells"),
    (lambda: projection.onto_sums([1, 2], [[1, 1]], [3], weights=[1, -1]), InvariantError,
     "weights must be 2 non-negative numbers"),
    (lambda: projection.controlled_rounding([0.5] * 3, THREE_WAYS), InvariantError, "no rounding changes every cell"),
    (lambda: projection.round_to_sums([0.5] * 3, sparse.csr_array(THREE_WAYS), [1] * 3, NO_ROWS, []), InvariantError,
     "no integer table"),
    (lambda: TopDown(total(), 1, levels=[]), PpdinfError, "levels"),
    (lambda: TopDown(total(), 1, levels=total(), shares=[1, 1]), PpdinfError, "shares"),
    *((lambda noise=noise: Conditioned(total(), noise=noise), PrivacyError, "noise must be a distribution of single")
      for noise in (None, {"name": "other"}, GeneralizedLaplace(total(), 1))),
    (lambda: Conditioned(DoubleGeometric(1), total()), PrivacyError, r"first argument: Conditioned\(public, noise="),
    *((lambda bounds=bounds: Conditioned(total() & bounds, noise=DiscreteGaussian(1)), PrivacyError, "no known guar")
      for bounds in (nonnegative(), inequality([[1, 0, 0]], [0]))),
    (lambda: DiscreteGaussian("x"), PrivacyError, "sigma"),
    *((lambda step=step: Staircase(1, *step), PrivacyError, "must be integers") for step in ([0], [2, 3], [2.0, 1])),
    (lambda: WassersteinExponential(total(), 1, 1, " "), PrivacyError, "must describe the secret"),
    (lambda: wasserstein(loss="l3"), PrivacyError, "loss must be 'l1', 'l2' or a function of two tables"),
    *((lambda base=base: wasserstein(base=base), PrivacyError, "DirichletMultinomial") for base in ([1], "counting")),
    (lambda: wasserstein(total() & nonnegative(), [1, 2, 3], TWO), CountError, "previous has 2 cells, but .* has 3"),
    (lambda: ppd.Release([1, 2, 3], wasserstein(total() & nonnegative(), base=TWO)), CountError, "has 2 cells, but"),
    (lambda: wasserstein(total(), [1, 2], TWO), PrivacyError, "nonnegative"),
    (lambda: wasserstein(nonnegative(), [1, 2], TWO), PrivacyError, "between"),
    *((lambda loss=loss: wasserstein(total() & nonnegative(), [1, 2], loss=loss), PrivacyError, message)
      for loss, message in (
        (lambda y, x: -1.0, "must be finite and non-negative"), (lambda y, x: math.nan, "must be finite"),
        (lambda y, x: y - x, "must be (one number|finite)"), (lambda y, x: "far", "one number"),
        (lambda y, x: 1.0, "constant between tables"), (lambda y, x: y.sort(), "one number"),
    )),
    (lambda: wasserstein(total() & nonnegative(), [6, 6, 4, 2], loss=lambda y, x: 1.0), InvariantError,
     "more than 1,000"),
    (lambda: ppd.Release([-1, 2, 3], Conditioned(total() & nonnegative(), DoubleGeometric(1))), InvariantError,
     "at least 0"),
    (lambda: DirichletMultinomial([1, -1]), CountError, "non-negative integers"),
    (lambda: DirichletMultinomial([1.5]), CountError, "integers only"),
    (lambda: DirichletMultinomial([]), CountError, "integers only"),
    (lambda: DirichletMultinomial([1], 1, 0), PrivacyError, "pseudo_count"),
    (lambda: ppd.Transition(SKEWED), PrivacyError, "row 1 of matrix is not a probability vector"),
    *((lambda matrix=matrix: ppd.Transition(matrix), PrivacyError, "matrix")
      for matrix in ([0.5, 0.5], [[math.nan, 1]], [[-1, 2]], [["a"]], [[]])),
    (lambda: ppd.Transition(np.full((2, 2), 0.5), total()), InvariantError, "keep no sum"),
    (lambda: TRIPLES.release([3]), CountError, "outside 0 to 2"),
    *((lambda base=base, upper=upper: random_rounding(base, upper), PrivacyError, "base must")
      for base, upper in ((1, 5), (3, 0), (2.5, 5), (True, 4))),
    # before anything is allocated
    *((lambda base=base, upper=upper: random_rounding(base, upper), PrivacyError, "choose a smaller upper")
      for base, upper in ((3, 2**31), (2**62, 40), (7, 10**30))),
    *((lambda draws=draws: GeneralizedLaplace(total(), 1).simulate([3, 1, 2], draws=draws), PrivacyError,
       "draws must be a positive integer") for draws in (0, -1, True, 1.0, "1")),
    (lambda: gradient().simulate([0.5], draws=0), PrivacyError, "draws must be"),
    *((lambda data=data: mechanisms.Mechanism.from_dict(data, total()), PrivacyError, None) for data in (
        None, {}, {"kind": []}, {"kind": "other"}, {"kind": "generalized-laplace", "eps": "1"},
    )),
    (lambda: KNormGradient("mean", 1), PrivacyError, "first argument must be an objective"),
    (lambda: gradient(norm="l3"), PrivacyError, "norm must be one of"),
    (lambda: gradient(delta_z="0.99"), PrivacyError, "delta_z must be at least 1"),
    (lambda: gradient(grid=0.1), PrivacyError, "grid must be a power of two"),
    (lambda: gradient(grid="fine"), PrivacyError, "grid must be a finite number"),
    (lambda: KNormGradient(LogisticRegression(1), 1, grid=1), PrivacyError, "no sampler on a grid"),
    (lambda: gradient(**LINE, grid=1), PrivacyError, "no sampler on a grid"),
    (lambda: gradient(subspace=[[1]]), PrivacyError, "describe it in known"),
    (lambda: gradient(subspace=[1], **KNOWN), PrivacyError, "subspace must be a matrix"),
    (lambda: gradient(subspace=[[math.nan]], **KNOWN), PrivacyError, "subspace must contain finite"),
    (lambda: gradient(subspace=[[0], [0]], **KNOWN), PrivacyError, "contains only 0"),
    (lambda: gradient(**LINE).release([[0, 0, 0.5]]), PrivacyError, "vectors of length 2, answers have length 3"),
    *((lambda ends=ends: Quantile(0.5, *ends), PrivacyError, "upper - lower must be between")
      for ends in ((-1e308, 1e308), (0, 1e-320))),
    (lambda: Quantile(1, 0, 1), PrivacyError, "probability must lie between"),
    (lambda: Quantile(0.5, 1, 1), PrivacyError, "lower must be below upper"),
    (lambda: Quantile(0.5, -math.inf, 1), PrivacyError, "lower must be a finite number"),
    (lambda: LinearRegression(1, features=-1), PrivacyError, "features must be a positive"),
    (lambda: Gradient("f", 1, answers=1, radius=1), PrivacyError, "function must be a gradient"),
    (lambda: Gradient(abs, 0, answers=1, radius=1), PrivacyError, "sensitivity_bound must be a positive"),
    (lambda: Gradient(abs, 1, answers=0, radius=1), PrivacyError, "answers must be a positive integer"),
    (lambda: KNormGradient(LogisticRegression(2), 1).release((np.eye(2), [1, 0])), PrivacyError, "allow the"),
    (lambda: Conditioned(total() & nonnegative(), DoubleGeometric(1)).expected_error((3,)), PrivacyError,
     "may depend on the counts"),
    (lambda: Suppression(total()).expected_error((3,)), PrivacyError, "may depend on the counts"),
    (lambda: PermutationSwapping("a", "a", "1/2"), PrivacyError, "distinct dimensions"),
    (lambda: PermutationSwapping("a", (), "1/2"), PrivacyError, "at least one swapped and one held"),
    (lambda: PermutationSwapping("a", "b", 1), PrivacyError, "0 < rate < 1"),
    *((lambda public=public: PermutationSwapping("a", "b", "1/2", public=public), InvariantError, "does not keep")
      for public in (total(), nonnegative())),
    (lambda: SWAPPED.release(np.ones((2, 2, 2), dtype=int)), InvariantError, "all dimensions"),
    (lambda: SWAPPED.guarantee, PrivacyError, "largest stratum"),
    (lambda: SWAPPED.release([[1, 0], [0, 0]]), InvariantError, "no stratum has two records"),
    (lambda: SWAPPED.logp(*[[[90, 9], [50, 9]]] * 2), ModelError, "at most 150"),
    # likelihoods that are not known
    (lambda: ppd.Release([3, 0, 2], PostProcessed(total(), 1, "l1")).likelihood, ModelError, "use the noisy table"),
    (lambda: gradient().release(np.array([[0.1], [0.4]])).likelihood, ModelError, r"use log_density\(y, data\)"),
    (lambda: KNorm(MARGINS, 1).require_likelihood(BOX), ModelError, "a linear program for every table"),
    (lambda: Suppression(total()).release([3, 0, 2]).likelihood, ModelError, "do not bound every cell"),
    (lambda: wasserstein(total() & nonnegative(), [3, 0, 2], loss=lambda y, x: abs(y - x).max()).likelihood, ModelError,
     "not a sum over the cells"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), CHOICES)
def test_choices(call, error, message):
    with pytest.raises(error, match=message):
        call()


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


@pytest.mark.parametrize("seed", ["seed", "rng", "random_state"])
@pytest.mark.parametrize("name", PUBLIC)
def test_a_release_takes_no_seed(name, seed):
    with pytest.raises(PrivacyError, match=f"takes no '{seed}'.*simulate"):
        PUBLIC[name](total()).release(county(COUNTS), **{seed: 1})
