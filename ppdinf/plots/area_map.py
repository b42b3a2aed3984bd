"""A map of estimates of areas, which marks areas whose estimate is uncertain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ppdinf.errors import LabelError
from ppdinf.plots.style import INK, QUIET, figure_style, headline

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

__all__ = ["plot_map"]

MISSING = "#DDDDDD"


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
        Polygons without a value are grey, and the legend says how many there are.

    Raises
    ------
    LabelError
        A label is repeated, a row has no polygon, or `table` has no column `value`.

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
    >>> plot_map(table, areas).axes[0].get_title(loc="left").strip()
    'In 1 of 2 areas the margin of error exceeds 30% of the estimate'
    """
    for name, index in (("the table", table.index), ("the areas", areas.index)):
        if index.has_duplicates:
            raise LabelError(f"labels must be unique; {name} repeats {index[index.duplicated()].unique()[:3].tolist()}")
    unknown = table.index.difference(areas.index)
    if len(unknown):
        kinds = f"labels of areas are {areas.index.dtype}, such as {areas.index[:3].tolist()}"
        raise LabelError(f"{len(unknown)} rows have no polygon, such as {unknown[:3].tolist()}; {kinds}")
    if value not in table:
        raise LabelError(f"the table has no column {value!r}; it has {', '.join(map(str, table.columns))}")
    table = table[table[value].notna()]
    drawn, empty = areas.loc[table.index], areas[~areas.index.isin(table.index)]
    values = table[value].to_numpy(np.float64)
    doubtful = np.zeros(values.size, dtype=bool)
    if {"lower", "upper"} <= set(table.columns):
        doubtful = (table["upper"] - table["lower"]).to_numpy(np.float64) / 2 > uncertain * np.abs(values)
    with figure_style(), mpl.rc_context({"hatch.linewidth": 0.6}):
        figure = Figure(figsize=(7, 6), layout="constrained")
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
            key.append(Patch(facecolor=MISSING, edgecolor=QUIET, label=f"{len(empty)} areas without a value"))
        if key:
            figure.legend(handles=key, loc="outside lower left", frameon=False, fontsize=8)
        axes.set_axis_off()
        headline(
            axes,
            f"In {doubtful.sum()} of {values.size} areas the margin of error exceeds {uncertain:.0%} of the {value}"
            if doubtful.any()
            else f"{value} of {values.size} areas",
        )
    return figure
