"""A map of estimates of areas, which marks areas whose estimate is uncertain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from ppdinf.errors import CountError, LabelError, ModelError
from ppdinf.plots.style import INK, QUIET, figure_style

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

MISSING = "#DDDDDD"
WIDTH = 7.0  # inches
LEGENDS = 1.6  # inches for title, scale and legend
HEIGHTS = (3.5, 9.0)  # smallest and largest height of a figure in inches


def plot_map(
    table: pd.DataFrame, areas: GeoDataFrame, value: str = "estimate", *, unit: str = "persons", uncertain: float = 0.3
) -> Figure:
    """Plot estimates of areas as a map, with hatches where the margin of error is large.

    Parameters
    ----------
    table : pandas.DataFrame
        One row per area, indexed by its label, such as the result of ``posterior.summary(...)``.
    areas : geopandas.GeoDataFrame
        Polygons, indexed by the same labels: ``areas.set_index("GEOID")``. Install the extra ``geo``.
    value : str, default "estimate"
        Column with the values to show.
    unit : str, default "persons"
        Unit of the values, for the colour bar.
    uncertain : float, default 0.3
        Areas are hatched if half of ``upper - lower`` exceeds this share of the value.

    Returns
    -------
    matplotlib.figure.Figure
        Polygons without a value are grey, and the legend says how many there are. The title compares only areas whose
        margin of error is known.

    Raises
    ------
    LabelError
        A label is repeated, a row has no polygon, `table` has no column `value`, or `areas` is not a GeoDataFrame.
    CountError
        A column contains text or infinite numbers, or no area has a value.
    ModelError
        `uncertain` is negative or not finite.

    See Also
    --------
    plot_cells : The uncertain cells of a table, without a map.

    Examples
    --------
    >>> import pandas as pd
    >>> from ppdinf.plots import plot_map
    >>> import geopandas as gpd
    >>> from shapely import box
    >>> areas = gpd.GeoDataFrame(geometry=[box(k, 0, k + 1, 1) for k in range(3)], index=["A", "B", "C"])
    >>> table = pd.DataFrame({"estimate": [90, 4], "lower": [80, 1], "upper": [99, 8]}, index=["A", "B"])
    >>> plot_map(table, areas).get_suptitle()
    'In 1 of 2 areas the margin of error exceeds 30% of the estimate'
    """
    if getattr(areas, "active_geometry_name", None) is None:
        raise LabelError(
            f"areas must be a GeoDataFrame with polygons, found {type(areas).__name__}: read it by geopandas"
        )
    if not 0 <= uncertain < np.inf:
        raise ModelError(f"uncertain must be a share of at least 0, such as 0.3, found {uncertain}")
    for name, index in (("the table", table.index), ("the areas", areas.index)):
        if index.has_duplicates:
            raise LabelError(f"labels must be unique; {name} repeats {index[index.duplicated()].unique()[:3].tolist()}")
    areas = areas[areas.geometry.notna()]
    unknown = table.index.difference(areas.index).tolist()
    if unknown:
        rows = "1 row has" if len(unknown) == 1 else f"{len(unknown)} rows have"
        kinds = f"labels of polygons are {areas.index.dtype}, such as {areas.index[:3].tolist()}"
        raise LabelError(f"{rows} no polygon, such as {', '.join(map(repr, unknown[:3]))}; {kinds}")
    if value not in table:
        raise LabelError(f"the table has no column {value!r}; it has {', '.join(map(str, table.columns))}")
    table = table[table[value].notna()]
    if table.empty:
        raise CountError(f"the table has no number in column {value!r}: a map needs the value of at least one area")
    drawn, empty = areas.loc[table.index], areas[~areas.index.isin(table.index)]
    values, margins = _numbers(table, value), np.full(len(table), np.nan)
    if {"lower", "upper"} <= set(table.columns):
        margins = (_numbers(table, "upper") - _numbers(table, "lower")) / 2
    compared = _areas(int(np.isfinite(margins).sum()))
    doubtful = margins > uncertain * np.abs(values)
    with figure_style(), mpl.rc_context({"hatch.linewidth": 0.6}):
        figure = Figure(figsize=(WIDTH, WIDTH), layout="constrained")
        axes = figure.add_subplot()
        drawn.plot(
            column=values, ax=axes, cmap="Blues", edgecolor=QUIET, linewidth=0.4, legend=True,
            legend_kwds={"label": f"{value} ({unit})", "orientation": "horizontal", "shrink": 0.6, "pad": 0.02},
        )  # fmt: skip
        key = []
        if doubtful.any():
            drawn[doubtful].plot(ax=axes, facecolor="none", edgecolor=INK, hatch="////", linewidth=0.0)
            label = f"margin of error above {uncertain:.0%} of the {value}"
            key.append(Patch(facecolor="white", edgecolor=INK, hatch="////", label=label))
        if len(empty):
            empty.plot(ax=axes, color=MISSING, edgecolor=QUIET, linewidth=0.4)
            key.append(Patch(facecolor=MISSING, edgecolor=QUIET, label=f"{_areas(len(empty))} without a value"))
        if key:
            figure.legend(handles=key, loc="outside lower left", frameon=False, fontsize=8)
        axes.set_axis_off()
        title = f"{value} of {_areas(values.size)}"
        if doubtful.any():
            title = f"In {doubtful.sum()} of {compared} the margin of error exceeds {uncertain:.0%} of the {value}"
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=10.5)
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        shape = (high - low) / (right - left) * float(axes.get_aspect())
        figure.set_figheight(float(np.clip(WIDTH * shape + LEGENDS, *HEIGHTS)))
    return figure


def _numbers(table: pd.DataFrame, column: str) -> NDArray[np.float64]:
    """Return a column of numbers, where nan is unknown."""
    numbers = pd.to_numeric(table[column], errors="coerce").to_numpy(np.float64)
    wrong = table[column].notna().to_numpy() & ~np.isfinite(numbers)
    if wrong.any():
        found = table[column].tolist()[int(wrong.argmax())]
        raise CountError(f"column {column!r} must contain numbers, or nan where they are unknown: found {found!r}")
    return numbers


def _areas(number: int) -> str:
    return "1 area" if number == 1 else f"{number} areas"
