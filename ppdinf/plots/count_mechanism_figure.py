"""Mechanisms for single counts, and their effect on a histogram."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from ppdinf.counts.scales import depths
from ppdinf.plots.style import INK, NAIVE, POSTERIOR, clean, figure_style, headline

if TYPE_CHECKING:
    from ppdinf.counts import CountMechanism

__all__ = ["heat_map", "plot_count_mechanism", "plot_histograms"]

FAINTEST = 1e-6  # smallest probability that is drawn


def heat_map(mechanism: CountMechanism, axes: Axes) -> None:
    """Draw a mechanism's probabilities: counts downwards, released counts to the right.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> heat_map(ppd.counts.truncated_geometric(8, epsilon=1), Figure().subplots())
    """
    shown = np.maximum(mechanism.matrix, FAINTEST)
    axes.imshow(shown, norm=LogNorm(FAINTEST, 1), cmap="Blues", interpolation="nearest")
    axes.set(xlabel="released count", ylabel="count", title=mechanism.name)


def plot_count_mechanism(mechanism: CountMechanism) -> Figure:
    """Plot a mechanism as a heat map, next to the scales that form its columns.

    Parameters
    ----------
    mechanism : CountMechanism

    Returns
    -------
    matplotlib.figure.Figure
        Scales of a mechanism that is stored by scales are lines on a logarithmic axis: every step is a factor of
        exp(epsilon), up or down.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> figure = plot_count_mechanism(ppd.counts.heuristic([0.4, 0.3, 0.2, 0.1], epsilon=1))
    """
    with figure_style():
        figure = Figure(figsize=(9, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        heat_map(mechanism, left)
        if mechanism.scales is None:
            right.set_axis_off()
            return figure
        log_entries = np.log10(mechanism.scales.peak)[:, np.newaxis]
        log_entries = log_entries - float(mechanism.epsilon) / np.log(10) * depths(mechanism.scales.rising)
        for values in log_entries:
            right.plot(values, color=POSTERIOR, alpha=min(1.0, 8 / len(log_entries)), linewidth=1)
        right.set(xlabel="count", ylabel="log10 of the entries", ylim=(np.log10(FAINTEST), 0))
        headline(right, f"{len(log_entries)} scales")
        clean(right)
        return figure


def plot_histograms(before: ArrayLike, after: ArrayLike) -> Figure:
    """Plot the histogram of a table's counts before and after its release; for curators only.

    Parameters
    ----------
    before, after : array_like of int
        Cells of the confidential and of the released table.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> figure = plot_histograms([0, 0, 1, 3], [0, 1, 0, 2])
    """
    cells = [np.asarray(before).ravel(), np.asarray(after).ravel()]
    low, high = min(values.min() for values in cells), max(values.max() for values in cells)
    counts = np.arange(low, high + 1)
    with figure_style():
        figure = Figure(figsize=(7, 3.6), layout="constrained")
        axes = figure.subplots()
        for values, shift, colour, label in zip(
            cells, (-0.2, 0.2), (INK, NAIVE), ("confidential", "released"), strict=True
        ):
            axes.bar(counts + shift, np.bincount(values - low, minlength=counts.size), 0.4, color=colour, label=label)
        axes.set(xlabel="count", ylabel="cells")
        axes.legend(frameon=False)
        clean(axes)
        return figure
