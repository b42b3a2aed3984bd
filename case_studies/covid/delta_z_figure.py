"""Delta_z of a count for dependent persons."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ppdinf.plots.style import INK, figure_style
from ppdinf.privacy.pufferfish import delta_z_counts


def delta_z_surface(n: int, steps: int = 20) -> NDArray[np.float64]:
    """Evaluate Delta_z of a count of n persons at z0, z1 = 0, 1/steps, ..., 1.

    Parameters
    ----------
    n : int
        Number of persons.
    steps : int
        Steps along either axis.

    Returns
    -------
    ndarray of float64, shape (steps + 1, steps + 1)
        Rows z0, columns z1; nan where z0 > z1.

    Examples
    --------
    >>> delta_z_surface(10, steps=2)
    array([[ 1., 10., 10.],
           [nan,  1., 10.],
           [nan, nan,  1.]])
    """
    surface = np.full((steps + 1, steps + 1), np.nan)
    for i, j in zip(*np.triu_indices(steps + 1), strict=True):
        surface[i, j] = delta_z_counts(n, Fraction(int(i), steps), Fraction(int(j), steps))
    return surface


def plot_delta_z(sizes: Sequence[int] = (10, 30, 100), steps: int = 20) -> Figure:
    """Plot Delta_z of a count over the strength of dependence, for several numbers of persons.

    Figure 4 of Seeman, Reimherr and Slavkovic, "Formal privacy for partially private data".

    Parameters
    ----------
    sizes : sequence of int
        Numbers of persons, one panel each.
    steps : int
        Steps of z0 and z1 between 0 and 1.

    Returns
    -------
    matplotlib.figure.Figure
        Each panel is scaled by its number of persons; contours are labelled with Delta_z.
    """
    with figure_style():
        figure = Figure(figsize=(2.7 * len(sizes) + 1.0, 3.4), layout="constrained")
        panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
        grid = np.linspace(0, 1, steps + 1)
        for axes, n in zip(panels, sizes, strict=True):
            surface = delta_z_surface(n, steps)
            image = axes.pcolormesh(grid, grid, surface.T / n, cmap="cividis", vmin=0, vmax=1, rasterized=True)
            shares = [level for level in (0.25, 0.5, 0.75, 0.9) if round(n * level) > 1]
            lines = axes.contour(
                grid, grid, surface.T, sorted({round(n * level) for level in shares}), colors="white", linewidths=0.9
            )
            axes.clabel(lines, fmt="%d", fontsize=8)
            axes.annotate(f"{n} persons", (0.97, 0.04), xycoords="axes fraction", ha="right", color=INK)
            axes.set_aspect("equal")
        panels[0].set_ylabel("z1: share of others counted\nif the person is")
        figure.supxlabel("z0: share of others counted if the person is not", fontsize=9)
        figure.colorbar(image, ax=list(panels), label="Delta_z / persons", shrink=0.85)
        figure.suptitle(
            "The more a person's value determines the others, the more noise a count needs (contours: Delta_z)",
            fontsize=10.5, fontweight="bold",
        )  # fmt: skip
    return figure
