"""Noise chains: convergence bounds, and noise by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ppdinf.noise.mcmc.tv_bound import TVBound
from ppdinf.plots.posterior import CHAINS
from ppdinf.plots.style import INK, POSTERIOR, QUIET, figure_style, headline


def plot_tv_bound(bounds: Mapping[str, TVBound], unit: str = "steps") -> Figure:
    """Plot bounds on the distance of chains from their target against time, each with its upper limit.

    Parameters
    ----------
    bounds : mapping of str to TVBound
        Chains, or lags of one chain, by name.
    unit : str
        Unit of a step.

    Returns
    -------
    matplotlib.figure.Figure
        Estimates are solid lines, upper confidence limits dotted. Chains with a pair that did not meet stay at 1.
    """
    longest = max(int(bound.meetings.max(initial=2)) - bound.lag for bound in bounds.values())
    times = np.unique(np.geomspace(1, max(2 * longest, 10), 400).astype(np.int64))
    with figure_style():
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        axes = figure.subplots()
        for (name, bound), color in zip(bounds.items(), CHAINS * len(bounds), strict=False):
            estimate, upper = bound.estimate(times), bound.upper(times)
            unmet = f", {bound.unmet} of {bound.meetings.size} pairs not met" if bound.unmet else ""
            positive = estimate > 0
            axes.plot(times[positive], estimate[positive], color=color, label=f"{name}{unmet}")
            axes.plot(times, upper, color=color, linestyle=":", linewidth=1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(1, times[-1])
        axes.set_ylim(top=1.5)
        axes.set_xlabel(unit)
        axes.set_ylabel("bound on total variation")
        axes.grid(color="#E4E4E4", linewidth=0.7)
        axes.axhline(0.01, color=QUIET, linewidth=0.8, linestyle="--")
        figure.legend(frameon=False, loc="outside lower center", ncols=2)
        level = next(iter(bounds.values())).confidence
        headline(
            axes,
            "Distance of the noise chain from its target",
            f"bounds from coupled chains; dotted: {level:.0%} upper limits; dashed: 0.01",
        )
    return figure


def plot_noise_boxes(
    noise: Mapping[str, NDArray[np.integer]], labels: Sequence[str] | None = None, draws: int = 1000
) -> Figure:
    """Plot the noise of each cell as a box: quartiles, whiskers of 1.5 interquartile ranges, extremes.

    Parameters
    ----------
    noise : mapping of str to ndarray of int, shape (chains, draws, d)
        One panel per item, with its name in the title.
    labels : sequence of str, length d, optional
        Names of the cells.
    draws : int
        Number of draws to show, evenly spaced; one draw is marked.

    Returns
    -------
    matplotlib.figure.Figure
    """
    cells = np.arange(1, next(iter(noise.values())).shape[2] + 1)
    with figure_style():
        figure = Figure(
            figsize=(max(5.0, min(14.0, 0.3 * cells.size + 2)), 0.8 + 3.0 * len(noise)), layout="constrained"
        )
        panels = np.ravel(figure.subplots(len(noise), sharex=True))
        for axes, (name, draw) in zip(panels, noise.items(), strict=True):
            pooled = draw.reshape(-1, cells.size)
            shown = pooled[np.linspace(0, len(pooled) - 1, min(draws, len(pooled))).astype(np.int64)]
            axes.boxplot(
                shown,
                positions=cells,
                widths=0.6,
                sym="x",
                flierprops={"markersize": 2.5, "markeredgecolor": QUIET},
                medianprops={"color": INK},
                boxprops={"color": QUIET},
                whiskerprops={"color": QUIET},
                capprops={"color": QUIET},
            )
            axes.plot(cells, shown[-1], "s", color=POSTERIOR, markersize=3)
            axes.set_ylabel("noise")
            axes.axhline(0, color=QUIET, linewidth=0.6)
            axes.grid(axis="y", color="#E4E4E4", linewidth=0.7)
            mean = np.abs(shown.mean(axis=0)).max()
            title = f"{name}: integers around zero (largest mean {mean:.2f})"
            headline(axes, title, f"{len(shown):,} draws; blue: one draw")
        every = -(-cells.size // 20)
        names = cells.tolist() if labels is None else list(labels)
        turned = labels is not None and cells.size > 6
        panels[-1].set_xticks(
            cells[::every], names[::every], rotation=60 if turned else 0, ha="right" if turned else "center"
        )
    return figure
