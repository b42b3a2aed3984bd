"""Arrays with masks, missing values or entries that are not numbers are refused by every function that takes arrays."""

import numpy as np
import pandas as pd
import pytest

import ppdinf as ppd
from ppdinf import counts, privacy
from ppdinf.errors import PpdinfError
from ppdinf.mechanisms import DirichletMultinomial, KNormGradient, Mean, Quantile, Transition
from ppdinf.mechanisms.postprocessing.projection import onto_sums

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
MISSING_IS_ALLOWED = {"scales"}  # an array of laws has no law at entries that are missing


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
    for kind, given in bad(good):
        if name in MISSING_IS_ALLOWED and kind in ("nan", "object", "NA", "list with a masked entry"):
            continue
        with pytest.raises(PpdinfError):
            raise AssertionError(name, kind, call(given))


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
