"""All vectors of integers in a box, and those that satisfy linear conditions."""

import numpy as np


def box(low, high, d):
    """All vectors of d integers from `low` to `high`, one per row, the last changing fastest."""
    axes = np.meshgrid(*[np.arange(low, high + 1)] * d, indexing="ij")
    return np.stack(axes, axis=-1).reshape(-1, d) if d else np.zeros((1, 0), dtype=np.int64)


def tables(low, high, A=(), a=(), B=(), b=()):
    """Return all integer tables x with low <= x <= high, A x = a and B x >= b, one per row."""
    axes = [np.arange(first, last + 1) for first, last in zip(low, high, strict=True)]
    found = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    for row, value in zip(A, a, strict=True):
        found = found[found @ np.asarray(row) == value]
    for row, value in zip(B, b, strict=True):
        found = found[found @ np.asarray(row) >= value]
    return found
