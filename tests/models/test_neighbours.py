"""Adjacencies in all forms give the same edges; contradictory ones are refused."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from ppdinf.errors import LabelError, ModelError
from ppdinf.models.neighbours import adjacency_edges, path_edges

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
