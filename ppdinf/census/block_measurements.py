"""Rows of the files as measurements of a labelled table, with a check for geounits that are missing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike

import numpy as np
import pandas as pd
import scipy.sparse as sp
import xarray as xr

from ppdinf import invariants as inv
from ppdinf._internal.values import Integers, Reals
from ppdinf.census.geography import named, one_width, tree
from ppdinf.census.noisy_files import CONSTRAINT, DPQUERY, LEVELS, read_rows
from ppdinf.census.schema import SUMMED, Axis, Histogram, squared_sigma
from ppdinf.errors import DiagnosisWarning, LabelError
from ppdinf.laws import DiscreteGaussian, IntegerLaw, LawArray
from ppdinf.measurements import Measured, Measurements, measured
from ppdinf.measurements.labelled_numbers import onto_rows
from ppdinf.tables.frame import Frame

RATE = 1e-4
"""False-alarm probability for each reading of files."""

EXACT = 1e-12  # variance that replaces 0 in weights


def warn_of_missing_geounits(noisy: pd.DataFrame, constraints: pd.DataFrame, histogram: Histogram) -> None:
    """Name a geounit whose rows, or those of one of its children, are missing according to the other rows."""
    problem = (
        _unmeasured(noisy, constraints)
        or _unequal_limits(constraints[constraints["sign"] == ">="])
        or _unequal_totals(pd.concat([noisy, constraints[constraints["sign"] == "="]]), histogram)
    )
    if problem:
        warnings.warn(f"{problem}: complete the files before you use the counts", DiagnosisWarning, stacklevel=3)


def _unmeasured(noisy: pd.DataFrame, constraints: pd.DataFrame) -> str | None:
    for level in noisy["level"].unique():
        measured, exact = (set(rows.loc[rows["level"] == level, "geocode"]) for rows in (noisy, constraints))
        if absent := exact - measured:
            return (
                f"{len(absent)} geounits of {level} have no measurements in the files, such as {named(min(absent))!r}"
            )
    return None


def _unequal_limits(limits: pd.DataFrame) -> str | None:
    """Compare lower limits, which are numbers of facilities and add up."""
    for _, rows in limits.groupby("groupings", sort=False):
        sums = pd.DataFrame({"level": rows["level"], "code": rows["geocode"], "total": rows["value"].map(np.sum)})
        for coarse, fine, pairs in _with_children(sums.set_index(["level", "code"]), limits):
            for code in pairs.index[pairs["total"] > pairs["total_of_children"]][:1]:
                return f"the lower limits of {coarse} {named(code)!r} exceed the sum over its geounits of {fine}"
    return None


def _unequal_totals(rows: pd.DataFrame, histogram: Histogram) -> str | None:
    """Return a sentence about the geounit whose total differs most from the sum over its children, if by too much."""
    covering = [row for row in rows["groupings"].unique() if _covers(row, histogram)]
    chosen = rows[rows["groupings"].isin(covering)]
    parameters = {variance: squared_sigma(variance) for variance in chosen["variance"].unique() if variance > 0}
    variance = chosen["value"].map(np.size) * chosen["variance"].map(parameters).fillna(0.0)
    weight = 1 / np.maximum(variance, EXACT)
    table = {"level": chosen["level"], "code": chosen["geocode"], "weight": weight}
    estimates = pd.DataFrame(table | {"sum": chosen["value"].map(np.sum) * weight}).groupby(["level", "code"]).sum()
    totals = pd.DataFrame({"total": estimates["sum"] / estimates["weight"], "variance": 1 / estimates["weight"]})
    differences: list[tuple[float, str, float, tuple[str, str]]] = []
    for coarse, fine, pairs in _with_children(totals, rows):
        difference = (pairs["total"] - pairs["total_of_children"]).to_numpy()
        deviations = np.abs(difference) / np.sqrt((pairs["variance"] + pairs["variance_of_children"]).to_numpy())
        names = zip(deviations.tolist(), pairs.index.tolist(), difference.tolist(), strict=True)
        differences += [(z, code, by, (coarse, fine)) for z, code, by in names]
    if not differences:
        return None
    z, code, by, (coarse, fine) = max(differences)
    if z <= math.sqrt(2 * math.log(2 * len(differences) / RATE)):
        return None
    side, why = ("exceeds", "is missing") if by > 0 else ("is less than", "is in the files twice")
    return (
        f"the total of {coarse} {named(code)!r} {side} the sum over its geounits of {fine} by {abs(by):,.1f}, "
        f"{z:.1f} standard deviations of the noise (false-alarm probability {RATE:g}), so that one of them {why}"
    )


def _covers(groupings: tuple[str, ...], histogram: Histogram) -> bool:
    groups = [axis.groups(name) for axis, name in zip(histogram.axes, groupings, strict=True)]
    return all(
        members is None or sorted(label for labels in members.values() for label in labels) == sorted(axis.labels)
        for axis, members in zip(histogram.axes, groups, strict=True)
    )


def _with_children(table: pd.DataFrame, rows: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """Return the rows of geounits and the sums of those of their children, if all children have a row."""
    levels = [level for level in LEVELS if level in table.index.get_level_values(0)]
    families = []
    for coarse, fine in pairwise(levels):
        parents, below = table.loc[coarse], table.loc[fine]
        width = len(parents.index[0])
        children = rows.loc[rows["level"] == fine, "geocode"].drop_duplicates().str[:width].value_counts()
        by_parent = below.groupby(below.index.str[:width])
        pairs = parents.join(by_parent.sum().add_suffix("_of_children"), how="inner")
        families.append((coarse, fine, pairs[by_parent.size().reindex(pairs.index) == children.reindex(pairs.index)]))
    return families


type Exact = tuple[inv.Public, Integers | None]
"""A statement and its values; None for statements without values."""


@dataclass(frozen=True)
class CellLabels:
    """Labels of the table that rows of the files refer to."""

    labels: dict[str, list[str]]
    coords: dict[str, tuple[str, list[str]]]
    axes: tuple[Axis, ...]

    @property
    def frame(self) -> Frame:
        """Labels without counts."""
        shape = [len(labels) for labels in self.labels.values()]
        blank = np.broadcast_to(np.int64(0), shape)
        return Frame.of(xr.DataArray(blank, dims=list(self.labels), coords={**self.labels, **self.coords}))

    def members(self, dim: str) -> list[str]:
        """Return the labels of a dimension or coordinate without repetition, in order of appearance."""
        return list(dict.fromkeys(self.labels[dim] if dim in self.labels else self.coords[dim][1]))

    def names(self, level: str, groupings: Sequence[str]) -> tuple[str, ...]:
        """Return the dimensions and coordinates of the margin that a query of a level measures."""
        kept = [(axis, name) for axis, name in zip(self.axes, groupings, strict=True) if name != SUMMED]
        return (level.lower(), *(axis.name if name == "detailed" else name for axis, name in kept))

    def array(self, level: str, groupings: Sequence[str], rows: pd.DataFrame, numbers: Reals) -> xr.DataArray:
        """Return the numbers of one query in all geounits of a level; nan for geounits without the query."""
        names = self.names(level, groupings)
        coords = {name: self.members(name) for name in names}
        values = np.full([len(labels) for labels in coords.values()], np.nan)
        selected = [axis.groups(name) for axis, name in zip(self.axes, groupings, strict=True) if name != SUMMED]
        # groups that are labels of a coordinate, in its order; labels in no group were not measured
        columns = [
            [coords[name].index(g) for g in groups or ()] for name, groups in zip(names[1:], selected, strict=True)
        ]
        twice = rows["geocode"].duplicated()
        for code, where in zip(rows["geocode"][twice], rows["where"][twice], strict=True):
            first = rows["where"][rows["geocode"] == code].iloc[0]
            raise LabelError(f"{where}, column 'geocode': {code!r} has this query already, in {first}")
        place = pd.Index(coords[names[0]]).get_indexer(pd.Index([named(code) for code in rows["geocode"].tolist()]))
        shape = (len(rows), *map(len, columns))
        each = numbers if numbers.size == math.prod(shape) else np.repeat(numbers, math.prod(shape[1:]))
        values[np.ix_(place, *columns)] = each.reshape(shape)
        return xr.DataArray(values, dims=names, coords=coords)


def cell_labels_of(rows: pd.DataFrame, histogram: Histogram, axes: Sequence[str] | None = None) -> CellLabels:
    """Return the cells of rows of several levels."""
    if rows.empty:
        raise LabelError("the files have no geounit within the given codes at the given levels")
    kept = tuple(axis for axis in histogram.axes if axes is None or axis.name in axes)
    for name in set(axes or ()) - set(histogram.names):
        raise LabelError(f"the histogram has no axis {name!r}; it has {', '.join(histogram.names)}")
    codes = {level: rows.loc[rows["level"] == level, "geocode"].drop_duplicates().tolist() for level in LEVELS}
    widths = {level: one_width(geocodes, level, "the folder") for level, geocodes in codes.items() if geocodes}
    finest = list(widths)[-1]
    leaves, dim = sorted(codes[finest]), finest.lower()
    above = {level.lower(): width for level, width in widths.items() if level != finest}
    coords: dict[str, tuple[str, list[str]]] = dict(tree(leaves, above, dim))
    for level, width in widths.items():
        childless = set(codes[level]) - {code[:width] for code in leaves}
        if childless:
            raise LabelError(f"{level} {min(childless)!r} has no {finest} in the files: its counts would be lost")
    used = {(axis, name) for row in rows["groupings"].unique() for axis, name in zip(histogram.names, row, strict=True)}
    for axis in kept:
        for name in axis.groupings:
            if (axis.name, name) in used:
                coords[name] = (axis.name, axis.coordinate(name))
    labels = {dim: [named(code) for code in leaves], **{axis.name: list(axis.labels) for axis in kept}}
    return CellLabels(labels, coords, kept)


def values_of(rows: pd.DataFrame) -> Reals:
    """Return the values of all rows, one row after another."""
    return np.concatenate([np.zeros(0), *rows["value"]])


def parameters_of(rows: pd.DataFrame) -> Reals:
    """Return the parameter of the noise of every row."""
    distinct, of = np.unique(rows["variance"].to_numpy(), return_inverse=True)
    return np.array([squared_sigma(variance) for variance in distinct.tolist()])[of]


def read_nmf(
    root: str | PathLike[str],
    dataset: str,
    histogram: Histogram,
    *,
    within: str | Sequence[str] = "",
    levels: Collection[str] | None = None,
    queries: Collection[str] | None = None,
    axes: Sequence[str] | None = None,
    coords: Mapping[str, object] | None = None,
    public: Mapping[inv.Public, object] | None = None,
) -> Measurements:
    """Read all noisy measurements and constraints of the 2020 Census about the given places.

    Parameters
    ----------
    root, dataset, histogram, within, levels, queries
        As for `read_rows`; `queries` selects measurements, constraints are read completely.
    axes : sequence of str, optional
        Axes of the table. Queries and constraints by another axis are left out, which loses information.
    coords : mapping of str to (dimension, values), optional
        Further coordinates, such as those of `off_spine_areas`.
    public : mapping of Public to numbers, optional
        Exact statements from other sources than the files: for example the published total of a state.

    Returns
    -------
    Measurements
        Dimensions: the finest level read, in lower case (``"block"``), then the axes. Coordinates: higher levels, and
        groupings of axes. For `ppdinf.denoise`, `ppdinf.PartiallyPrivate`.

    Raises
    ------
    ReleaseFileError, LabelError, CountError, PrivacyError, ModuleNotFoundError
        As for `read_rows`; a geounit twice, or without the finest level; constraints that contradict each other.

    Warns
    -----
    DiagnosisWarning
        A geounit is missing in the files: it has constraints but no measurements, or the total or the lower limits of a
        geounit differ from the sums over its children. The false-alarm probability is 1e-4 for each reading. Small
        geounits are not detected (docs/publishers.md).

    See Also
    --------
    ppdinf.census.read_rows, ppdinf.census.simulate_nmf, ppdinf.denoise

    Notes
    -----
    A measurement of a geounit counts everybody in it: to read the level US you need the files of all states. A
    constraint that holds a sum at 0, or at most at 0, makes its cells structural zeros, because counts are not
    negative; lower limits of 0 are then redundant and left out.

    Examples
    --------
    >>> from ppdinf.census import read_nmf
    >>> import tempfile, numpy as np, xarray as xr, ppdinf as ppd
    >>> blocks = ["04410007A1", "04410007A2", "04410009B1"]
    >>> units = xr.DataArray(np.array([[1, 9], [0, 4], [2, 8]]), coords={"block": blocks, "h1": ["vacant", "occupied"]})
    >>> with tempfile.TemporaryDirectory() as root:
    ...     ppd.census.simulate_nmf(units, ppd.census.UNITS_2020, root, "US_Unit_PL_PROD", {"County": 8}, rng=1)
    ...     read_nmf(root, "US_Unit_PL_PROD", ppd.census.UNITS, within="04410007")
    <Measurements (block: 2, h1: 2): 6 noisy sums, 3 exact; Published exactly: the sum for every county; the sum for
    every block.>
    """
    parts = [
        read_rows(root, dataset, kind, histogram, within=within, levels=levels, queries=wanted)
        for kind, wanted in ((DPQUERY, queries), (CONSTRAINT, None))
    ]
    cells = cell_labels_of(pd.concat(parts, ignore_index=True), histogram, axes)
    noisy, constraints = (_about(part, histogram, cells.axes) for part in parts)
    exact = dict(_exact(constraints, cells)) | dict(public or {})
    stated = list(_measured(noisy, cells))
    measurements = Measurements(cells.labels, *stated, coords=cells.coords | dict(coords or {}), public=exact)
    warn_of_missing_geounits(parts[0], parts[1], histogram)
    return measurements


def _about(rows: pd.DataFrame, histogram: Histogram, axes: Sequence[Axis]) -> pd.DataFrame:
    """Return the rows that sum over all other axes, with the groupings of the kept axes."""
    kept = [axis in axes for axis in histogram.axes]
    matches = [all(k or name == SUMMED for k, name in zip(kept, row, strict=True)) for row in rows["groupings"]]
    selected = rows[np.array(matches, dtype=bool)].copy()
    selected["groupings"] = [
        tuple(name for k, name in zip(kept, row, strict=True) if k) for row in selected["groupings"]
    ]  # fmt: skip
    return selected


def _queries(rows: pd.DataFrame) -> Iterator[tuple[str, tuple[str, ...], str, pd.DataFrame]]:
    """Return level, groupings and sign of every query, with its rows."""
    for (level, _, groupings, sign), selected in rows.groupby(["level", "query", "groupings", "sign"], sort=False):
        yield str(level), groupings, str(sign), selected  # type: ignore[misc]


def _measured(rows: pd.DataFrame, cells: CellLabels) -> Iterator[Measured]:
    for level, groupings, _, selected in _queries(rows):
        values = cells.array(level, groupings, selected, values_of(selected))
        parameters = cells.array(level, groupings, selected, parameters_of(selected))
        law: IntegerLaw | LawArray = DiscreteGaussian(variance=parameters)  # type: ignore[arg-type]
        yield measured(inv.margin(*map(str, values.dims)), values, law)


def _exact(rows: pd.DataFrame, cells: CellLabels) -> Iterator[Exact]:
    frame = cells.frame
    zero: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}  # geounits by level and groups
    for level, groupings, sign, selected in _queries(rows):
        values = cells.array(level, groupings, selected, values_of(selected))
        names = [str(name) for name in values.dims]
        if sign != ">=":
            for position in np.argwhere(values.values == 0).tolist():
                code, *groups = (cells.members(name)[k] for name, k in zip(names, position, strict=True))
                zero.setdefault((names[0], tuple(zip(names[1:], groups, strict=True))), []).append(code)
        statement = inv.margin(*names)
        matrix, rows_of = next(iter(statement)).equalities(frame)
        flat = onto_rows(values, rows_of, frame, "constraints").astype(np.float64)
        if sign == "=" and not np.isnan(flat).any():
            yield statement, flat.astype(np.int64)
            continue
        positive = np.flatnonzero(flat > 0).tolist()
        if positive:
            yield _of_some(sign, matrix[positive], flat[positive].astype(np.int64), [rows_of[row] for row in positive])
    for (level, within), codes in zero.items():
        chosen: dict[str, list[str]] = {level: list(dict.fromkeys(codes))} | {name: [label] for name, label in within}
        yield inv.zeros(chosen), None


def _of_some(sign: str, matrix: sp.csr_array, numbers: Integers, names: list[str]) -> Exact:
    """Return sums of a subset of geounits: exact, at least or at most."""
    if sign == "=":
        return inv.linear(matrix, names), numbers
    factor, word = (1, "least") if sign == ">=" else (-1, "most")
    bound_names = [f"{name} at {word} {n}" for name, n in zip(names, numbers.tolist(), strict=True)]
    return inv.inequality(factor * matrix, (factor * numbers).tolist(), bound_names), None
