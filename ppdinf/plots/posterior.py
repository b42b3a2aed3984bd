"""The posterior: the confidential table cell by cell, and traces and ranks of chains."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike
from scipy.stats import gamma

from ppdinf._internal.values import Reals
from ppdinf.errors import LabelError, ModelError
from ppdinf.plots.style import INK, NAIVE, POSTERIOR, QUIET, clean, count_axis, cut_outliers, figure_style, label_rows
from ppdinf.releases import Release

PROBABILITY = 0.9
TAILS = ((1 - PROBABILITY) / 2, (1 + PROBABILITY) / 2)
ROWS = 80
"""Number of rows that are readable on one page."""


def naive_interval(counts: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact Poisson interval for the mean of each count, as if the counts were true."""
    counts = np.asarray(counts)
    known = counts >= 0
    k = np.where(known, counts, 1)
    lower = np.where(k > 0, gamma.ppf(TAILS[0], np.maximum(k, 1)), 0.0)
    upper = gamma.ppf(TAILS[1], k + 1)
    return np.where(known, lower, np.nan), np.where(known, upper, np.nan)


def plot_posterior_table(
    idata: xr.DataTree,
    release: Release,
    name: str,
    *,
    rate: str | None = None,
    exposure: str | None = None,
    truth: xr.DataArray | None = None,
) -> Figure:
    """Plot released counts against posterior intervals, and rates against the naive analysis.

    Parameters
    ----------
    idata : xarray.DataTree
        Result of `pm.sample`.
    release : Release
    name : str
        Name of the confidential table in the posterior.
    rate, exposure : str, optional
        Posterior variable with the expected count per unit of exposure, and the covariate of the release with the
        exposure (population). With both, a second panel shows rates per 100,000, except for cells with exposure 0.
    truth : xarray.DataArray, optional
        The confidential table with the labels of the release, where it is known, such as of simulated data. Its counts
        are marked as confidential.

    Returns
    -------
    matplotlib.figure.Figure
        One row per cell, in the decreasing order that the label of the axis states; of more than 80 cells only the 80
        smallest, which noise affects most. Bold rows are determined by the public sums. Draws are matched to the
        release by label. If few rates would press the others together, the axis ends before them, and their values
        are printed at its ends.

    Raises
    ------
    ModelError
        The posterior has no variable `name` or `rate`, or draws of `name` are nan.
    LabelError
        The posterior has other dimensions than the release, repeats a label, or lacks one. Only one of `rate` and
        `exposure` is given.

    See Also
    --------
    ppdinf.plots.plot_cells, ppdinf.plots.plot_map

    Examples
    --------
    >>> import numpy as np, xarray as xr, ppdinf as ppd
    >>> release = ppd.Release([3, -1, 4], ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> draws = np.random.default_rng(1).multinomial(6, [0.5, 0.1, 0.4], (2, 50))
    >>> posterior = xr.Dataset({"counts": (("chain", "draw", "dim_0"), draws)}, {"dim_0": [0, 1, 2]})
    >>> idata = xr.DataTree.from_dict({"posterior": posterior})
    >>> figure = ppd.plots.plot_posterior_table(idata, release, "counts")
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['0', '2', '1']
    """
    if (rate is None) != (exposure is None):
        raise LabelError("the panel of rates requires both rate and exposure")
    draws = _cells(idata, name, release)
    if (unknown := np.isnan(draws).any(axis=0)).any():
        cell = release.frame.cell(int(unknown.argmax()))
        raise ModelError(
            f"the posterior of {name!r} has draws that are nan in {unknown.sum()} cells, such as {cell}: pass the "
            "posterior as it was drawn"
        )
    released = release.table.values.ravel()
    size = release.frame.broadcast(exposure) if exposure else draws.mean(axis=0)
    order = np.argsort(-size, kind="stable")[-ROWS:]
    names = [", ".join(str(release.frame.label(dim, int(cell))) for dim in release.dims) for cell in order]

    with figure_style():
        figure = Figure(figsize=(10, 1.6 + 0.145 * len(order)), layout="constrained")
        panels = figure.subplots(1, 2 if rate else 1, sharey=True, squeeze=False)[0]
        known = None
        if truth is not None:
            by_label = truth.sel({dim: release.table[dim] for dim in release.dims})
            known = by_label.transpose(*release.dims).values.ravel()[order]
        _counts_panel(panels[0], draws[:, order], released[order], known)
        if rate is None:
            lower, upper = np.quantile(draws[:, order], TAILS, axis=0)
            outside = int(np.sum((released[order] < lower) | (released[order] > upper)))
            title = f"{outside} of {len(order)} released counts are outside the posterior interval ({PROBABILITY:.0%})"
        else:
            somebody = np.where(size[order] > 0, size[order], np.nan)  # the rate is undefined if nobody is at risk
            scale = 1e5 / somebody
            rates = 1e5 * np.where(np.isnan(somebody), np.nan, _cells(idata, rate, release)[:, order])
            _rates_panel(panels[1], rates, released[order], scale)
            title = _takeaway_rates(rates, released[order] * scale)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=12)
        label_rows(panels[0], names, release.public.structure.fixed[order], "exact", 7)
        some = f"the {len(order)} smallest of {size.size} cells, " if len(order) < size.size else ""
        panels[0].set_ylabel(f"{some}by decreasing {exposure or 'posterior mean'}", fontsize=8)
    return figure


def _cells(idata: xr.DataTree, name: str, release: Release) -> np.ndarray:
    """Return draws of a posterior variable, one column per cell of the release."""
    if name not in idata.posterior:
        raise ModelError(f"the posterior has no {name!r}; it has {', '.join(map(repr, idata.posterior.data_vars))}")
    draws: xr.DataArray = idata.posterior[name]
    expected = ("chain", "draw", *release.dims)
    if set(draws.dims) != set(expected):
        raise LabelError(
            f"the posterior of {name!r} has dimensions {draws.dims}: expected {expected}, those of draws of the release"
        )
    places = {
        dim: _places(draws.get_index(dim), release.coords[dim], f"{name!r} along {dim!r}") for dim in release.dims
    }
    return draws.transpose(*expected).isel(places).values.reshape(-1, release.frame.size)


def _places(labels: pd.Index, wanted: np.ndarray, where: str) -> np.ndarray:
    """Return the positions of the labels of a release among those of a posterior variable."""
    if not labels.is_unique:
        repeated = labels[labels.duplicated()].tolist()[0]
        times = int((labels == repeated).sum())
        raise LabelError(f"the posterior of {where} has the label {repeated!r} {times} times: labels must be unique")
    places = labels.get_indexer(pd.Index(wanted))
    if (places < 0).any():
        absent = wanted.tolist()[int(np.argmin(places))]
        raise LabelError(
            f"the posterior of {where} has no label {absent!r}; its labels are such as {labels[:3].tolist()}: "
            "pass a posterior with all labels of the release"
        )
    return places


def _counts_panel(axes: Axes, draws: np.ndarray, released: np.ndarray, truth: np.ndarray | None) -> None:
    rows = np.arange(released.size)
    lower, upper = np.quantile(draws, TAILS, axis=0)
    axes.hlines(rows, lower, upper, color=POSTERIOR, linewidth=2.4, alpha=0.55)
    axes.plot(draws.mean(axis=0), rows, "o", color=POSTERIOR, markersize=3.6)
    axes.plot(released, rows, "D", color=NAIVE, markersize=3.6, markerfacecolor="white", markeredgewidth=1.1)
    if truth is not None:
        axes.plot(truth, rows, "|", color=INK, markersize=7, markeredgewidth=1.4)
    count_axis(axes, [released, upper])
    axes.axvline(0, color=QUIET, linewidth=0.8)
    clean(axes)
    known = "" if truth is None else "confidential, known in this demo only"
    _key(axes, "Counts", "released, with its noise", "none", f"posterior mean and {PROBABILITY:.0%} interval", known)


def _rates_panel(axes: Axes, rates: np.ndarray, released: np.ndarray, scale: np.ndarray) -> None:
    rows = np.arange(released.size)
    lower, upper = np.quantile(rates, TAILS, axis=0)
    low, high = naive_interval(released)
    below = released < 0
    axes.hlines(rows - 0.17, low * scale, high * scale, color=NAIVE, linewidth=1.2)
    axes.plot(released * scale, rows - 0.17, "D", color=NAIVE, markersize=3.2, markerfacecolor="white")
    axes.plot(released[below] * scale[below], rows[below] - 0.17, "D", color=NAIVE, markersize=3.2)
    axes.hlines(rows + 0.17, lower, upper, color=POSTERIOR, linewidth=2.4, alpha=0.55)
    axes.plot(rates.mean(axis=0), rows + 0.17, "o", color=POSTERIOR, markersize=3.6)
    cut_outliers(axes, rows, np.fmin(released * scale, lower), np.fmax(high * scale, upper))
    axes.axvline(0, color=QUIET, linewidth=0.8)
    axes.set_xlabel("per 100,000 persons" + ("; filled: noisy count below zero, no interval" if below.any() else ""))
    clean(axes)
    _key(axes, "Rates", "naive: noisy count as if true", "-", f"posterior mean and {PROBABILITY:.0%} interval")


def _key(axes: Axes, title: str, naive: str, line: Literal["-", "none"], posterior: str, truth: str = "") -> None:
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold", color=INK, pad=36 if truth else 22)
    entries = [
        (Line2D([], [], color=NAIVE, marker="D", markerfacecolor="white", markersize=4, linestyle=line), naive, NAIVE),
        (Line2D([], [], color=POSTERIOR, marker="o", markersize=4, linewidth=2.4), posterior, POSTERIOR),
        (Line2D([], [], color=INK, marker="|", markersize=7, markeredgewidth=1.4, linestyle="none"), truth, INK),
    ][: 3 if truth else 2]
    handles, texts, colors = zip(*entries, strict=True)
    axes.legend(
        handles, texts, loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=2, frameon=False,
        fontsize=8, handlelength=1.6, columnspacing=1.2, borderaxespad=0.2, labelcolor=colors,
    )  # fmt: skip


def _takeaway_rates(rates: np.ndarray, naive: np.ndarray) -> str:
    mean = rates.mean(axis=0)
    different, known = int(np.sum(np.abs(naive - mean) > 0.25 * mean)), int(np.isfinite(mean).sum())
    if different == 0:
        return f"Noise has little effect: all {known} naive rates are within 25% of the posterior means"
    return f"Treated as true, the noisy counts give {different} of {known} rates more than 25% from the posterior mean"


CHAINS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#F0E442"]


def plot_chains(idata: xr.DataTree, var_names: list[str] | None = None, *, trusted: bool = True) -> Figure:
    """Plot the trace and the ranks of each chain, by ArviZ.

    Parameters
    ----------
    idata : xarray.DataTree
        Result of `pm.sample`.
    var_names : list of str, optional
        Posterior variables; every element of an array has its own row.
    trusted : bool, default True
        Whether `ppdinf.diagnose` found no problem in the complete posterior. If False, the title does not state
        that the chains agree, even if the plotted variables show no problem.

    Returns
    -------
    matplotlib.figure.Figure
        Left: traces. Right, for at least two chains with at least four draws: cumulative ranks of each chain's draws
        among all draws, thinned by their ESS, minus the uniform line. The line of a chain that explores the common
        posterior stays near zero. p is the p-value of ArviZ's test of uniformity.

    See Also
    --------
    ppdinf.diagnose, ppdinf.diagnostics.acceptance_by_cell

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from ppdinf.plots import plot_chains
    >>> draws = xr.Dataset({"rate": (("chain", "draw"), np.random.default_rng(1).normal(size=(4, 100)))})
    >>> figure = plot_chains(xr.DataTree.from_dict({"posterior": draws}))
    >>> len(figure.axes)
    2
    """
    import arviz_plots as azp
    import arviz_stats as azs
    from arviz_base import extract
    from matplotlib import pyplot

    from ppdinf.diagnostics.convergence import MIN_DRAWS

    chosen = extract(idata, var_names=var_names, combined=False, keep_dataset=True)
    chains, draws = chosen.sizes["chain"], chosen.sizes["draw"]
    comparable = chains > 1 and draws >= MIN_DRAWS
    columns = ["trace", "ranks"] if comparable else ["trace"]
    rows = [dim for dim in chosen.dims if dim not in ("chain", "draw")]
    height = 0.6 + 1.5 * sum(variable[0, 0].size for variable in chosen.data_vars.values())
    with figure_style():
        grid = azp.PlotCollection.grid(
            chosen.expand_dims(column=len(columns)).assign_coords(column=columns),
            rows=["__variable__", *rows],
            cols=["column"],
            backend="matplotlib",
            aes={"color": ["chain"], "overlay": ["chain"]},
            color=CHAINS,
            figure_kwargs={"figsize": (10, height), "layout": "constrained"},
        )
        grid.coords = {"column": "trace"}
        azp.plot_trace(
            idata, var_names=var_names, plot_collection=grid, visuals={"trace": {"width": 0.5, "alpha": 0.8}}
        )
        if comparable:
            grid.coords = {"column": "ranks"}
            # the test of uniform ranks assumes independent draws: thin the chains
            azp.plot_rank(azs.thin(idata, var_names=var_names), var_names=var_names, plot_collection=grid)
    figure = grid.viz["figure"].item()
    pyplot.close(figure)  # ArviZ registers the figure with pyplot, which would keep it open
    if comparable:
        rhats = np.concatenate([variable.values.ravel() for variable in azs.rhat(chosen).data_vars.values()])
        verdict = _verdict(rhats, chains, trusted)
    elif chains == 1:
        verdict = "One chain: agreement of chains requires a second chain"
    else:
        verdict = f"Fewer than {MIN_DRAWS} draws per chain: too few to compare chains"
    figure.suptitle(verdict, x=0.01, ha="left", fontweight="bold", fontsize=10.5)
    return figure


def _verdict(rhats: Reals, chains: int, trusted: bool) -> str:
    """Return whether the chains agree, consistently with the checks of the complete posterior."""
    from ppdinf.diagnostics.convergence import NO_OVERLAP, format_rhat, limit

    threshold = limit(rhats.size, chains)
    largest = float(np.max(rhats)) if not np.isnan(rhats).any() else np.nan
    summary = f"largest R-hat {format_rhat(largest, threshold)}"
    if not largest <= threshold:
        advice = ": draw longer" if largest <= NO_OVERLAP else ""  # longer chains do not help disjoint ones
        return f"The chains do not agree{advice} ({summary})"
    if not trusted:
        return f"These parameters agree in all chains ({summary}), but other checks of the posterior failed"
    return f"{chains} chains agree ({summary})"
