"""Parts of models of label effects: adjacencies in all forms, and whitening against explicit matrices."""

import numpy as np
import pandas as pd
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.sparse as sp

from ppdinf.errors import LabelError, ModelError
from ppdinf.models.neighbours import adjacency_edges, path_edges
from ppdinf.models.whitening import NormalData, in_graph, transform, transform_gradient, whitening_transform

LABELS = np.array(["a", "b", "c", "d"])
EDGES = [[0, 1], [0, 2], [1, 2]]  # d is an island
NEAR = {"c": ["b", "a"], "a": ["b", "c"], "b": ("a", "c"), "d": []}
MATRIX = np.array([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
ORDER = [2, 0, 3, 1]
FORMS = {
    "mapping": NEAR,
    "edges": pd.DataFrame({"from": ["a", "c", "b"], "to": ["b", "a", "c"]}),
    "edges stated twice": pd.DataFrame([("a", "b"), ("b", "a"), ("c", "b"), ("a", "c")]),
    "matrix with labels": pd.DataFrame(MATRIX, LABELS, LABELS).iloc[ORDER, ORDER[::-1]],
    "sparse": sp.csr_matrix(MATRIX),
    "sparse with a stored zero": sp.coo_array(([1, 1, 1, 1, 1, 1, 0], ([0, 0, 1, 1, 2, 2, 3], [1, 2, 0, 2, 0, 1, 3]))),
    "array": MATRIX,
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_give_the_same_edges(form):
    assert adjacency_edges(FORMS[form], LABELS, "x").tolist() == EDGES


def test_paths_and_integers():
    assert path_edges(3).tolist() == [[0, 1], [1, 2]]
    assert path_edges(1).shape == (0, 2)
    assert adjacency_edges({7: [], 3: []}, np.array([3, 7]), "x").shape == (0, 2)
    assert adjacency_edges(pd.DataFrame({"a": [7], "b": [3]}), np.array([3, 7]), "x").tolist() == [[0, 1]]
    assert adjacency_edges(pd.DataFrame([(3, 7), (9, 7)]), np.array([3, 7, 9]), "x").tolist() == [[0, 1], [1, 2]]
    assert adjacency_edges(pd.DataFrame([(0, 1), (2, 1)]), np.array([0, 1, 2]), "x").tolist() == [[0, 1], [1, 2]]


ONE_WAY = MATRIX.copy()
ONE_WAY[0, 2] = 0
REFUSED = [
    (NEAR | {"d": ["e"]}, LabelError, "'x' has no label 'e'"),
    (NEAR | {"e": ["a"]}, LabelError, "no label 'e'"),
    (NEAR | {"e": []}, LabelError, "no label 'e'"),
    ({k: v for k, v in NEAR.items() if k != "d"}, LabelError, "no entry for 'd'; an island has an empty list"),
    (NEAR | {"d": ["a"]}, ModelError, "symmetric: 'a' is a neighbour of 'd', not the reverse"),
    (NEAR | {"d": ["d"]}, ModelError, "'d' is its own neighbour"),
    (NEAR | {"d": "a"}, ModelError, "must be a list, found 'a'"),
    (pd.DataFrame([("a", "a")]), ModelError, "'a' is its own neighbour"),
    (pd.DataFrame([("a", "z")]), LabelError, "no label 'z'"),
    (pd.DataFrame([("a", "b", 1.0)]), ModelError, "2 columns, found 3"),
    (FORMS["matrix with labels"].drop(index="d", columns="d"), LabelError, "no row for 'd'"),
    (ONE_WAY, ModelError, "symmetric: 'a' is a neighbour of 'c'"),
    (sp.csr_array(ONE_WAY), ModelError, "symmetric"),
    (2 * MATRIX, ModelError, "0 or 1, found 2"),
    (MATRIX[:3, :3], ModelError, r"shape \(4, 4\), found \(3, 3\)"),
    ("a-b", ModelError, "a DataFrame or a matrix, found str"),
]


@pytest.mark.parametrize(("adjacency", "error", "message"), REFUSED)
def test_contradictory_adjacencies_are_refused(adjacency, error, message):
    with pytest.raises(error, match=message):
        adjacency_edges(adjacency, LABELS, "x")


GROUP = np.array([0, 1, 0, 2, 1, 0, 1, 2, 0, 3])
N, GROUPS = GROUP.size, 4
BY_GROUP = np.argsort(GROUP, kind="stable")
START = np.searchsorted(GROUP[BY_GROUP], np.arange(GROUPS + 1))
TOLD = {
    "much": (3.0, 2.0),
    "of averages alone": (0.0, 2.0),
    "of single ones alone": (3.0, 0.0),
    "nothing": (0.0, 0.0),
    "of some groups": (np.where(GROUP == 1, 0.0, 3.0), np.array([0.0, 1.0, 2.0, 5.0])),
    "next to everything": (1e9, 1e7),
}


def problem(case, seed=1):
    """Return a normal likelihood, in the order of labels, and a point: spread, means, whitened variables."""
    rng = np.random.default_rng(seed)
    of_each, of_groups = TOLD[case]
    information, precision, share = of_each * rng.random(N), of_groups * rng.random(GROUPS), rng.random(N)
    share /= np.bincount(GROUP, share)[GROUP]
    fitted, near, mean, moved = rng.normal(size=(4, N))
    told = {"fitted": fitted, "near": near, "information": information, "share": share}
    known = NormalData(BY_GROUP, START, *(x[BY_GROUP] for x in told.values()), rng.normal(size=GROUPS), precision)
    return told, known, (0.7, mean, moved)


def posterior(told, known, spread, mean):
    """Return mean and covariance of normal variables given a normal likelihood, by matrices."""
    H, right = np.zeros((N, N)), np.zeros(N)
    k, w = told["information"], told["share"]
    for g in range(GROUPS):
        i = np.flatnonzero(g == GROUP)
        K = np.diag(k[i]) - (np.outer(k[i], k[i]) / k[i].sum() if k[i].sum() > 0 else 0)
        average = known.average[g] - w[i] @ (mean - told["fitted"])[i]
        right[i] = K @ (told["near"] - mean)[i] + known.precision[g] * w[i] * average
        H[np.ix_(i, i)] = K + known.precision[g] * np.outer(w[i], w[i])
    covariance = np.linalg.inv(H + np.eye(N) / spread**2)
    return mean + covariance @ right, covariance


def forwards(known, spread, mean, moved):
    out = np.empty(N)
    return out, transform(known, spread, mean, moved, False, out)


@pytest.mark.parametrize("case", TOLD)
def test_variables_have_the_posterior_mean_and_covariance(case):
    told, known, (spread, mean, moved) = problem(case)
    at_zero, log_det = forwards(known, spread, mean, np.zeros(N))
    factor = np.array([forwards(known, spread, mean, e)[0] - at_zero for e in np.eye(N)]).T
    expected, covariance = posterior(told, known, spread, mean)
    np.testing.assert_allclose(factor @ factor.T, covariance, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(at_zero, expected, rtol=1e-7)
    assert log_det == pytest.approx(np.linalg.slogdet(covariance)[1] / 2, rel=1e-9)
    variables, _ = forwards(known, spread, mean, moved)
    np.testing.assert_allclose(variables, at_zero + factor @ moved, rtol=1e-9)
    back = np.empty(N)
    assert transform(known, spread, mean, variables, True, back) == log_det
    np.testing.assert_allclose(back, moved, rtol=1e-6)
    other = known._replace(precision=known.precision + 0.01, information=known.information * 1.01)
    assert abs(transform(other, spread, mean, moved, False, back) - log_det) > 1e-4, "the likelihood is used"


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("case", list(TOLD)[:-1])
@pytest.mark.parametrize("spread", [0.05, 0.7, 20.0])
def test_gradients_are_those_of_differences(case, spread):
    _, known, (_, mean, moved) = problem(case, seed=2)
    weight = np.random.default_rng(3).normal(size=N)

    def number(spread, mean, moved):
        out, log_det = forwards(known, spread, mean, moved)
        return weight @ out + 0.37 * log_det

    of_moved, of_mean, step = np.empty(N), np.empty(N), 1e-5
    of_spread = transform_gradient(known, spread, mean, moved, weight, 0.37, of_moved, of_mean)
    here = [number(spread, mean, moved + step * e) - number(spread, mean, moved - step * e) for e in np.eye(N)]
    np.testing.assert_allclose(of_moved, np.array(here) / (2 * step), rtol=1e-6, atol=1e-6)
    here = [number(spread, mean + step * e, moved) - number(spread, mean - step * e, moved) for e in np.eye(N)]
    np.testing.assert_allclose(of_mean, np.array(here) / (2 * step), rtol=1e-6, atol=1e-6)
    up, down = (number(spread * (1 + sign * step), mean, moved) for sign in (1, -1))
    expected = (up - down) / (2 * step * spread)
    assert of_spread == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert of_spread != pytest.approx(expected + 0.01 / spread, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("mode", ["NUMBA", "FAST_COMPILE"])
def test_in_a_graph(mode):
    _, known, (spread, mean, moved) = problem("much")
    inputs = [pt.dscalar("spread"), pt.dvector("mean"), pt.dvector("moved")]
    variables, log_det = whitening_transform(in_graph(known), *inputs)
    back, same = whitening_transform(in_graph(known), inputs[0], inputs[1], variables, inverse=True)
    every = [variables, log_det, back, same, *pytensor.grad(pt.sum(variables**2) + log_det, inputs)]
    found = pytensor.function(inputs, every, mode=mode)(spread, mean, np.repeat(moved, 2)[::2])
    expected, of_log_det = forwards(known, spread, mean, moved)
    np.testing.assert_allclose(found[0], expected)
    assert found[1] == found[3] == pytest.approx(of_log_det)
    np.testing.assert_allclose(found[2], moved)
    of_moved, of_mean = np.empty(N), np.empty(N)
    of_spread = transform_gradient(known, spread, mean, moved, 2 * expected, 1.0, of_moved, of_mean)
    np.testing.assert_allclose(np.concatenate([[found[4]], *found[5:]]), [of_spread, *of_mean, *of_moved])
    alone = pytensor.function(inputs, pytensor.grad(log_det, inputs[0]), mode=mode, on_unused_input="ignore")
    assert alone(spread, mean, moved) == pytest.approx(
        transform_gradient(known, spread, mean, moved, np.zeros(N), 1.0, of_moved, of_mean)
    )
    with pytest.raises(ModelError, match="must have the same length"):
        pytensor.function(inputs, variables, mode=mode)(spread, mean, moved[1:])
    with pytest.raises(ModelError, match="the spread a scalar"):
        whitening_transform(in_graph(known), inputs[1], inputs[1], inputs[2])
