"""Random frames of tables, sums of their cells, and published values in every permitted form."""

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


@dataclass(frozen=True)
class Sums:
    """A statement of the package and its rows."""

    code: str
    rows: np.ndarray
    kind: str
    axes: tuple = ()  # names and labels of the sums, if they have any
    ordered: bool = True  # whether values may be unlabelled


def _by(frame, names, row_of):
    """Return rows of the sums by labels of dimensions or coordinates."""
    axes = []
    for name in names:
        if name in frame.dims:
            axes.append((name, frame.labels[frame.dims.index(name)]))
        else:
            axes.append((name, tuple(dict.fromkeys(frame.coords[name][1]))))

    def label(position, name):
        if name in frame.dims:
            axis = frame.dims.index(name)
            return frame.labels[axis][position[axis]]
        dim, values = frame.coords[name]
        return values[position[frame.dims.index(dim)]]

    keys = list(itertools.product(*(one for _, one in axes)))
    rows = np.zeros((len(keys), frame.size), dtype=int)
    for cell, position in enumerate(frame.positions):
        key = tuple(label(position, name) for name in names)
        rows[keys.index(key), cell] = row_of(position)
    return rows, tuple(axes)


def total(frame):
    return Sums("inv.total()", np.ones((1, frame.size), dtype=int), "total")


def margin(frame, names):
    rows, axes = _by(frame, names, lambda position: 1)
    ordered = all(name in frame.dims for name in names)
    return Sums(f"inv.margin({', '.join(map(repr, names))})", rows, "margin", axes, ordered)


def every_cell(frame, rng):
    names = list(frame.dims)
    if rng.random() < 0.4:
        rng.shuffle(names)
    return margin(frame, tuple(names))


def groups(frame):
    rows, axes = _by(frame, ("group",), lambda position: 1)
    return Sums('inv.groups("group")', rows, "groups", axes, ordered=False)


def mapped(frame, rng):
    """Return groups of labels by a mapping; one group has no label of the table."""
    axis = int(rng.integers(len(frame.dims)))
    parents = {label: pick(rng, ["p", "q"]) for label in frame.labels[axis]}
    names = tuple(dict.fromkeys(parents.values()))
    rows = np.zeros((len(names), frame.size), dtype=int)
    for cell, position in enumerate(frame.positions):
        rows[names.index(parents[frame.labels[axis][position[axis]]]), cell] = 1
    absent = {"nowhere": "r"} if all(isinstance(label, str) for label in parents) and rng.random() < 0.3 else {}
    code = f"inv.groups({frame.dims[axis]!r}, {parents | absent!r})"
    return Sums(code, rows, "mapped groups", ((frame.dims[axis], names),), ordered=False)


def weighted(frame, rng):
    dim, weights = frame.coords["weight"]
    axis = frame.dims.index(dim)
    if rng.random() < 0.5 or len(frame.dims) == 1:
        rows = np.array([[weights[position[axis]] for position in frame.positions]])
        return Sums('inv.total(weights="weight")', rows, "weighted")
    name = pick(rng, frame.dims)
    rows, axes = _by(frame, (name,), lambda position: weights[position[axis]])
    return Sums(f'inv.margin({name!r}, weights="weight")', rows, "weighted", axes)


def some_cells(frame, rng):
    axis = int(rng.integers(len(frame.dims)))
    chosen = [label for label in frame.labels[axis] if rng.random() < 0.5] or [frame.labels[axis][0]]
    cells = [c for c, position in enumerate(frame.positions) if frame.labels[axis][position[axis]] in chosen]
    code = f"inv.cells({ {frame.dims[axis]: chosen if len(chosen) > 1 else chosen[0]}!r})"
    return Sums(code, np.eye(frame.size, dtype=int)[cells], "cells")


def linear(frame, rng):
    rows = rng.integers(0, 3, (int(rng.integers(1, 3)), frame.size))
    if rng.random() < 0.3:
        rows = rows - (rng.random(rows.shape) < 0.3)
    return Sums(f"inv.linear({rows.tolist()})", rows, "linear")


def some_sums(frame, rng, kinds=None):
    """Draw sums of a random type."""
    options = ["total", "margin", "margin", "cells", "linear"]
    options += ["groups", "margin by group"] * ("group" in frame.coords) + ["weighted"] * ("weight" in frame.coords)
    options += ["mapped"]
    kind = pick(rng, [one for one in options if kinds is None or one in kinds])
    if kind == "margin":
        number = 1 if len(frame.dims) < 3 else int(rng.integers(1, 3))
        names = tuple(rng.permutation(frame.dims)[:number].tolist())
        return margin(frame, names)
    if kind == "margin by group":
        others = [dim for dim in frame.dims if dim != frame.coords["group"][0]]
        return margin(frame, (pick(rng, others), "group")) if others else groups(frame)
    make = {"total": total, "groups": groups}
    if kind in make:
        return make[kind](frame)
    return {"cells": some_cells, "linear": linear, "weighted": weighted, "mapped": mapped}[kind](frame, rng)


def value_code(sums, values, rng, forms=None):
    """Return values of sums in a random form, and its name; nan where nothing was measured."""
    values = np.asarray(values)
    sizes = [len(labels) for _, labels in sums.axes]
    number = len(values)
    options = ["list", "array"] if sums.ordered else []
    if number == 1 and not sums.axes:
        options = ["scalar"] if not np.isnan(values[0]) else ["list"]
    if sums.axes:
        options += ["mapping", "series", "labelled array"]
        options += ["labelled array", "nested"] if sums.ordered else []
        options += ["frame"] if len(sizes) == 2 and sums.ordered else []
        options += ["masked"] if np.isnan(values).any() and sums.ordered else []
    form = pick(rng, [one for one in options if forms is None or one in forms] or options)
    keys = list(itertools.product(*(labels for _, labels in sums.axes)))
    order = rng.permutation(number)
    plain = [np.nan if np.isnan(v) else int(v) if float(v).is_integer() else float(v) for v in values]
    if form == "scalar":
        return repr(plain[0]), form
    if form == "list":
        return repr(plain), form
    if form == "array":
        return f"np.array({plain!r})", form
    if form == "nested":
        return f"np.array({shown(values.reshape(sizes))})", form
    if form == "masked":
        filled = np.where(np.isnan(values), 7, values).reshape(sizes)
        return f"np.ma.array({shown(filled)}, mask={np.isnan(values).reshape(sizes).tolist()})", form
    if form == "mapping":
        single = len(sizes) == 1
        pairs = ", ".join(f"{(keys[k][0] if single else keys[k])!r}: {plain[k]!r}" for k in order)
        return f"{{{pairs}}}", form
    if form == "series":
        names = [name for name, _ in sums.axes]
        if len(sizes) == 1:
            return (
                f"pd.Series({[plain[k] for k in order]!r}, "
                f"pd.Index({[keys[k][0] for k in order]!r}, name={names[0]!r}))"
            ), form
        index = f"pd.MultiIndex.from_tuples({[keys[k] for k in order]!r}, names={names!r})"
        return f"pd.Series({[plain[k] for k in order]!r}, {index})", form
    array = values.reshape(sizes)
    if form == "frame":
        (one, rows), (two, columns) = sums.axes
        first, second = rng.permutation(sizes[0]), rng.permutation(sizes[1])
        return (
            f"pd.DataFrame({shown(array[np.ix_(first, second)])}, "
            f"index=pd.Index({[rows[k] for k in first]!r}, name={one!r}), "
            f"columns=pd.Index({[columns[k] for k in second]!r}, name={two!r}))"
        ), form
    dims, coords = [], {}
    axes = rng.permutation(len(sizes))
    array = array.transpose(axes)
    for place, axis in enumerate(axes):
        name, labels = sums.axes[axis]
        dims.append(name)
        if not sums.ordered or rng.random() < 0.6:
            mixed = rng.permutation(sizes[axis])
            array = array.take(mixed, axis=place)
            coords[name] = [labels[k] for k in mixed]
    return f"xr.DataArray(np.array({shown(array)}), dims={dims!r}, coords={coords!r})", form
