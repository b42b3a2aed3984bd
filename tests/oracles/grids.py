"""All vectors of whole numbers in a box."""

import numpy as np


def box(low, high, d):
    """All vectors of d integers from `low` to `high`, one per row, the last changing fastest."""
    axes = np.meshgrid(*[np.arange(low, high + 1)] * d, indexing="ij")
    return np.stack(axes, axis=-1).reshape(-1, d) if d else np.zeros((1, 0), dtype=np.int64)
