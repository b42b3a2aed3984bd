"""Spectrum of an intrinsic autoregression (ICAR) on a graph, scaled to unit typical variance.

The precision matrix Q of an ICAR effect is the Laplacian of the graph: degrees on the diagonal, -1 for neighbours. Its
pseudo-inverse is the covariance of an effect that sums to zero in every connected component. Each component is scaled
so that the geometric mean of its marginal variances is 1. A label without neighbours gets variance 1.

References
----------
S. H. Soerbye, H. Rue, "Scaling intrinsic Gaussian Markov random field priors in spatial modelling", Spatial Statistics
8 (2014), 39-51, section 3. A. Freni-Sterrantino, M. Ventrucci, H. Rue, "A note on intrinsic conditional autoregressive
models for disconnected graphs", Spatial and Spatio-temporal Epidemiology 26 (2018), 25-34, section 3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, laplacian


class Spectrum(NamedTuple):
    """Covariance ``vectors @ diag(variances) @ vectors.T``; ``vectors`` are orthonormal, (n, n)."""

    vectors: NDArray[np.float64]
    variances: NDArray[np.float64]


def scaled_icar(edges: NDArray[np.int64], n: int) -> Spectrum:
    """Return the spectrum of the covariance of a scaled ICAR effect."""
    ones = np.ones(len(edges))
    graph = sp.coo_array((ones, tuple(edges.T)), shape=(n, n)).tocsr()
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
