"""What one person can change in answers under public sums, by dense linear algebra."""

import numpy as np
import xarray as xr


def bound(public, table, query):
    return public.on(xr.DataArray(query @ np.ravel(table), dims="answer") if query is not None else table)


def dense_moves(system, query, neighbours):
    """Moves of one person in the null space, by dense linear algebra."""
    A = system.A.toarray().astype(float)
    W = np.eye(A.shape[1]) if query is None else np.asarray(query, dtype=float)
    seen = W - np.linalg.pinv(A) @ (A @ W)
    if neighbours == "added":
        return seen
    return (seen[:, :, None] - seen[:, None, :]).reshape(len(W), -1)
