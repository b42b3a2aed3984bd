"""Sums and ranks of posterior draws of a table, by label; estimates, intervals and probabilities from draws."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp
import xarray as xr
from arviz_stats import ess
from scipy.stats import rankdata

from ppdinf._internal.values import Array
from ppdinf.errors import InvariantError, LabelError, ModelError
from ppdinf.invariants import Public
from ppdinf.invariants.statement import CellNames, GroupNames
from ppdinf.tables.frame import Frame

SAMPLE = ("chain", "draw")
SAFE = 2.0**62  # absolute sums computed in double precision below which no 64-bit sum overflows


def aggregate(draws: xr.DataArray, statement: Public) -> xr.DataArray:
    """Sum posterior draws of a table by the sums that a statement names.

    Compute ratios, ranks and comparisons from the sums of each draw: ``a / b``, ``ranks(a, "county")``, ``a > b``.
    `summary` returns their estimates and probabilities.

    Parameters
    ----------
    draws : xarray.DataArray, dimensions ``("chain", "draw", ...)``
        Draws of a table, as `ppdinf.sample_confidential` and `ppdinf.denoise` return them.
    statement : Public
        One statement that names sums: ``margin("county")``, ``groups("county", {"Erie": "west", ...})``, ``total()``,
        ``cells(...)``, ``linear(...)``.

    Returns
    -------
    xarray.DataArray of int64
        Dimensions ``("chain", "draw")`` and one dimension for the sums. The dimension is the coordinate that labels
        the sums, or ``sum`` if no single coordinate does. A single sum has no further dimension.

    Raises
    ------
    InvariantError
        There are several statements, the statement names no sums, or a sum of a draw is not a 64-bit integer.
    LabelError
        The table does not have these labels, or the draws have no dimensions ``chain`` and ``draw``.

    See Also
    --------
    ppdinf.models.summary, ppdinf.models.ranks, ppdinf.sample_confidential

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from ppdinf.models import aggregate
    >>> import ppdinf as ppd
    >>> table = xr.DataArray(np.arange(8).reshape(1, 2, 2, 2), dims=("chain", "draw", "county", "sex"))
    >>> aggregate(table, ppd.invariants.margin("county")).values.tolist()
    [[[1, 5], [9, 13]]]
    """
    if not set(SAMPLE) <= set(draws.dims):
        raise LabelError(f"draws of a table must have the dimensions chain and draw, found {draws.dims}")
    parts = list(statement) if isinstance(statement, Public) else []
    if len(parts) != 1:
        raise InvariantError("state the sums by one statement of ppdinf.invariants, such as margin('county')")
    ordered = draws.transpose(*SAMPLE, ...)
    one = ordered.isel(chain=0, draw=0, drop=True)
    frame = Frame.of(one if one.ndim else one.expand_dims("cell"))
    A, names = parts[0].equalities(frame)
    if not A.shape[0]:
        raise InvariantError(f"{statement} names no sum")
    cells = ordered.values.reshape(-1, frame.size)
    if cells.dtype.kind in "iu":
        _require_64_bits(A, cells, names)
    sums = (A @ cells.T).T.reshape(*ordered.shape[:2], A.shape[0])
    sample = {dim: ordered.coords[dim] for dim in SAMPLE if dim in ordered.coords}
    if A.shape[0] == 1:
        return xr.DataArray(sums[..., 0], dims=SAMPLE, coords=sample, name=names[0])
    dim: str
    labels: list[Hashable]
    dim, labels = "sum", list(names)
    if isinstance(names, CellNames) and len(names.by) == 1 and not names.after:
        dim, labels = names.by[0], frame.broadcast(names.by[0])[names.cells].tolist()
    elif isinstance(names, GroupNames):
        dim, labels = names.dim, [*names.groups]
    return xr.DataArray(sums, dims=(*SAMPLE, dim), coords={**sample, dim: labels}, name=str(parts[0]))


def _require_64_bits(A: sp.csr_array, cells: Array, names: Sequence[str]) -> None:
    """Raise an error that names the first sum that exceeds 64-bit integers in a draw, shape (draws, d)."""
    if not cells.size:
        return
    largest = np.maximum(cells.max(axis=0).astype(np.float64), -cells.min(axis=0).astype(np.float64))
    sizes = abs(A.astype(np.float64)) @ np.maximum(largest, 0)
    for row in np.flatnonzero(sizes >= SAFE).tolist():
        inside = slice(A.indptr[row], A.indptr[row + 1])
        exact = cells[:, A.indices[inside]].astype(object) @ A.data[inside].astype(object)
        if not -(2**63) <= min(exact) <= max(exact) < 2**63:
            raise InvariantError(
                f"the sum {names[row]!r} exceeds 64-bit integers in a draw: state smaller weights, and scale the result"
            )


def ranks(draws: xr.DataArray, dim: Hashable) -> xr.DataArray:
    """Rank the numbers along a dimension, draw by draw.

    Parameters
    ----------
    draws : xarray.DataArray
        Posterior draws of cells, sums, ratios, ...
    dim : str
        Dimension whose labels are ranked.

    Returns
    -------
    xarray.DataArray of float64
        Ranks with the shape and labels of `draws`. The smallest number has rank 1. Equal numbers have the mean of
        their ranks. The rank of nan is nan.

    Raises
    ------
    LabelError
        `draws` has no such dimension.

    See Also
    --------
    ppdinf.models.summary, ppdinf.models.aggregate

    Examples
    --------
    >>> import xarray as xr
    >>> from ppdinf.models import ranks
    >>> draws = xr.DataArray([[[30, 5, 8], [20, 9, 9]]], dims=("chain", "draw", "county"))
    >>> ranks(draws, "county").values.tolist()
    [[[3.0, 1.0, 2.0], [3.0, 1.5, 1.5]]]
    """
    if dim not in draws.dims:
        raise LabelError(f"the draws have no dimension {dim!r}, only {draws.dims}")
    ranked = rankdata(draws.values, axis=draws.get_axis_num(dim), nan_policy="omit")
    return draws.copy(data=np.asarray(ranked, dtype=np.float64))


def summary(draws: xr.DataArray, probability: float = 0.9, *, simultaneous: bool = False) -> pd.DataFrame:
    """Summarize posterior draws of numbers by estimates and intervals, and draws of statements by probabilities.

    Parameters
    ----------
    draws : xarray.DataArray, dimensions ``("chain", "draw", ...)``
        Draws of cells, sums, ratios, ranks, ..., or of bool, such as ``a > b``.
    probability : float, default 0.9
        Probability of the interval.
    simultaneous : bool, default False
        All intervals contain their numbers together with this probability (Besag et al., 1995, Section 6.3), for
        example if the largest of many areas is of interest. By default, each interval has the probability alone.

    Returns
    -------
    pandas.DataFrame
        One row per number, indexed by its labels. Columns: ``estimate`` (posterior mean), ``sd``, ``lower`` and
        ``upper`` (equal-tailed interval), and ``margin_of_error`` (half of the interval's length). Columns for bool:
        ``estimate`` (posterior probability that the statement is true) and ``monte_carlo_error``, the standard error of
        this probability for the number of effective draws. The error is nan for fewer than four draws per chain.

    Raises
    ------
    LabelError
        The draws have no dimensions ``chain`` and ``draw``.
    ModelError
        The draws are neither numbers nor bool, or `probability` is not between 0 and 1.

    See Also
    --------
    ppdinf.models.aggregate, ppdinf.models.ranks

    Notes
    -----
    Ranks and probabilities of the k largest are computed from draws: ``summary(ranks(a, "county") > n - k)``. For n
    effective draws, of which a share p is true, the Monte Carlo error is ``sqrt(q (1 - q) / n)`` with
    ``q = (n p + 1) / (n + 2)``. The error is positive even if all draws agree.

    References
    ----------
    J. Besag, P. Green, D. Higdon, K. Mengersen, "Bayesian computation and stochastic systems", Statist. Sci. 10 (1995).

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from ppdinf.models import summary
    >>> table = xr.DataArray(np.arange(40).reshape(1, 20, 2), coords={"sex": ["f", "m"]}, dims=("chain", "draw", "sex"))
    >>> summary(table).round(1)
         estimate    sd  lower  upper  margin_of_error
    sex
    f        19.0  11.5      0     36             18.0
    m        20.0  11.5      1     37             18.0
    >>> summary(table % 5 == 0).round(2)
         estimate  monte_carlo_error
    sex
    f         0.2               0.08
    m         0.2               0.08
    """
    if not set(SAMPLE) <= set(draws.dims):
        raise LabelError(f"posterior draws must have the dimensions chain and draw, found {draws.dims}")
    if not 0 < probability < 1:
        raise ModelError(f"probability must be between 0 and 1, found {probability}")
    if draws.dtype.kind not in "biuf":
        raise ModelError(
            f"posterior draws must be numbers or bool, found {draws.dtype}: for the probability of a label, pass "
            "(draws == label)"
        )
    ordered = draws.transpose(*SAMPLE, ...)
    values = ordered.values.reshape(-1, int(np.prod(ordered.shape[2:])))
    columns = _probabilities(ordered) if values.dtype.kind == "b" else _estimates(values, probability, simultaneous)
    return pd.DataFrame(columns, index=index_of(ordered.isel(chain=0, draw=0, drop=True)))


def index_of(cell: xr.DataArray) -> pd.Index:
    """Return the labels of the numbers of an array, or its name if it is a single number."""
    labels = [cell.coords[dim].values if dim in cell.coords else np.arange(n) for dim, n in cell.sizes.items()]
    if not labels:
        name: list[Hashable] = [str(cell.name or "total")]
        return pd.Index(name)
    if len(labels) == 1:
        return pd.Index(labels[0], name=str(cell.dims[0]))
    return pd.MultiIndex.from_product(labels, names=list(map(str, cell.dims)))


def _estimates(values: Array, probability: float, simultaneous: bool) -> dict[str, Array]:
    """Return means, standard deviations and intervals of numbers, shape (draws, numbers)."""
    tail = (1 - probability) / 2
    # the ends of intervals of integers are integers
    method: Literal["inverted_cdf", "linear"] = "linear" if values.dtype.kind == "f" else "inverted_cdf"
    if simultaneous:
        ordered, k = np.sort(values, axis=0), _depth(values, probability)
        lower, upper = ordered[k - 1], ordered[-k]
    else:
        lower, upper = np.quantile(values, [tail, 1 - tail], axis=0, method=method)
    return {
        "estimate": values.mean(axis=0),
        "sd": values.std(axis=0),
        "lower": lower,
        "upper": upper,
        "margin_of_error": upper / 2 - lower / 2,
    }


def _depth(values: Array, probability: float) -> int:
    """Return the largest k such that the k-th smallest and k-th largest values enclose this share of the draws."""
    least = rankdata(values, "max", axis=0), len(values) + 1 - rankdata(values, "min", axis=0)
    depths = np.sort(np.minimum(*least).min(axis=1))
    return max(int(depths[len(depths) - int(np.ceil(probability * len(depths)))]), 1)


def _probabilities(draws: xr.DataArray) -> dict[str, Array]:
    """Return the share of true draws of each statement, and its Monte Carlo error."""
    numbers = draws.astype(np.float64)
    n = np.asarray(ess(numbers, method="mean").transpose(*draws.dims[2:]).values).ravel()
    p = numbers.values.reshape(-1, n.size).mean(axis=0)
    q = (n * p + 1) / (n + 2)
    return {"estimate": p, "monte_carlo_error": np.sqrt(q * (1 - q) / n)}
