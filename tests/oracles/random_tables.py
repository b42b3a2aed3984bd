"""Random labelled tables of one to four dimensions, and sums over them by plain loops."""

import itertools

import numpy as np
import xarray as xr
from hypothesis import strategies as st

DIMS = ("a", "b", "c", "d")


@st.composite
def tables(draw, least=-9):
    """Table with labels of both kinds, a coordinate `g` of groups and one `w` of whole numbers."""
    dims = DIMS[: draw(st.integers(1, 4))]
    shape = [draw(st.integers(1, 3)) for _ in dims]
    cells = draw(st.lists(st.integers(least, 50), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    coords = {}
    for dim, size in zip(dims, shape, strict=True):
        kind = draw(st.sampled_from([st.integers(-5, 5), st.text("xyz", max_size=3)]))
        coords[dim] = draw(st.lists(kind, min_size=size, max_size=size, unique=True))
    spread = draw(st.permutations(dims))[: draw(st.integers(1, len(dims)))]  # in any order of dimensions
    size = [len(coords[dim]) for dim in spread]
    for name, kind in (("g", st.sampled_from("PQR")), ("w", st.integers(-3, 3))):
        values = draw(st.lists(kind, min_size=int(np.prod(size)), max_size=int(np.prod(size))))
        coords[name] = (spread, np.array(values).reshape(size))
    return xr.DataArray(np.array(cells).reshape(shape), dims=dims, coords=coords)


def cells_of(table):
    """Every cell as ``({coordinate: label}, count)``, last dimension fastest."""
    for where in itertools.product(*(range(n) for n in table.shape)):
        cell = table[where]
        yield {name: cell.coords[name].item() for name in table.coords}, int(cell)


def sums_by_loop(table, by, weights=None):
    """Sums within each combination of labels, in order of first appearance along each coordinate."""
    order = {name: [] for name in by}
    found = {}
    for labels, count in cells_of(table):
        for name in by:
            if labels[name] not in order[name]:
                order[name].append(labels[name])
        key = tuple(labels[name] for name in by)
        found[key] = found.get(key, 0) + count * (1 if weights is None else labels[weights])
    ranked = sorted(found, key=lambda key: [order[name].index(label) for name, label in zip(by, key, strict=True)])
    return {", ".join(f"{name}={label}" for name, label in zip(by, key, strict=True)): found[key] for key in ranked}
