"""Neighbours of labels: edges of an adjacency, and the spectrum of an intrinsic autoregression (ICAR) on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, laplacian

from ppdinf._internal.values import Array, Integers, Reals
from ppdinf.errors import LabelError, ModelError

type Adjacency = Mapping[Any, Iterable[Any]] | pd.DataFrame | sp.sparray | sp.spmatrix | Array
"""Neighbours of each label, a frame of edges, or a matrix."""


def path_edges(n: int) -> Integers:
    """Return edges between consecutive numbers, shape (n - 1, 2)."""
    return np.column_stack([np.arange(n - 1), np.arange(1, n)])


def adjacency_edges(adjacency: Adjacency, labels: Array, name: str) -> Integers:
    """Return the edges of an adjacency as pairs of positions in `labels`, each once."""
    known = labels.tolist()
    position = {label: k for k, label in enumerate(known)}

    def at(label: Any) -> int:
        try:
            return position[label]
        except (KeyError, TypeError):
            raise LabelError(f"adjacency: {name!r} has no label {label!r}") from None

    if isinstance(adjacency, pd.DataFrame) and not _is_matrix(adjacency, known):
        if adjacency.shape[1] != 2:
            raise ModelError(
                f"adjacency of {name!r}: a DataFrame of edges must have 2 columns, found {adjacency.shape[1]}; "
                "a matrix must have the same labels as index and columns"
            )
        first, second = (np.array([at(x) for x in adjacency.iloc[:, k]], dtype=np.int64) for k in (0, 1))
        first, second = np.append(first, second), np.append(second, first)  # an edge may be stated once or twice
    elif isinstance(adjacency, Mapping):
        missing = [label for label in position if label not in adjacency]
        if missing:
            raise LabelError(f"adjacency of {name!r}: no entry for {missing[0]!r}; an island has an empty list")
        for label, near in adjacency.items():
            at(label)
            if isinstance(near, str):
                raise ModelError(f"adjacency of {name!r}: the neighbours of {label!r} must be a list, found {near!r}")
        pairs = [(at(label), at(other)) for label, near in adjacency.items() for other in near]
        first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    else:
        first, second = _of_matrix(adjacency, at, known, name)
    n = len(known)
    if (first == second).any():
        raise ModelError(f"adjacency of {name!r}: {known[first[first == second][0]]!r} is its own neighbour")
    one_way = np.setdiff1d(first * n + second, second * n + first)
    if one_way.size:
        a, b = known[one_way[0] // n], known[one_way[0] % n]
        raise ModelError(f"adjacency of {name!r} must be symmetric: {b!r} is a neighbour of {a!r}, not the reverse")
    edges = np.unique(first * n + second)
    return np.column_stack([edges // n, edges % n])[edges // n < edges % n]


def _is_matrix(frame: pd.DataFrame, labels: list[Any]) -> bool:
    """Return whether index and columns of a frame have the same labels; numbered edges may, too."""
    return set(frame.index) == set(frame.columns) and (frame.shape[1] != 2 or set(frame.index) == set(labels))


def _of_matrix(matrix: Any, at: Callable[[Any], int], labels: list[Any], name: str) -> tuple[Integers, Integers]:
    """Return rows and columns of the non-zero entries of a matrix of 0 and 1, as positions of labels."""
    order = np.arange(len(labels))
    if isinstance(matrix, pd.DataFrame):
        order = np.array([at(label) for label in matrix.index], dtype=np.int64)
        missing = np.setdiff1d(np.arange(len(labels)), order)
        if missing.size:
            raise LabelError(f"adjacency of {name!r}: no row for {labels[missing[0]]!r}")
        matrix = matrix[matrix.index].to_numpy()
    elif not (sp.issparse(matrix) or isinstance(matrix, np.ndarray)):
        raise ModelError(
            f"adjacency of {name!r} must be a mapping of labels to neighbours, a DataFrame or a matrix, found "
            f"{type(matrix).__name__}"
        )
    if matrix.shape != (len(labels), len(labels)):
        raise ModelError(
            f"adjacency of {name!r}: a matrix must have shape {(len(labels), len(labels))}, found {matrix.shape}"
        )
    entries = sp.coo_array(matrix)
    entries.sum_duplicates()
    entries.eliminate_zeros()
    if not (entries.data == 1).all():
        raise ModelError(f"adjacency of {name!r}: entries must be 0 or 1, found {entries.data[entries.data != 1][0]}")
    return order[entries.row], order[entries.col]


class Spectrum(NamedTuple):
    """Covariance ``vectors @ diag(variances) @ vectors.T``; ``vectors`` are orthonormal, (n, n)."""

    vectors: Reals
    variances: Reals


def scaled_icar(edges: Integers, n: int) -> Spectrum:
    """Return the spectrum of the covariance of a scaled ICAR effect."""
    graph = sp.coo_array((np.ones(len(edges)), tuple(edges.T)), shape=(n, n)).tocsr()
    _, component = connected_components(graph, directed=False)
    Q = laplacian(graph + graph.T).tocsr()
    vectors, variances = np.zeros((n, n)), np.ones(n)
    column = 0
    for number in range(component.max() + 1):
        members = np.flatnonzero(component == number)
        columns = np.arange(column, column + members.size)
        column += members.size
        if members.size == 1:
            vectors[members, columns] = 1
            continue
        eigenvalues, basis = np.linalg.eigh(Q[members][:, members].toarray())
        inverse = np.concatenate([[0.0], 1 / eigenvalues[1:]])  # the constant vector of a component has eigenvalue 0
        vectors[np.ix_(members, columns)] = basis
        variances[columns] = inverse / np.exp(np.log(basis**2 @ inverse).mean())
    return Spectrum(vectors, variances)
