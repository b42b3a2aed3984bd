"""Geounits without rows in the files: the total of a geounit compared with the sum over its children.

All queries that cover the histogram estimate the total of a geounit, with independent noise; they are combined with
weights by their variances. A discrete Gaussian is sub-Gaussian (Canonne, Kamath and Steinke, 2020): z standard
deviations are exceeded with a probability of at most ``2 exp(-z^2 / 2)``.
"""

from __future__ import annotations

import math
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd

from ppdinf.census.geography import named
from ppdinf.census.noisy_files import LEVELS
from ppdinf.census.schema import Histogram
from ppdinf.census.strategies import squared_sigma
from ppdinf.errors import DiagnosisWarning

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
    found: list[tuple[float, str, float, tuple[str, str]]] = []
    for coarse, fine, pairs in _with_children(totals, rows):
        difference = (pairs["total"] - pairs["total_of_children"]).to_numpy()
        deviations = np.abs(difference) / np.sqrt((pairs["variance"] + pairs["variance_of_children"]).to_numpy())
        names = zip(deviations.tolist(), pairs.index.tolist(), difference.tolist(), strict=True)
        found += [(z, code, by, (coarse, fine)) for z, code, by in names]
    if not found:
        return None
    z, code, by, (coarse, fine) = max(found)
    if z <= math.sqrt(2 * math.log(2 * len(found) / RATE)):
        return None
    side, why = ("exceeds", "is missing") if by > 0 else ("is less than", "is in the files twice")
    return (
        f"the total of {coarse} {named(code)!r} {side} the sum over its geounits of {fine} by {abs(by):,.1f}, "
        f"{z:.1f} standard deviations of the noise (false-alarm probability {RATE:g}), so that one of them {why}"
    )


def _covers(groupings: tuple[str, ...], histogram: Histogram) -> bool:
    groups = [axis.groups(name) for axis, name in zip(histogram.axes, groupings, strict=True)]
    return all(
        own is None or sorted(label for labels in own.values() for label in labels) == sorted(axis.labels)
        for axis, own in zip(histogram.axes, groups, strict=True)
    )


def _with_children(table: pd.DataFrame, rows: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """Return the rows of geounits and the sums of those of their children, if all children have a row."""
    levels = [level for level in LEVELS if level in table.index.get_level_values(0)]
    found = []
    for coarse, fine in pairwise(levels):
        parents, below = table.loc[coarse], table.loc[fine]
        width = len(parents.index[0])
        children = rows.loc[rows["level"] == fine, "geocode"].drop_duplicates().str[:width].value_counts()
        by_parent = below.groupby(below.index.str[:width])
        pairs = parents.join(by_parent.sum().add_suffix("_of_children"), how="inner")
        found.append((coarse, fine, pairs[by_parent.size().reindex(pairs.index) == children.reindex(pairs.index)]))
    return found
