"""Sums of posterior draws of a table, by label, and what is said of them: estimate, interval, margin of error."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf.errors import InvariantError, LabelError
from ppdinf.invariants import Public
from ppdinf.invariants.names import CellNames, GroupNames
from ppdinf.tables.frame import Frame

__all__ = ["aggregate", "summary"]

SAMPLE = ("chain", "draw")


def aggregate(draws: xr.DataArray, statement: Public) -> xr.DataArray:
    """Sum posterior draws of a table as a statement says.

    Ratios, ranks and comparisons follow from sums draw by draw: ``a / b``, ``a.rank("county")``, ``(a > b).mean()``.

    Parameters
    ----------
    draws : xarray.DataArray, dimensions ``("chain", "draw", ...)``
        Of a table, as `ppdinf.sample_confidential` and `ppdinf.denoise` give them.
    statement : Public
        One statement that names sums: ``margin("county")``, ``groups("county", {"Erie": "west", ...})``, ``total()``,
        ``cells(...)``, ``linear(...)``.

    Returns
    -------
    xarray.DataArray of int64
        Dimensions ``("chain", "draw")`` and one for the sums: that of their labels where one coordinate names them,
        else ``sum``. None for a single sum.

    Raises
    ------
    InvariantError
        Several statements, or one without sums.
    LabelError
        Labels that the table does not have; no dimensions ``chain`` and ``draw``.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> table = xr.DataArray(np.arange(8).reshape(1, 2, 2, 2), dims=("chain", "draw", "county", "sex"))
    >>> aggregate(table, ppd.invariants.margin("county")).values.tolist()
    [[[1, 5], [9, 13]]]
    """
    if not set(SAMPLE) <= set(draws.dims):
        raise LabelError(f"draws of a table have the dimensions chain and draw, found {draws.dims}")
    parts = list(statement) if isinstance(statement, Public) else []
    if len(parts) != 1:
        raise InvariantError("name the sums by one statement of ppdinf.invariants, such as margin('county')")
    ordered = draws.transpose(*SAMPLE, ...)
    one = ordered.isel(chain=0, draw=0, drop=True)
    frame = Frame.of(one if one.ndim else one.expand_dims("cell"))
    A, names = parts[0].equalities(frame)
    if not A.shape[0]:
        raise InvariantError(f"{statement} names no sum")
    cells = ordered.values.reshape(-1, frame.size)
    found = (A @ cells.T).T.reshape(*ordered.shape[:2], A.shape[0])
    sample = {dim: ordered.coords[dim] for dim in SAMPLE if dim in ordered.coords}
    if A.shape[0] == 1:
        return xr.DataArray(found[..., 0], dims=SAMPLE, coords=sample, name=names[0])
    dim: str
    labels: list[Hashable]
    dim, labels = "sum", list(names)
    if isinstance(names, CellNames) and len(names.by) == 1 and not names.after:
        dim, labels = names.by[0], frame.broadcast(names.by[0])[names.cells].tolist()
    elif isinstance(names, GroupNames):
        dim, labels = names.dim, [*names.groups]
    return xr.DataArray(found, dims=(*SAMPLE, dim), coords={**sample, dim: labels}, name=str(parts[0]))


def summary(draws: xr.DataArray, probability: float = 0.9) -> pd.DataFrame:
    """Say what posterior draws tell of each of several numbers.

    Parameters
    ----------
    draws : xarray.DataArray, dimensions ``("chain", "draw", ...)``
        Of cells, sums, ratios, ranks, ...
    probability : float, default 0.9
        That the number lies within its interval.

    Returns
    -------
    pandas.DataFrame
        One row per number, by its labels: ``estimate`` (posterior mean), ``sd``, ``lower`` and ``upper`` (equal tails)
        and ``margin_of_error``, half the length of the interval.

    Raises
    ------
    LabelError
        No dimensions ``chain`` and ``draw``.

    Examples
    --------
    >>> table = xr.DataArray(np.arange(40).reshape(1, 20, 2), coords={"sex": ["f", "m"]}, dims=("chain", "draw", "sex"))
    >>> summarize(table).round(1)
         estimate    sd  lower  upper  margin_of_error
    sex
    f        19.0  11.5      0     36             18.0
    m        20.0  11.5      1     37             18.0
    """
    if not set(SAMPLE) <= set(draws.dims):
        raise LabelError(f"posterior draws have the dimensions chain and draw, found {draws.dims}")
    ordered = draws.transpose(*SAMPLE, ...)
    values = ordered.values.reshape(-1, int(np.prod(ordered.shape[2:])))
    tail = (1 - probability) / 2
    # ends of whole numbers are whole
    method: Literal["inverted_cdf", "linear"] = "inverted_cdf" if values.dtype.kind == "i" else "linear"
    lower, upper = np.quantile(values, [tail, 1 - tail], axis=0, method=method)
    rest = ordered.isel(chain=0, draw=0, drop=True)
    labels = [rest.coords[dim].values if dim in rest.coords else np.arange(n) for dim, n in rest.sizes.items()]
    if not labels:
        name: list[Hashable] = [str(draws.name or "total")]
        index: pd.Index = pd.Index(name)
    elif len(labels) == 1:
        index = pd.Index(labels[0], name=str(rest.dims[0]))
    else:
        index = pd.MultiIndex.from_product(labels, names=list(map(str, rest.dims)))
    return pd.DataFrame(
        {
            "estimate": values.mean(axis=0),
            "sd": values.std(axis=0),
            "lower": lower,
            "upper": upper,
            "margin_of_error": (upper - lower) / 2,
        },
        index=index,
    )
