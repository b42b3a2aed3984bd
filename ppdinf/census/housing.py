"""Occupied housing units from the files of units: one count for each geounit.

The total of every geounit is exact, so the vacant units are the total minus the occupied units: both noisy values of a
geounit measure one count. Sums of counts over the levels of a tree nest, and the table is marginalized exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from os import PathLike

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ppdinf import invariants as inv
from ppdinf.census.block_measurements import (
    CellLabels,
    cell_labels_of,
    parameters_of,
    values_of,
    warn_of_missing_geounits,
)
from ppdinf.census.geography import named
from ppdinf.census.noisy_files import CONSTRAINT, DPQUERY, read_rows
from ppdinf.census.schema import SUMMED, UNITS
from ppdinf.errors import CountError, LabelError
from ppdinf.laws import DiscreteGaussian, IntegerLaw, LawArray
from ppdinf.measurements import Measurements, measured


def read_occupied(
    root: str | PathLike[str],
    dataset: str = "US_Unit_PL_PROD",
    *,
    within: str | Sequence[str] = "",
    levels: Collection[str] | None = None,
) -> Measurements:
    """Read the measurements of occupied housing units, given the exact numbers of units.

    Parameters
    ----------
    root, dataset, within, levels
        As for `read_nmf`.

    Returns
    -------
    Measurements
        Counts of occupied units in the geounits of the finest level. The coordinate ``units`` has their exact
        totals, which bound the counts: a data model is ``pm.Binomial.dist(units, p)``. Coordinates name the higher
        levels. Geounits without units are left out.

    Raises
    ------
    LabelError, CountError
        As for `read_nmf`; a geounit of the finest level without its total, or a total that differs from the
        sum of its parts.

    Warns
    -----
    DiagnosisWarning
        As for `read_nmf`.

    See Also
    --------
    ppdinf.census.read_nmf, ppdinf.census.tree

    Examples
    --------
    >>> from ppdinf.census import read_occupied
    >>> import tempfile, numpy as np, xarray as xr, ppdinf as ppd
    >>> blocks = ["04410007A1", "04410007A2", "04410009B1"]
    >>> units = xr.DataArray(np.array([[1, 9], [0, 4], [2, 8]]), coords={"block": blocks, "h1": ["vacant", "occupied"]})
    >>> with tempfile.TemporaryDirectory() as root:
    ...     ppd.census.simulate_nmf(units, ppd.census.UNITS_2020, root, "US_Unit_PL_PROD", {"County": 8}, rng=1)
    ...     measurements = read_occupied(root)
    >>> measurements.frame.coords["units"][1].tolist(), measurements.entries.y.size
    ([10, 4, 10], 10)
    """
    parts = [
        read_rows(root, dataset, kind, UNITS, within=within, levels=levels) for kind in (DPQUERY, CONSTRAINT)
    ]  # fmt: skip
    noisy, constraints = parts
    cells = cell_labels_of(pd.concat(parts, ignore_index=True), UNITS)
    totals = constraints[(constraints["sign"] == "=") & (constraints["groupings"] == (SUMMED,))]
    dim = next(iter(cells.labels))
    every = _totals(totals, cells, dim)
    above = {name: pd.Index(labels) for name, (at, labels) in cells.coords.items() if at == dim}
    for name, labels in above.items():
        _check(totals[totals["level"].str.lower() == name], every.groupby(labels).sum())
    there = every.to_numpy() > 0
    units = every[there]
    above = {name: labels[there] for name, labels in above.items()}
    stated = []
    for level, rows in noisy[noisy["groupings"] != (SUMMED,)].groupby("level", sort=False):
        name = str(level).lower()
        known = units if name == dim else units.groupby(above[name], sort=False).sum()
        values, parameters = (
            cells.array(str(level), ("detailed",), rows, numbers).sel({name: known.index.to_list()})
            for numbers in (values_of(rows), parameters_of(rows))
        )
        law: IntegerLaw | LawArray = DiscreteGaussian(variance=parameters.isel(h1=0, drop=True))  # type: ignore[arg-type]
        left = known.to_numpy() - values.sel(h1="vacant", drop=True)
        stated += [
            measured(inv.margin(name), measured_values, law)
            for measured_values in (values.sel(h1="occupied", drop=True), left)
        ]
    names = [f"-(occupied units of {code})" for code in units.index]
    limits = inv.inequality(-sp.eye_array(units.size, dtype=np.int64, format="csr"), (-units).tolist(), names)
    coords: dict[str, tuple[str, np.ndarray]] = {name: (dim, labels.to_numpy()) for name, labels in above.items()}
    coords["units"] = (dim, units.to_numpy())
    measurements = Measurements({dim: units.index.to_list()}, *stated, coords=coords, public={limits: None})
    warn_of_missing_geounits(noisy, constraints, UNITS)
    return measurements


def _totals(totals: pd.DataFrame, cells: CellLabels, dim: str) -> pd.Series:
    """Return the exact totals of the leaves."""
    rows = totals[totals["level"].str.lower() == dim]
    totals_of_leaves = cells.array(dim, (SUMMED,), rows, values_of(rows)).to_series()
    missing = totals_of_leaves.index[totals_of_leaves.isna()]
    if len(missing):
        raise LabelError(f"{dim} {missing[0]!r} has no exact total in the files, which is needed to count vacant units")
    return totals_of_leaves.astype(np.int64)


def _check(totals: pd.DataFrame, known: pd.Series) -> None:
    """Refuse totals that differ from the sums of their parts."""
    expected = known.reindex([named(code) for code in totals["geocode"].tolist()]).to_numpy()
    for row in np.flatnonzero(values_of(totals) != expected)[:1].tolist():
        code, where = totals[["geocode", "where"]].iloc[row]
        raise CountError(f"{where}, column 'value': the total of {code!r} must be the sum of those within it")
