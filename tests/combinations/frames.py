"""Random frames of tables: shapes, dimensions, labels, further coordinates."""

import itertools
from dataclasses import dataclass

import numpy as np


def pick(rng, options, p=None):
    """Choose one of several options."""
    weights = None if p is None else np.array(p, dtype=float) / np.sum(p)
    return options[int(rng.choice(len(options), p=weights))]


def shown(array):
    """Return an array as Python code; integers and nan unchanged."""
    array = np.asarray(array)
    if array.dtype.kind == "f":
        whole = [np.nan if np.isnan(v) else int(v) if float(v).is_integer() else float(v) for v in array.ravel()]
        nested = np.array(whole, dtype=object).reshape(array.shape).tolist()
    else:
        nested = array.tolist()
    return repr(nested)


@dataclass(frozen=True)
class Frame:
    """Dimensions, labels and further coordinates of a table."""

    dims: tuple[str, ...]
    labels: tuple[tuple, ...]
    coords: dict
    kind: str

    @property
    def shape(self):
        return tuple(len(one) for one in self.labels)

    @property
    def size(self):
        return int(np.prod(self.shape))

    @property
    def positions(self):
        """Return every combination of positions, in table order."""
        return list(itertools.product(*(range(n) for n in self.shape)))

    def labels_code(self):
        return repr({dim: list(one) for dim, one in zip(self.dims, self.labels, strict=True)})

    def coords_code(self):
        return repr({name: (dim, list(values)) for name, (dim, values) in self.coords.items()})

    def table_code(self, values):
        """Return a labelled table with these values."""
        coords = {dim: list(one) for dim, one in zip(self.dims, self.labels, strict=True)}
        coords |= {name: (dim, list(values)) for name, (dim, values) in self.coords.items()}
        values = np.asarray(values).reshape(self.shape)
        return f"xr.DataArray(np.array({shown(values)}), dims={self.dims!r}, coords={coords!r})"


SHAPES = [
    (2,), (3,), (3,), (4,), (4,), (1,), (1, 3), (3, 1), (1, 1), (2, 2), (2, 2), (2, 3), (3, 3), (2, 3), (3, 2), (3, 3),
    (4, 2), (2, 4), (5, 2), (2, 2, 2), (1, 2, 3), (3, 2, 1), (2, 1, 3), (6,), (3, 4), (4, 3),
]  # fmt: skip
NAMES = [("a", "b", "c"), ("b", "a", "c"), ("sex", "area", "age"), ("year", "place", "kind"), ("z", "y", "w")]
LABELS = {
    "strings": lambda n, rng: [chr(ord("A") + k) for k in range(n)],
    "strings out of order": lambda n, rng: [f"l{k}" for k in rng.permutation(n) + 3],
    "positions": lambda n, rng: list(range(n)),
    "years": lambda n, rng: [2000 + k for k in range(n)],
    "numbers out of order": lambda n, rng: [int(k) for k in rng.permutation(n) + rng.integers(0, 2)],
}


def frame(rng, shapes=SHAPES):
    """Draw dimensions and labels, a coordinate of groups and one of weights."""
    shape = pick(rng, shapes)
    dims = pick(rng, NAMES)[: len(shape)]
    kinds = [pick(rng, list(LABELS)) for _ in shape]
    labels = tuple(tuple(LABELS[kind](n, rng)) for kind, n in zip(kinds, shape, strict=True))
    coords = {}
    if rng.random() < 0.6:
        axis = int(rng.integers(len(shape)))
        coords["group"] = (dims[axis], [pick(rng, ["n", "m"]) for _ in range(shape[axis])])
    if rng.random() < 0.4:
        axis = int(rng.integers(len(shape)))
        coords["weight"] = (dims[axis], [int(rng.integers(1, 4)) for _ in range(shape[axis])])
    return Frame(dims, labels, coords, kinds[0])
