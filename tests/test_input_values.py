"""Parameters are exact rationals or refused, and arrays with masks or missing values are refused everywhere."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ppdinf as ppd
from ppdinf import counts, privacy
from ppdinf.errors import PpdinfError, PrivacyError
from ppdinf.laws import DiscreteGaussian
from ppdinf.mechanisms import DirichletMultinomial, KNormGradient, Mean, Quantile, Transition
from ppdinf.mechanisms.postprocessing.projection import onto_sums
from ppdinf.privacy import as_fraction


@pytest.mark.parametrize(("value", "exact"), [
    (1, Fraction(1)), (np.int64(3), Fraction(3)), (0.1, Fraction(1, 10)), (0.192, Fraction(24, 125)),
    (1e-7, Fraction(1, 10**7)), (np.float64(0.192), Fraction(24, 125)), (np.float32(0.1), Fraction(1, 10)),
    (np.float16(0.1), Fraction(1, 10)), (Decimal("0.1"), Fraction(1, 10)), (Fraction(2, 3), Fraction(2, 3)),
    ("1/4", Fraction(1, 4)), (" 0.192 ", Fraction(24, 125)), (".5", Fraction(1, 2)), ("2.5e-3", Fraction(1, 400)),
    ("003/012", Fraction(1, 4)),
])  # fmt: skip
def test_reads_exact_rationals(value, exact):
    found = as_fraction(value, "epsilon")
    assert found == exact
    assert type(found.numerator) is type(found.denominator) is int  # not NumPy's, which overflow


@given(st.floats(1e-12, 1e6))
def test_a_float_is_its_shortest_decimal(value):
    assert as_fraction(value, "epsilon") == Fraction(repr(value))


@pytest.mark.parametrize(("value", "message"), [
    (0, "epsilon must be positive, found 0"), (-1, "epsilon must be positive, found -1"), ("-1/2", "positive"),
    (-0.0, "positive"), (float("nan"), "finite"), (float("inf"), "finite"), (-float("inf"), "finite"),
    (Decimal("NaN"), "finite"), (True, "found bool"), (np.True_, "found bool"), (None, "found NoneType"),
    (1j, "found complex"), ([1], "found list"), (np.array(0.5), "found ndarray"), ("", "finite number"),
    ("one", "finite number"), ("1/0", "finite number"), ("1/", "finite number"), ("1 / 4", "finite number"),
    ("1_000", "finite number"),
    ("١", "finite number"),  # digits of another script
    ("1" * 40, "between 1e-12 and 1e6"),
    ("1e9999999999", "finite number"),  # a billion digits, were it expanded
    (Decimal("1e999999"), "finite number"), ("1e400", "between 1e-12 and 1e6"), (10**400, "between 1e-12 and 1e6"),
    ("1e-400", "between 1e-12 and 1e6"), (1e300, "between 1e-12 and 1e6"), (5e-324, "between 1e-12 and 1e6"),
    (10**6 + 1, "between 1e-12 and 1e6"),  # the edges themselves are taken: see below
    (Fraction(1, 10**12 + 1), "between 1e-12 and 1e6"),
])  # fmt: skip
def test_refuses_invalid_privacy_parameters(value, message):
    with pytest.raises(PrivacyError, match=message) as caught:
        as_fraction(value, "epsilon")
    assert len(str(caught.value)) < 200
    assert [as_fraction(edge, "epsilon") for edge in (10**6, "1e-12")] == [10**6, Fraction(1, 10**12)]


def test_squares_have_the_square_of_the_range():
    """A variance is accepted if its root is accepted."""
    for sigma in (3000.0, "1e6", "1e-12", 7):
        assert DiscreteGaussian(sigma) == DiscreteGaussian(variance=DiscreteGaussian(sigma).variance)
    assert DiscreteGaussian(variance=9e6) == DiscreteGaussian(3000.0)
    for variance in ("1.1e12", "9e-25"):
        with pytest.raises(PrivacyError, match="variance must be between 1e-24 and 1e12"):
            DiscreteGaussian(variance=variance)


inv = ppd.invariants
THREE = [0.25, 0.25, 0.5]
GOOD = {
    "release": (lambda x: ppd.GeneralizedLaplace(inv.total(), 1).release(x), [3, 1, 2]),
    "simulate": (lambda x: ppd.GeneralizedLaplace(inv.total(), 1).simulate(x, draws=2, rng=1), [3, 1, 2]),
    "real noise": (lambda x: ppd.SubspaceGaussian(inv.total(), 1, "1e-3").release(x), [3, 1, 2]),
    "suppression": (lambda x: ppd.Suppression(inv.total()).release(x), [3, 1, 2]),
    "post-processed": (lambda x: ppd.PostProcessed(inv.total(), 1).release(x), [3, 1, 2]),
    "logp": (lambda x: ppd.GeneralizedLaplace(inv.total(), 1).logp(x, [1, 3, 2]), [3, 1, 2]),
    "bound": (lambda x: inv.total().on(x), [3, 1, 2]),
    "quantile": (lambda x: KNormGradient(Quantile(0.5, 0, 1), 1).release(x), [0.1, 0.2, 0.9]),
    "mean": (lambda x: KNormGradient(Mean(1), 1).release(x), [0.1, 0.2, 0.9]),
    "simulated mean": (lambda x: KNormGradient(Mean(1), 1).simulate(x, draws=2, rng=1), [0.1, 0.2, 0.9]),
    "density": (lambda x: KNormGradient(Mean(1), 1).log_density(x, np.ones((4, 3)) / 4), [0.1, 0.2, 0.9]),
    "subspace": (lambda x: KNormGradient(Mean(1), 1, subspace=[[v] for v in x], known="a"), [1.0, 2.0, 3.0]),
    "dirichlet": (DirichletMultinomial, [3, 1, 2]),
    "transition": (lambda x: Transition([x, x]), THREE),
    "law": (lambda x: ppd.laws.TransitionMatrix([x, x]), THREE),
    "heuristic": (lambda x: counts.heuristic(x, 1), THREE),
    "optimal": (lambda x: counts.optimal(x, 1), THREE),
    "weights": (lambda x: counts.optimal(THREE, 1, weights=[x, x, x]), [1.0, 2.0, 3.0]),
    "draws": (lambda x: counts.truncated_geometric(5, 1).simulate(x, rng=1), [3, 1, 2]),
    "histogram": (lambda x: counts.histogram(x, 5), [3, 1, 2]),
    "distribution": (counts.to_distribution, [3.0, 1.0, 2.0]),
    "two stages": (lambda x: counts.TwoStage(1, n=5).release(x), [3, 1, 2]),
    "query": (lambda x: ppd.KNorm(inv.total(), 1, query=[x, x]), [3, 1, 2]),
    "sensitivity": (lambda x: privacy.sensitivity([x], p=1), [3.0, 1.0, 2.0]),
    "polytope": (lambda x: privacy.sensitivity_polytope([x]), [3.0, 1.0, 2.0]),
    "covariance": (lambda x: privacy.delta_z_normal([x, [1, 9, 0], [1, 0, 9]], width=1), [9.0, 1.0, 1.0]),
    "prior": (lambda x: privacy.posterior_range(x, 1), THREE),
    "linear": (lambda x: inv.linear([x]), [3, 1, 2]),
    "projection": (lambda x: onto_sums(x, np.ones((1, 3)), [6]), [3.0, 1.0, 2.0]),
    "scales": (lambda x: ppd.laws.Gaussian(x), [3.0, 1.0, 2.0]),
}
MISSING = ("nan", "object", "NA", "list with a masked entry")
# an array of laws has no law at missing entries; the base measure of a cell without an earlier count is constant
MISSING_IS_ALLOWED = {"scales": MISSING, "dirichlet": ("object",)}


def bad(good):
    """Wrong forms of an array of three numbers."""
    x = np.array(good)
    yield "masked", np.ma.masked_array(x, [0, 0, 1])
    yield "list with a masked entry", [*good[:2], np.ma.masked]
    yield "nan", [*good[:2], np.nan]
    yield "object", np.array([*good[:2], None], dtype=object)
    yield "complex", x + 0j
    yield "bool", np.array([True, False, True])
    yield "text", [str(value) for value in good]
    yield "NA", pd.array([*good[:2], pd.NA], dtype="Int64" if x.dtype.kind == "i" else "Float64")
    yield "infinite", [*good[:2], np.inf]


@pytest.mark.parametrize("name", GOOD)
def test_arrays_that_are_not_numbers_are_refused(name):
    call, good = GOOD[name]
    call(np.array(good))
    for kind, values in bad(good):
        if kind in MISSING_IS_ALLOWED.get(name, ()):
            continue
        with pytest.raises(PpdinfError):
            raise AssertionError(name, kind, call(values))


def test_a_masked_record_is_not_used():
    with pytest.raises(PpdinfError, match="must not be masked"):
        KNormGradient(Quantile(0.5, 0, 1), 1).release(np.ma.masked_array([0.1, 0.2, 0.9], [0, 0, 1]))


def test_rows_of_a_matrix_with_rounding_errors_are_divided_by_their_sums():
    """The guarantee is the log ratio of the probabilities that are drawn."""
    matrix = np.array([[0.5, 0.5], [0.25, 0.75]]) * np.array([[1 + 9e-10], [1 - 9e-10]])
    found = Transition(matrix)
    assert found.probabilities.sum(axis=1) == pytest.approx([1, 1], abs=1e-15)
    assert float(found.guarantee.epsilon) >= np.log(2)
    assert np.array_equal(Transition(found.matrix.tolist()).matrix, found.matrix)
