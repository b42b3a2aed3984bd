"""The smallest and largest value of every cell and sum that agrees with everything published with certainty."""

from __future__ import annotations

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.denoising.contradictory_numbers import require_possible_numbers
from ppdinf.distributions.published_ranges import groups_of_rows
from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.identified_sums import Rows, identified_sums
from ppdinf.invariants import Public
from ppdinf.invariants.statement import Joined
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.measurements import Measurements
from ppdinf.releases import Release


def identified_bounds(
    data: Measurements | Release | list[Release],
    of: Public | None = None,
    *,
    seconds: float = 300.0,
    progressbar: bool = True,
) -> pd.DataFrame:
    """Return the smallest and largest value of every cell, or of sums of cells, given all certain statements.

    A table of counts agrees with the statements if it is non-negative, has the exact sums, and every other published
    number is possible for it. Ranges, suppressed cells and rounded numbers therefore limit the table. Noise with
    unlimited support does not. The bounds hold for every such table and are attained by one.

    Parameters
    ----------
    data : Measurements, Release or list of Release
    of : Public, optional
        Sums to bound, such as ``ppd.invariants.margin("county")``; by default every cell.
    seconds : float, default 300
        Time limit of integer programmes, in seconds.
    progressbar : bool, default True
        Shows progress where integer programmes are necessary.

    Returns
    -------
    pandas.DataFrame
        One row per cell, indexed by its labels, or one row per sum, indexed by its name:

        - ``lower``, ``upper``: the bounds in persons, integers (infinite if nothing limits the cell);
        - ``disclosed``: True if both are equal although the value itself is not published: the statements determine it;
        - ``exact``: True if tables attain both bounds, or exceed every number where a bound is infinite. False if the
          time was not sufficient for a proof; the bounds then hold, but may be too wide.

    Raises
    ------
    InvariantError
        No table agrees with all statements. The message names statements that contradict each other, or a number that
        is impossible for every table, such as a published -2 without noise.

    Notes
    -----
    If any two sums are nested or disjoint, the cost is linear in the cells. Otherwise integer programmes are solved by
    HiGHS, in seconds to minutes (docs/speed.md). If the values that a published number permits have holes, only the
    smallest and the largest are used.

    See Also
    --------
    ppdinf.denoise : The posterior of the table, which also says how probable each value is.

    References
    ----------
    L. H. Cox, "Suppression methodology and statistical disclosure control", J. Amer. Statist. Assoc. 75 (1980), for
    the audit of suppressed tables.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> inv = ppd.invariants
    >>> counts = ppd.measured(inv.margin("area", "sex"), [["<5", "<5"], ["20", "<5"]], ppd.laws.Interval())
    >>> seen = ppd.Measurements({"area": ["A", "B"], "sex": ["f", "m"]}, counts, public={inv.margin("area"): [6, 23]})
    >>> ppd.identified_bounds(seen).disclosed.tolist()
    [False, False, False, True]
    >>> by_sex = ppd.identified_bounds(seen, of=inv.margin("sex"))
    >>> by_sex.index.tolist(), by_sex.lower.tolist(), by_sex.upper.tolist()
    (['sex=f', 'sex=m'], [22, 5], [24, 7])
    """
    if isinstance(data, Release | list | tuple):
        data = Measurements.of_releases([data] if isinstance(data, Release) else data)
    if not isinstance(data, Measurements):
        raise ModelError(f"identified_bounds takes Measurements or releases, found {type(data).__name__}")
    if not isinstance(of, Public | None):
        raise InvariantError(f"of must be a statement such as ppd.invariants.margin('county'), found {of!r}")
    require_possible_numbers(data)
    system, frame, entries = data.public, data.frame, data.entries
    low, high = entries.support_bounds(0.0)
    certain = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
    rows = Rows(
        sp.csr_array(sp.vstack([system.A, system.B, entries.matrix[certain]], format="csr")),
        np.concatenate([system.values, system.limits, low[certain]]).astype(np.float64),
        np.concatenate([system.values, np.full(system.limits.size, np.inf), high[certain]]).astype(np.float64),
    )
    cells = np.zeros(frame.size), np.where(system.empty, 0.0, np.inf)
    wanted, index = _wanted(data, of)
    single = np.diff(rows.matrix.indptr) == 1  # statements about single cells are bounds, not rows
    try:
        rows, cells = _without_single_cells(rows, single, cells)
        lower, upper, exact = identified_sums(rows, cells, wanted, seconds, progressbar)
    except InvariantError:
        _name_contradiction(data, certain, low, high)
        raise
    known = np.flatnonzero(np.where(entries.matrix.min(axis=1).toarray().ravel() < 0, low, np.maximum(low, 0)) == high)
    published = sp.csr_array(sp.vstack([system.A, entries.matrix[known], wanted], format="csr"))
    group = groups_of_rows(published)
    hidden = ~np.isin(group[-lower.size :], group[: -lower.size])
    finite = bool(np.isfinite(lower).all() and np.isfinite(upper).all())
    kind = np.int64 if finite else np.float64
    return pd.DataFrame(
        {
            "lower": lower.astype(kind),
            "upper": upper.astype(kind),
            "disclosed": hidden & (lower == upper),
            "exact": exact,
        },
        index,
    )


def _wanted(data: Measurements, of: Public | None) -> tuple[sp.csr_array, pd.Index]:
    """Return the sums to bound, and their labels."""
    frame = data.frame
    if of is None:
        labels = [frame.coords[dim][1] for dim in frame.dims]
        index = (
            pd.Index(labels[0], name=frame.dims[0])
            if len(labels) == 1
            else pd.MultiIndex.from_product(labels, names=frame.dims)
        )
        return sp.csr_array(sp.eye_array(frame.size, dtype=np.int64, format="csr")), index
    parts = [part.equalities(frame) for part in of]
    names = Joined([part[1] for part in parts])
    if not len(names):
        raise InvariantError(f"of= has no sums ({of}): pass for example ppd.invariants.margin('county')")
    matrix = sp.csr_array(sp.vstack([part[0] for part in parts], format="csr"))
    return matrix, pd.Index(list(names), name="sum")


def _without_single_cells(rows: Rows, single: Flags, cells: tuple[Reals, Reals]) -> tuple[Rows, tuple[Reals, Reals]]:
    """Convert statements about single cells to bounds on the counts of the cells."""
    low, high = cells[0].copy(), cells[1].copy()
    alone = rows.matrix[np.flatnonzero(single)]
    ends = np.stack([rows.low[single], rows.high[single]]) / alone.data
    np.maximum.at(low, alone.indices, np.ceil(ends.min(axis=0)))
    np.minimum.at(high, alone.indices, np.floor(ends.max(axis=0)))
    if np.any(low > high):
        raise InvariantError("no table satisfies all statements")
    rest = np.flatnonzero(~single)
    return Rows(rows.matrix[rest], rows.low[rest], rows.high[rest]), (low, high)


def _name_contradiction(data: Measurements, certain: Integers, low: Reals, high: Reals) -> None:
    """Raise an error that names statements that contradict each other."""
    system, entries = data.public, data.entries
    unit = sp.eye_array(data.frame.size, dtype=np.int64, format="csr")
    from_below, from_above = (certain[np.isfinite(end[certain])] for end in (low, high))
    nearest_feasible(
        system.A,
        system.values,
        sp.vstack([system.B, unit, entries.matrix[from_below], -entries.matrix[from_above]]),
        np.concatenate([system.limits, np.zeros(data.frame.size), low[from_below], -high[from_above]]).astype(np.int64),
        row_names=system.names,
        bound_names=[
            *system.bound_names,
            *(f"a count of at least 0 at {data.frame.cell(k)}" for k in range(data.frame.size)),
            *(entries.names[k] for k in from_below.tolist()),
            *(entries.names[k] for k in from_above.tolist()),
        ],
    )
