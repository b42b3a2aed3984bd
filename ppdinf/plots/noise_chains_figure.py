"""Noise chains: convergence bounds, noise by cell, autocorrelation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ppdinf.errors import LabelError
from ppdinf.noise.mcmc.tv_bound import TVBound
from ppdinf.plots.chains import CHAINS
from ppdinf.plots.style import INK, POSTERIOR, QUIET, figure_style, headline

__all__ = ["noise_tree", "plot_autocorrelation", "plot_noise_boxes", "plot_tv_bound"]


def noise_tree(noise: NDArray[np.integer], labels: Sequence[str] | None = None) -> xr.DataTree:
    """Convert chains of noise to an ArviZ tree, for its summaries, R-hat, ESS and plots.

    Parameters
    ----------
    noise : ndarray of int, shape (chains, draws, d)
    labels : sequence of str, length d, optional
        Names of the cells.

    Returns
    -------
    xarray.DataTree
        Group ``posterior`` with ``noise`` by cell and its l1 norm ``size``.

    Examples
    --------
    >>> tree = noise_tree(np.zeros((2, 5, 3), dtype=int), labels=["a", "b", "c"])
    >>> dict(tree["posterior"].sizes)
    {'chain': 2, 'draw': 5, 'cell': 3}
    """
    from arviz_base import from_dict

    names = list(range(noise.shape[2])) if labels is None else list(labels)
    variables: dict[str, NDArray[np.integer]] = {"noise": noise, "size": np.abs(noise).sum(axis=2)}
    return from_dict({"posterior": variables}, coords={"cell": np.array(names)}, dims={"noise": ["cell"]})


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
    noise: NDArray[np.integer] | xr.DataArray, labels: Sequence[str] | None = None, draws: int = 1000
) -> Figure:
    """Plot the noise of each cell as a box: quartiles, whiskers of 1.5 interquartile ranges, extremes.

    Parameters
    ----------
    noise : ndarray, shape (chains, draws, d), or DataArray with a dimension ``draw``
        The cells of a DataArray, such as ``mechanism.simulate(table, draws=1000) - table``, have names.
    labels : sequence of str, length d, optional
        Names of the cells.
    draws : int
        Number of draws to show, evenly spaced; one draw is marked.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if isinstance(noise, xr.DataArray):
        noise, labels = _cells_last(noise, labels)
    pooled = noise.reshape(-1, noise.shape[2])
    shown = pooled[np.linspace(0, len(pooled) - 1, min(draws, len(pooled))).astype(np.int64)]
    cells = np.arange(1, noise.shape[2] + 1)
    with figure_style():
        figure = Figure(figsize=(max(5.0, min(14.0, 0.3 * cells.size + 2)), 3.8), layout="constrained")
        axes = figure.subplots()
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
        every = -(-cells.size // 20)
        names = cells.tolist() if labels is None else list(labels)
        turned = labels is not None and cells.size > 6
        axes.set_xticks(
            cells[::every], names[::every], rotation=60 if turned else 0, ha="right" if turned else "center"
        )
        axes.set_ylabel("noise")
        axes.axhline(0, color=QUIET, linewidth=0.6)
        axes.grid(axis="y", color="#E4E4E4", linewidth=0.7)
        mean = np.abs(shown.mean(axis=0)).max()
        headline(
            axes,
            f"Noise by cell: integers around zero (largest mean {mean:.2f})",
            f"{len(shown):,} draws; blue: one draw",
        )
    return figure


def _cells_last(noise: xr.DataArray, labels: Sequence[str] | None) -> tuple[NDArray[np.integer], list[str]]:
    """Return draws of a table as an array of shape (1, draws, cells), and names of the cells."""
    lead = [dim for dim in ("chain", "draw") if dim in noise.dims]
    dims = [dim for dim in noise.dims if dim not in lead]
    if "draw" not in lead or not dims:
        raise LabelError(f"noise must have the dimension 'draw' and those of the table, found {noise.dims}")
    flat = noise.transpose(*lead, *dims).values.reshape(1, -1, math.prod(noise.sizes[dim] for dim in dims))
    values = [noise.coords[dim].values if dim in noise.coords else range(noise.sizes[dim]) for dim in dims]
    return flat, list(labels or (", ".join(map(str, cell)) for cell in product(*values)))


def plot_autocorrelation(chains: Mapping[str, NDArray[np.integer]], longest: int = 100) -> Figure:
    """Plot the autocorrelation of the size of the noise and of its slowest cell.

    Parameters
    ----------
    chains : mapping of str to ndarray of int, each of shape (chains, draws, d)
        Samplers by name; the autocorrelation is averaged over chains.
    longest : int
        Largest lag, in draws.

    Returns
    -------
    matplotlib.figure.Figure
    """
    with figure_style():
        figure = Figure(figsize=(7.5, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        for (name, noise), color in zip(chains.items(), CHAINS * len(chains), strict=False):
            size = _autocorrelation(np.abs(noise).sum(axis=2)[..., None], longest)[0]
            cells = _autocorrelation(noise, longest)
            left.plot(size, color=color, label=name)
            right.plot(cells[cells.sum(axis=1).argmax()], color=color, label=name)
        for axes, title in ((left, "size of the noise, |z|"), (right, "slowest cell")):
            axes.set_xlabel("draws apart")
            axes.axhline(0, color=QUIET, linewidth=0.6)
            axes.annotate(title, (0.98, 0.95), xycoords="axes fraction", ha="right", va="top")
            axes.grid(axis="y", color="#E4E4E4", linewidth=0.7)
        left.set_ylabel("autocorrelation")
        right.legend(frameon=False, loc="center right")
        headline(left, "Autocorrelation of the chains")
    return figure


def _autocorrelation(noise: NDArray[np.integer], longest: int) -> NDArray[np.float64]:
    """Return the autocorrelation of each moving cell up to a lag, averaged over chains, shape (d, lags)."""
    from arviz_stats.base import array_stats

    moving = noise[..., np.ptp(noise, axis=(0, 1)) > 0].astype(float)
    return array_stats.autocorr(moving, axis=1)[:, : longest + 1].mean(axis=0).T
