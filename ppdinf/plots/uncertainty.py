"""Estimates of cells and areas, with the uncertain ones marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.colors import BoundaryNorm, ListedColormap, SymLogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ppdinf._internal.values import Reals
from ppdinf.errors import CountError, LabelError, ModelError
from ppdinf.plots.style import INK, NAIVE, POSTERIOR, QUIET, clean, count_axis, figure_style, headline, label_rows

if TYPE_CHECKING:
    from geopandas import GeoDataFrame


STEPS = (0.1, 0.3, 1.0)
"""Limits of the classes: margin of error divided by the estimate."""
SHADES = ("#F2F2F2", "#B9D7EA", "#5BA3CF", "#08519C")  # light to dark, also in print without colours
LEGEND = ("below 10%", "10% to 30%", "30% to 100%", "above 100%")
ROWS, COLUMNS = 60, 40
"""Numbers of rows and columns that are readable on one page."""
WIDTH = 7.0  # inches, for the title and the legend


def plot_cells(draws: xr.DataArray, columns: str | Sequence[str] = (), *, probability: float = 0.9) -> Figure:
    """Plot the margin of error of every cell as a share of its estimate, as a table of coloured cells.

    Parameters
    ----------
    draws : xarray.DataArray, dimensions ``("chain", "draw", ...)``
        Draws of a table: ``posterior.draws`` of `ppdinf.denoise`, ``posterior.sums(...)``, or a variable of a
        posterior group.
    columns : str or sequence of str, optional
        Dimensions across the page. Default: the last dimension, if there are several.
    probability : float, default 0.9
        Probability of the intervals; the margin of error is half of their width.

    Returns
    -------
    matplotlib.figure.Figure
        Numbers are posterior means in persons. A cell with estimate 0 and margin 0 counts as certain. Of more than 60
        rows, only the 60 rows with the most cells in the upper two classes are shown, in their order; the subtitle
        says so. Cells with draws that are nan are blank, and the subtitle states their number.

    Raises
    ------
    LabelError
        The draws have no cells, `columns` are not dimensions of them, or there are more than 40 columns.
    ModelError
        `probability` is not between 0 and 1; the draws are empty, not numbers, or nan in every cell.

    See Also
    --------
    plot_map : Estimates of areas on a map.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from ppdinf.plots import plot_cells
    >>> draws = xr.DataArray(
    ...     np.random.default_rng(1).poisson([[200, 3], [40, 0.2]], (4, 100, 2, 2)),
    ...     coords={"chain": range(4), "draw": range(100), "area": ["A", "B"], "sex": ["f", "m"]},
    ... )
    >>> plot_cells(draws).axes[0].get_title(loc="left").strip()
    'In 2 of 4 cells the margin of error exceeds 30% of the estimate'
    """
    from ppdinf.models.aggregates import index_of, summary

    cells = [str(dim) for dim in draws.dims if dim not in ("chain", "draw")]
    across = [columns] if isinstance(columns, str) else list(columns) or cells[1:][-1:]
    missing = [dim for dim in ("chain", "draw", *across) if dim not in draws.dims]
    if not cells or missing:
        raise LabelError(f"draws must have the dimensions chain, draw, and those of a table; missing: {missing}")
    down = [dim for dim in cells if dim not in across]
    ordered = draws.transpose("chain", "draw", *down, *across)
    shape = [int(np.prod([draws.sizes[dim] for dim in part], dtype=int)) for part in (down, across)]
    if shape[1] > COLUMNS:
        raise LabelError(f"{shape[1]} columns do not fit on a page of {COLUMNS}: select some, or sum the draws")
    if not draws.size or draws.dtype.kind not in "iuf" or bool(draws.isnull().any(["chain", "draw"]).all()):
        raise ModelError("draws must be numbers, and not nan in every cell: pass the draws of a posterior")
    found = summary(ordered, probability)
    estimate, margin = (found[name].to_numpy().reshape(shape) for name in ("estimate", "margin_of_error"))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(margin == 0, 0.0, margin / np.abs(estimate))
    known = ~np.isnan(ratio)
    uncertain = ratio > STEPS[1]
    shown = np.sort(np.argsort(-uncertain.sum(axis=1), kind="stable")[:ROWS])
    classes = np.ma.array(np.digitize(ratio[shown], STEPS, right=True), mask=~known[shown])
    names = []
    for part in (down, across):
        labels = index_of(ordered.rename("persons").isel(dict.fromkeys({*draws.dims} - {*part}, 0)))
        names.append([label_text(label) for label in labels])
    with figure_style():
        figure = Figure(figsize=(max(2.2 + 0.62 * shape[1], WIDTH), 1.5 + 0.22 * shown.size), layout="constrained")
        axes = figure.add_subplot()
        colours = ListedColormap(list(SHADES))
        axes.pcolormesh(
            classes, cmap=colours, norm=BoundaryNorm(np.arange(-0.5, 4.5), 4),
            edgecolors="white", linewidth=1,
        )  # fmt: skip
        for i, row in enumerate(shown.tolist()):
            for j in np.flatnonzero(known[row]).tolist():
                digits = 1 if estimate[row, j] < 9.95 else 0
                axes.text(
                    j + 0.5, i + 0.5, f"{estimate[row, j]:,.{digits}f}", ha="center", va="center", fontsize=7,
                    color="white" if uncertain[row, j] else INK,
                )  # fmt: skip
        axes.invert_yaxis()
        axes.set_xticks(np.arange(shape[1]) + 0.5, names[1], fontsize=7, rotation=30 if shape[1] > 6 else 0)
        axes.set_yticks(np.arange(shown.size) + 0.5, [names[0][row] for row in shown], fontsize=7)
        axes.set(xlabel=", ".join(across), ylabel=", ".join(down))
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        some = f"; {shown.size} of {shape[0]} rows" if shown.size < shape[0] else ""
        if blank := int((~known).sum()):
            some += f"; {blank} cell{'s' * (blank > 1)} with draws that are nan {'are' if blank > 1 else 'is'} blank"
        headline(
            axes,
            f"In {uncertain.sum()} of {known.sum()} cells the margin of error exceeds 30% of the estimate",
            f"numbers: posterior means in persons; rows in the order of the table{some}",
        )
        figure.legend(
            [Patch(color=colour) for colour in SHADES], LEGEND, loc="outside lower left", ncols=4, frameon=False,
            fontsize=7.5, title=f"margin of error ({probability:.0%}) / estimate", title_fontsize=7.5, alignment="left",
        )  # fmt: skip
    return figure


LONGEST = 40  # rows of a figure of intervals
KEYS: dict[str, tuple[str, dict[str, Any]]] = {
    "least": ("possible", {"color": QUIET, "linewidth": 0.9}),
    "estimate": ("posterior mean and 90% interval", {"color": POSTERIOR, "marker": "o", "linewidth": 2}),
    "published": ("published", {"color": NAIVE, "marker": "x", "linestyle": "none"}),
    "disclosed": (
        "not published, but determined",
        {"color": INK, "marker": "D", "markerfacecolor": "none", "linestyle": "none"},
    ),
}  # by the column that shows it


def plot_intervals(table: pd.DataFrame) -> Figure:
    """Plot intervals of cells or sums, and mark those that are disclosed.

    Parameters
    ----------
    table : pandas.DataFrame
        One row per cell, indexed by its labels. Columns in persons: ``estimate``, ``lower`` and ``upper`` of a
        posterior; ``least`` and ``most``, the possible counts; ``published``. The column ``disclosed`` is as in
        `ppdinf.identified_bounds`. Columns may be missing.

    Returns
    -------
    matplotlib.figure.Figure
        At most 40 rows, in the order of the table: the disclosed ones first, then those with the widest intervals
        relative to their estimate or, without estimates, the narrowest ranges of several counts. The label of the
        axis states the choice. Counts above 10 are on a logarithmic scale if counts exceed 100.

    Raises
    ------
    LabelError
        The table has neither ``estimate`` nor ``least``.

    See Also
    --------
    plot_cells, ppdinf.identified_bounds

    Examples
    --------
    >>> import pandas as pd
    >>> from ppdinf.plots import plot_intervals
    >>> table = pd.DataFrame({"least": [1, 4], "most": [3, 4], "disclosed": [False, True]}, index=["A", "B"])
    >>> [label.get_text() for label in plot_intervals(table).axes[0].get_yticklabels()]
    ['A', 'disclosed: B']
    """
    if not {"estimate", "least"} & set(table.columns):
        raise LabelError(f"the table needs a column 'estimate' or 'least', found {', '.join(map(str, table.columns))}")
    shown, some = _chosen_rows(table)
    marked = shown["disclosed"].to_numpy(bool)
    places = np.arange(len(shown))
    columns = set(table.columns)
    with figure_style():
        figure = Figure(figsize=(WIDTH, 1.3 + 0.2 * len(shown)), layout="constrained")
        axes = figure.add_subplot()
        ends = shown[sorted({"upper", "most", "published"} & columns)]
        largest = float(np.nanmax(ends.replace(np.inf, np.nan)))
        count_axis(axes, ends)
        if "least" in columns:
            least, most = shown[["least", "most"]].to_numpy(np.float64).T
            most = np.minimum(most, largest)
            axes.hlines(places, least, most, color=QUIET, linewidth=0.9)
            single = np.flatnonzero(least == most)
            axes.plot(least[single], single, ".", color=QUIET)
            axes.plot(least[marked], places[marked], "D", color=INK, markersize=7, markerfacecolor="none")
        if "estimate" in columns:
            axes.hlines(places, shown["lower"], shown["upper"], color=POSTERIOR, linewidth=2, alpha=0.5)
            axes.plot(shown["estimate"], places, "o", color=POSTERIOR, markersize=4)
        if "published" in columns:
            axes.plot(shown["published"], places, "x", color=NAIVE, markersize=5)
        axes.set_xlim(left=min(-0.5, axes.get_xlim()[0]))
        label_rows(axes, [label_text(label) for label in shown.index], marked, "disclosed")
        axes.set_ylabel(f"{some}in the order of the table", fontsize=8)
        clean(axes)
        keys = [KEYS[column] for column in KEYS if column in columns and (column != "disclosed" or marked.any())]
        handles = [Line2D([], [], markersize=4, label=text, **style) for text, style in keys]
        figure.legend(handles=handles, loc="outside upper left", ncols=len(keys), frameon=False, fontsize=7.5)
    return figure


def _chosen_rows(table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the rows of a figure of intervals with the column ``disclosed``, and how they were chosen."""
    table = table if "disclosed" in table else table.assign(disclosed=False)
    if len(table) <= LONGEST:
        return table, ""
    if "estimate" in table:
        rank = (table["lower"] - table["upper"]) / table["estimate"].clip(lower=1)
        choice = "the widest intervals relative to the estimate"
    else:
        rank = (table["most"] - table["least"]).replace(0, np.inf)  # single counts are published or disclosed
        choice = "the narrowest ranges of several counts"
    disclosed = table["disclosed"].to_numpy(bool)
    chosen = np.lexsort((rank, ~disclosed))[:LONGEST]
    words = "disclosed ones and " * any(disclosed) + choice
    return table.iloc[np.sort(chosen)], f"{LONGEST} of {len(table)}: {words}; "


def label_text(label: object) -> str:
    """Return the label of a row as text, also of several dimensions."""
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


MISSING = "#DDDDDD"
TINTS = ListedColormap(mpl.colormaps["Blues"](np.linspace(0.15, 0.8, 256)))  # the smallest value is not white
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
        Polygons without a value are grey, and the legend says how many there are. Colours above 10 are on a logarithmic
        scale if values exceed 100. The title compares only areas whose
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
    norm = SymLogNorm(10, vmin=values.min(), vmax=values.max()) if values.max() > 100 else None
    with figure_style(), mpl.rc_context({"hatch.linewidth": 1.0}):
        figure = Figure(figsize=(WIDTH, WIDTH), layout="constrained")
        axes = figure.add_subplot()
        drawn.plot(
            column=values, ax=axes, cmap=TINTS, norm=norm, edgecolor=QUIET, linewidth=0.4, legend=True,
            legend_kwds={"label": f"{value} ({unit})", "location": "bottom", "shrink": 0.6, "format": "{x:,g}"},
        )  # fmt: skip
        key = []
        if doubtful.any():
            drawn[doubtful].plot(ax=axes, facecolor="none", edgecolor=NAIVE, hatch="////", linewidth=0.0)
            label = f"margin of error above {uncertain:.0%} of the {value}"
            key.append(Patch(facecolor="white", edgecolor=NAIVE, hatch="////", label=label))
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


def _numbers(table: pd.DataFrame, column: str) -> Reals:
    """Return a column of numbers, where nan is unknown."""
    numbers = pd.to_numeric(table[column], errors="coerce").to_numpy(np.float64)
    wrong = table[column].notna().to_numpy() & ~np.isfinite(numbers)
    if wrong.any():
        value = table[column].tolist()[int(wrong.argmax())]
        raise CountError(f"column {column!r} must contain numbers, or nan where they are unknown: found {value!r}")
    return numbers


def _areas(number: int) -> str:
    return "1 area" if number == 1 else f"{number} areas"
