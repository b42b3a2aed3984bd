"""Sums and ranks of posterior draws of a table, by label; estimates, intervals and probabilities from draws."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

import arviz as az
import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import rankdata

from ppdinf._internal.types import Array
from ppdinf.errors import InvariantError, LabelError, ModelError
from ppdinf.invariants import Public
from ppdinf.invariants.names import CellNames, GroupNames
from ppdinf.tables.frame import Frame

__all__ = ["aggregate", "ranks", "summary"]

SAMPLE = ("chain", "draw")


def aggregate(draws: xr.DataArray, statement: Public) -> xr.DataArray:
    """Sum posterior draws of a table as a statement says.

    Ratios, ranks and comparisons follow from sums draw by draw: ``a / b``, ``ranks(a, "county")``, ``a > b``. `summary`
    gives their estimates and probabilities.

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


def ranks(draws: xr.DataArray, dim: Hashable) -> xr.DataArray:
    """Rank the numbers along a dimension, draw by draw.

    Parameters
    ----------
    draws : xarray.DataArray
        Posterior draws of cells, sums, ratios, ...
    dim : str
        The dimension whose labels are ranked.

    Returns
    -------
    xarray.DataArray of float64
        The shape and the labels of `draws`. 1 is the rank of the smallest number; equal numbers have the mean of
        their ranks; the rank of nan is nan.

    Raises
    ------
    LabelError
        `draws` has no such dimension.

    See Also
    --------
    xarray.DataArray.rank : The same result; requires the package bottleneck.

    Examples
    --------
    >>> draws = xr.DataArray([[[30, 5, 8], [20, 9, 9]]], dims=("chain", "draw", "county"))
    >>> ranks(draws, "county").values.tolist()
    [[[3.0, 1.0, 2.0], [3.0, 1.5, 1.5]]]
    """
    if dim not in draws.dims:
        raise LabelError(f"the draws have no dimension {dim!r}, only {draws.dims}")
    found = rankdata(draws.values, axis=draws.get_axis_num(dim), nan_policy="omit")
    return draws.copy(data=np.asarray(found, dtype=np.float64))


def summary(draws: xr.DataArray, probability: float = 0.9) -> pd.DataFrame:
    """Estimate each of several numbers from its posterior draws, or the probability of each of several statements.

    Parameters
    ----------
    draws : xarray.DataArray, dimensions ``("chain", "draw", ...)``
        Of cells, sums, ratios, ranks, ...; or of bool, such as ``a > b``.
    probability : float, default 0.9
        That the number lies within its interval.

    Returns
    -------
    pandas.DataFrame
        One row per number, by its labels: ``estimate`` (posterior mean), ``sd``, ``lower`` and ``upper`` (equal tails)
        and ``margin_of_error``, half the length of the interval. Of bool: ``probability`` (posterior probability that
        the statement is true) and ``monte_carlo_error``, the standard error of this probability from the finite
        number of effective draws. It is nan for fewer than four draws a chain.

    Raises
    ------
    LabelError
        No dimensions ``chain`` and ``draw``.
    ModelError
        The draws are neither numbers nor bool.

    Notes
    -----
    With n effective draws of a statement and a share p of them true, the Monte Carlo error is
    ``sqrt(q (1 - q) / n)``, ``q = (n p + 1) / (n + 2)``. It is above 0 where all draws agree.

    Examples
    --------
    >>> table = xr.DataArray(np.arange(40).reshape(1, 20, 2), coords={"sex": ["f", "m"]}, dims=("chain", "draw", "sex"))
    >>> summary(table).round(1)
         estimate    sd  lower  upper  margin_of_error
    sex
    f        19.0  11.5      0     36             18.0
    m        20.0  11.5      1     37             18.0
    >>> summary(table % 5 == 0).round(2)
         probability  monte_carlo_error
    sex
    f            0.2               0.08
    m            0.2               0.08
    """
    if not set(SAMPLE) <= set(draws.dims):
        raise LabelError(f"posterior draws have the dimensions chain and draw, found {draws.dims}")
    if draws.dtype.kind not in "biuf":
        raise ModelError(
            f"posterior draws are numbers or bool, found {draws.dtype}: compare labels with one of them, "
            "(draws == label), for its probability"
        )
    ordered = draws.transpose(*SAMPLE, ...)
    values = ordered.values.reshape(-1, int(np.prod(ordered.shape[2:])))
    columns = _probabilities(ordered) if values.dtype.kind == "b" else _estimates(values, probability)
    rest = ordered.isel(chain=0, draw=0, drop=True)
    labels = [rest.coords[dim].values if dim in rest.coords else np.arange(n) for dim, n in rest.sizes.items()]
    if not labels:
        name: list[Hashable] = [str(draws.name or "total")]
        index: pd.Index = pd.Index(name)
    elif len(labels) == 1:
        index = pd.Index(labels[0], name=str(rest.dims[0]))
    else:
        index = pd.MultiIndex.from_product(labels, names=list(map(str, rest.dims)))
    return pd.DataFrame(columns, index=index)


def _estimates(values: Array, probability: float) -> dict[str, Array]:
    """Means, standard deviations and intervals of numbers, shape (draws, numbers)."""
    tail = (1 - probability) / 2
    # the ends of intervals of integers are integers
    method: Literal["inverted_cdf", "linear"] = "linear" if values.dtype.kind == "f" else "inverted_cdf"
    lower, upper = np.quantile(values, [tail, 1 - tail], axis=0, method=method)
    return {
        "estimate": values.mean(axis=0),
        "sd": values.std(axis=0),
        "lower": lower,
        "upper": upper,
        "margin_of_error": upper / 2 - lower / 2,
    }


def _probabilities(draws: xr.DataArray) -> dict[str, Array]:
    """Share of true draws of each statement, and its Monte Carlo error."""
    numbers = draws.astype(np.float64)
    n = np.asarray(az.ess(numbers, method="mean").transpose(*draws.dims[2:]).values).ravel()
    p = numbers.values.reshape(-1, n.size).mean(axis=0)
    q = (n * p + 1) / (n + 2)
    return {"probability": p, "monte_carlo_error": np.sqrt(q * (1 - q) / n)}
