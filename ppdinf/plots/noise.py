"""Distribution of the noise in one cell, drawn by the mechanism."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from ppdinf.errors import PrivacyError
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.plots.style import NAIVE, figure_style, headline
from ppdinf.releases import Release

VALUES = 200_000
"""Noise values to draw: frequencies have an error of about 0.002."""


def noise_values(release: Release) -> np.ndarray:
    """Draw new noise from the mechanism of a release, pooled over the cells with noise."""
    system = release.public
    noisy = np.flatnonzero(~system.structure.fixed)
    if not noisy.size:
        raise PrivacyError("the public sums determine every cell: the noise is always 0")
    draws = -(-VALUES // noisy.size)
    # simulate at the released table, which is public; for most mechanisms the noise does not depend on the table
    around, stream = release.table.values.ravel(), seeded_stream(np.random.default_rng(1))
    mechanism: Any = release.mechanism
    return (mechanism.draw(release.kept, around, draws, stream, release.plan) - around)[:, noisy].ravel()


def plot_noise(release: Release) -> Figure:
    """Plot the distribution of the noise of a cell: frequencies, standard deviation, median and tail.

    Parameters
    ----------
    release : Release
        About 200,000 new values of its noise are drawn. The released counts are not used, and the new noise is
        independent of the noise of the release.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    PrivacyError
        The public sums determine every cell, so that the noise is always 0.

    See Also
    --------
    ppdinf.plots.plot_plan

    Examples
    --------
    >>> import ppdinf as ppd
    >>> release = ppd.Release([30, 4, 12], ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/10"))
    >>> ppd.plots.plot_noise(release).axes[0].get_title(loc="left").strip()
    'Noise changes counts by 9.1 persons (sd), at least half of them by 5 or less'
    """
    noise = noise_values(release)
    distance = np.abs(noise)
    often, tail_probability = (math.ceil(np.quantile(distance, q, method="inverted_cdf")) for q in (0.5, 0.95))
    edge = int(np.quantile(distance, 0.999, method="inverted_cdf")) + 1
    width = 2 * (edge // 60) + 1  # odd, so that one bar is centered at zero
    edges = np.arange(-(edge // width) - 1, edge // width + 2) * width + np.array([-width / 2])
    share, _ = np.histogram(noise, bins=edges)
    share = share / noise.size
    middle = (edges[:-1] + edges[1:]) / 2

    with figure_style():
        figure = Figure(figsize=(7.5, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.bar(
            middle, share, width=0.86 * width, color=np.where(abs(middle) > tail_probability, NAIVE, "#9AA5B1").tolist()
        )
        axes.set_xlabel("noise in one cell (persons)")
        axes.set_ylabel("share of cells" if width == 1 else f"share of cells, per {width} persons")
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.grid(axis="y", color="#E4E4E4", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.tick_params(axis="both", length=0)
        axes.annotate(
            f"{(distance > tail_probability).mean():.1%} of cells are off\nby more than {tail_probability}",
            (tail_probability + 1.5 * width, share[middle > tail_probability].max()),
            xytext=(10, 34),
            textcoords="offset points",
            color=NAIVE,
            arrowprops={"arrowstyle": "-", "color": NAIVE, "linewidth": 0.8},
        )
        headline(
            axes,
            f"Noise changes counts by {noise.std():.1f} persons (sd), at least half of them by {often} or less",
            f"{_law(release)}; frequencies of {noise.size:,} new draws",
        )
    return figure


def _law(release: Release) -> str:
    kind, *parameters = release.mechanism.to_dict().items()
    return f"{kind[1]} noise, " + ", ".join(f"{name} = {value}" for name, value in parameters)
