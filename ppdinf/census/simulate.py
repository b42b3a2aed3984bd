"""Files with the same schema, simulated from a given table."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import ModuleType

import numpy as np
import scipy.sparse as sp
import xarray as xr

from ppdinf._internal.atomic_files import make_folder, write_atomically
from ppdinf._internal.values import Array, Integers
from ppdinf.census.geography import one_width
from ppdinf.census.noisy_files import CONSTRAINT, DPQUERY, PARTITIONS, arrow
from ppdinf.census.schema import Histogram, Strategy, variance_of
from ppdinf.errors import CountError, LabelError
from ppdinf.laws import DiscreteGaussian
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.tables.table import as_table

UPPER = 99999  # upper bound on the persons of a facility in the constraints of production


def simulate_nmf(
    table: xr.DataArray,
    strategy: Strategy,
    root: str | PathLike[str],
    dataset: str,
    widths: Mapping[str, int],
    *,
    leaf: str = "Block",
    facilities: xr.DataArray | None = None,
    by_county: tuple[str, ...] = (),
    rng: int | np.random.Generator | None = None,
) -> None:
    """Write noisy measurement files of a table, in the schema of the 2020 Census.

    Noise is drawn by inversion in double precision: a simulation, not a release.

    Parameters
    ----------
    table : xarray.DataArray of int64
        Geounits of the finest level, by their codes, then the axes of the histogram.
    strategy : Strategy
        Measurements, noise and exact statements: `PERSONS_2020`, `UNITS_2020`, or a user-defined strategy with small
        shapes. Queries of levels that it lacks are not measured.
    root : path
    dataset : str
        Subfolder.
    widths : mapping of str to int
        Higher levels and the widths of their codes: ``{"US": 0, "State": 3, "County": 8}``.
    leaf : str
        The finest level.
    facilities : xarray.DataArray of int64, optional
        Group quarters by geounit and type, with the labels of the table in any order: the number of persons in a type
        is at least the number of its facilities, and 0 without facilities. Households have no such limit.
    by_county : tuple of str
        Levels whose files are in one folder per county, as for demographic files.
    rng : int or numpy.random.Generator, optional

    Raises
    ------
    LabelError
        Labels that differ from the histogram, or of `facilities` from the table; codes that do not fit the widths.
    CountError
        The persons of a geounit contradict the number of its facilities.
    ModuleNotFoundError
        pyarrow is not installed: it comes with the extra ``census``.

    See Also
    --------
    ppdinf.census.read_nmf, ppdinf.census.Strategy

    Examples
    --------
    >>> import tempfile, numpy as np, xarray as xr, ppdinf as ppd
    >>> blocks = ["04410007A1", "04410009B1"]
    >>> units = xr.DataArray(np.array([[1, 9], [2, 8]]), coords={"block": blocks, "h1": ["vacant", "occupied"]})
    >>> with tempfile.TemporaryDirectory() as root:
    ...     ppd.census.simulate_nmf(units, ppd.census.UNITS_2020, root, "US_Unit_PL_PROD", {"County": 8}, rng=1)
    ...     ppd.census.read_nmf(root, "US_Unit_PL_PROD", ppd.census.UNITS).entries.y.size
    8
    """
    pa, rng = arrow(), np.random.default_rng(rng)
    table, histogram = as_table(table), strategy.histogram
    dim, *axes = table.dims
    for axis, name in zip(histogram.axes, axes, strict=False):
        if name != axis.name or table[name].values.tolist() != list(axis.labels):
            raise LabelError(f"after {dim!r}, the table must have the axes of the histogram, {axis.name!r} first")
    if len(axes) != len(histogram.axes):
        raise LabelError(
            f"the table has the axes {', '.join(map(str, axes))}, but the histogram {', '.join(histogram.names)}"
        )
    codes = [str(code) for code in table[dim].values]
    width = one_width(codes, leaf, "the table")
    number = None if facilities is None else _number_of(facilities, table)
    for level, width_of_level in {**widths, leaf: width}.items():
        numbers = np.array([code[:width_of_level] for code in codes])
        geounits, group = np.unique(numbers, return_inverse=True)
        by = sp.csr_array((np.ones(len(codes), dtype=np.int64), (group, np.arange(len(codes)))))
        sums = (by @ table.values.reshape(len(codes), -1)).reshape(-1, *histogram.shape)
        noisy = _noisy(strategy, level, sums, rng)
        exact = [*_exact(strategy, level, sums), *_facilities(number, histogram, by)]
        for kind, queries in ((DPQUERY, list(noisy)), (CONSTRAINT, exact)):
            place = Path(root, dataset, f"{level}.parquet", kind)
            parts = [
                key
                for key in PARTITIONS
                if width_of_level >= PARTITIONS[key] and (key == "State" or level in by_county)
            ]
            _write(pa, place, geounits, queries, histogram, kind, parts)


type Query = tuple[str, tuple[str, ...], Integers, float, str]
"""Name, groupings, one array per geounit, variance, sign."""


def _noisy(strategy: Strategy, level: str, sums: Integers, rng: np.random.Generator) -> Iterator[Query]:
    for name, squared_sigma in strategy.squared_sigmas.get(level, {}).items():
        groupings = strategy.histogram.query(name)
        answers = _answers(strategy.histogram, groupings, sums)
        noisy = AdditiveLaw(DiscreteGaussian(variance=squared_sigma)).publish(answers, rng)
        yield f"{name}_dpq", groupings, noisy, variance_of(squared_sigma), ""


def _exact(strategy: Strategy, level: str, sums: Integers) -> Iterator[Query]:
    for name in strategy.exact.get(level, ()):
        groupings = strategy.histogram.query(name)
        yield f"{name}_con", groupings, _answers(strategy.histogram, groupings, sums), 0.0, "="
    for name, query in strategy.zeros.items():
        groupings = strategy.histogram.query(query)
        size = math.prod(strategy.histogram.query_shape(groupings))
        yield f"{name}_con", groupings, np.zeros((len(sums), size), dtype=np.int64), 0.0, "="


def _number_of(facilities: xr.DataArray, table: xr.DataArray) -> Integers:
    """Return the number of facilities in the order of the table, 0 for households."""
    names = table.dims[:2]
    labels = {name: table[name].values for name in names}
    if set(facilities.dims) != set(names) or any(
        name not in facilities.coords or sorted(facilities[name].values.tolist()) != sorted(labels[name].tolist())
        for name in names
    ):
        raise LabelError(f"facilities must have the dimensions {names[0]!r} and {names[1]!r} with the table's labels")
    number: Integers = facilities.transpose(*names).sel(labels).values.astype(np.int64)
    persons = table.sum(table.dims[2:]).values
    wrong = (number < 0) | (persons < number) | ((number == 0) & (persons > 0))
    wrong[:, 0] = False
    if wrong.any():
        geounit, kind = np.argwhere(wrong)[0]
        raise CountError(
            f"{names[0]}={labels[names[0]][geounit]}, {names[1]}={labels[names[1]][kind]}: the number of persons must "
            "be at least the number of facilities, and 0 without facilities"
        )
    number[:, 0] = 0
    return number


def _facilities(number: Integers | None, histogram: Histogram, by: sp.csr_array) -> Iterator[Query]:
    if number is None:
        return
    axis, number = histogram.axes[0], by @ number
    upper = UPPER * number
    upper[:, 0] = UPPER * UPPER
    groupings = (axis.name, *("*" for _ in histogram.axes[1:]))
    yield f"{axis.name}_total_lb_con", groupings, number, 0.0, ">="
    yield f"{axis.name}_total_ub_con", groupings, upper, 0.0, "<="


def _answers(histogram: Histogram, groupings: tuple[str, ...], sums: Integers) -> Integers:
    """Sum over and group the axes of every geounit, shape (geounits, size of the query)."""
    answers = sums
    for k, (axis, name) in enumerate(zip(histogram.axes, groupings, strict=True)):
        groups = axis.groups(name)
        if groups is None:
            answers = answers.sum(axis=k + 1, keepdims=True)
        else:
            place = {label: n for n, label in enumerate(axis.labels)}
            parts = [
                answers.take([place[label] for label in labels], axis=k + 1).sum(axis=k + 1)
                for labels in groups.values()
            ]
            answers = np.stack(parts, axis=k + 1)
    return answers.reshape(len(sums), -1)


def _write(
    pa: ModuleType, place: Path, geounits: Array, queries: list[Query], histogram: Histogram, kind: str,
    parts: list[str],
) -> None:  # fmt: skip
    """Write the rows of a level to the folders of their states and counties."""
    if not queries:
        return
    inner = np.array(["/".join(f"{key}={code[: PARTITIONS[key]]}" for key in parts) for code in geounits.tolist()])
    folders, of = np.unique(inner, return_inverse=True)
    answers = np.concatenate([query[2] for query in queries], axis=1)  # one query after another
    shapes = np.array([histogram.query_shape(query[1]) for query in queries])
    for n, folder in enumerate(folders.tolist()):
        members = np.flatnonzero(of == n)
        rows = members.size * len(queries)
        columns = {
            "geocode": pa.array(np.repeat(geounits[members], len(queries)).astype(object), pa.string()),
            "query_name": pa.array([query[0] for query in queries] * members.size),
            "query_shape": _lists(pa, np.tile(shapes, (members.size, 1)), [shapes.shape[1]] * rows),
            **{
                name: pa.array([query[1][k] for query in queries] * members.size)
                for k, name in enumerate(histogram.names)
            },
            "value": _lists(pa, answers[members], [query[2].shape[1] for query in queries] * members.size),
            "variance": pa.array([query[3] for query in queries] * members.size, pa.float32()),
        }
        if kind == CONSTRAINT:
            columns["sign"] = pa.array([query[4] for query in queries] * members.size)
        make_folder(place / folder)
        data = io.BytesIO()
        pa.parquet.write_table(pa.table(columns), data)
        write_atomically(place / folder / "part-00000.parquet", data.getvalue())


def _lists(pa: ModuleType, values: Integers, lengths: Sequence[int]) -> Array:
    """Return values, one list after another, as a column of lists."""
    return pa.ListArray.from_arrays(np.cumsum([0, *lengths], dtype=np.int32), values.ravel())
