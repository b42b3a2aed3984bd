"""The cells of a table whose uncertainty is large compared with their counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ppdinf.errors import LabelError, ModelError
from ppdinf.plots.style import INK, figure_style, headline

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
        `probability` is not between 0 and 1; the draws are empty, text, or nan in every cell.

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
    if not 0 < probability < 1:
        raise ModelError(f"probability must be between 0 and 1, found {probability}")
    values = ordered.values.reshape(draws.sizes["chain"] * draws.sizes["draw"], *shape)
    if not values.size or values.dtype.kind not in "biuf" or np.isnan(values).any(axis=0).all():
        raise ModelError("draws must be numbers, and not nan in every cell: pass the draws of a posterior")
    estimate, ratio = _relative_margins(values, probability)
    known = ~np.isnan(ratio)
    uncertain = ratio > STEPS[1]
    shown = np.sort(np.argsort(-uncertain.sum(axis=1), kind="stable")[:ROWS])
    classes = np.ma.array(np.digitize(ratio[shown], STEPS, right=True), mask=~known[shown])
    names = [_labels(ordered, part) for part in (down, across)]
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
            f"numbers: posterior means in persons{some}",
        )
        figure.legend(
            [Patch(color=colour) for colour in SHADES], LEGEND, loc="outside lower left", ncols=4, frameon=False,
            fontsize=7.5, title=f"margin of error ({probability:.0%}) / estimate", title_fontsize=7.5, alignment="left",
        )  # fmt: skip
    return figure


def _relative_margins(values: np.ndarray, probability: float) -> tuple[np.ndarray, np.ndarray]:
    """Return estimates, and margins of error divided by them, where 0 / 0 is 0 and draws that are nan give nan."""
    tail = (1 - probability) / 2
    lower, upper = np.quantile(values, [tail, 1 - tail], axis=0)
    estimate, margin = values.mean(axis=0), (upper - lower) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return estimate, np.where(margin == 0, 0.0, margin / np.abs(estimate))


def _labels(draws: xr.DataArray, dims: list[str]) -> list[str]:
    """Return one label per combination of `dims`."""
    if not dims:
        return ["persons"]
    index = [draws.indexes[dim] if dim in draws.indexes else range(draws.sizes[dim]) for dim in dims]
    grid = np.meshgrid(*(np.arange(len(part)) for part in index), indexing="ij")
    return [
        ", ".join(str(part[k]) for part, k in zip(index, place, strict=True))
        for place in zip(*(axis.ravel().tolist() for axis in grid), strict=True)
    ]
