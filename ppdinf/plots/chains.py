"""Traces and ranks of chains."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ppdinf.plots.style import figure_style

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

    from ppdinf.diagnostics.rhat import MIN_DRAWS

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


def _verdict(rhats: NDArray[np.float64], chains: int, trusted: bool) -> str:
    """Return whether the chains agree, consistently with the checks of the complete posterior."""
    from ppdinf.diagnostics.rhat import NO_OVERLAP, format_rhat, limit

    threshold = limit(rhats.size, chains)
    largest = float(np.max(rhats)) if not np.isnan(rhats).any() else np.nan
    summary = f"largest R-hat {format_rhat(largest, threshold)}"
    if not largest <= threshold:
        advice = ": draw longer" if largest <= NO_OVERLAP else ""  # longer chains do not help disjoint ones
        return f"The chains do not agree{advice} ({summary})"
    if not trusted:
        return f"These parameters agree in all chains ({summary}), but other checks of the posterior failed"
    return f"{chains} chains agree ({summary})"
