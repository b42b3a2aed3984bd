"""Traces and ranks: what the chains did."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ppdinf.plots.style import figure_style

__all__ = ["plot_chains"]

CHAINS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#F0E442"]


def plot_chains(idata: xr.DataTree, var_names: list[str] | None = None, *, trusted: bool = True) -> Figure:
    """Plot the trace and the ranks of each chain, by ArviZ.

    Parameters
    ----------
    idata : xarray.DataTree
        What `pm.sample` returned.
    var_names : list of str, optional
        Posterior variables; every element of an array gets a row of its own.
    trusted : bool, default True
        What `ppdinf.diagnose` says of the whole posterior: where it found a problem, perhaps in what is not shown
        here, the title does not say that all is well.

    Returns
    -------
    matplotlib.figure.Figure
        Left the traces. Right the cumulative ranks of each chain's draws among all draws, thinned by their ESS, minus
        the uniform line, where there are at least two chains with at least four draws. Chains that explore one
        posterior stay near zero; p is that of ArviZ's test of uniformity.
    """
    import arviz_plots as azp
    import arviz_stats as azs
    from arviz_base import extract
    from matplotlib import pyplot

    from ppdinf.diagnostics.rhat import FEWEST

    chosen = extract(idata, var_names=var_names, combined=False, keep_dataset=True)
    chains, draws = chosen.sizes["chain"], chosen.sizes["draw"]
    comparable = chains > 1 and draws >= FEWEST
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
            # the test of uniform ranks is for independent draws: thin the chains until they nearly are
            azp.plot_rank(azs.thin(idata, var_names=var_names), var_names=var_names, plot_collection=grid)
    figure = grid.viz["figure"].item()
    pyplot.close(figure)  # ArviZ registers it with pyplot, which would keep it
    if comparable:
        rhats = np.concatenate([variable.values.ravel() for variable in azs.rhat(chosen).data_vars.values()])
        verdict = _verdict(rhats, chains, trusted)
    elif chains == 1:
        verdict = "One chain: a second one is needed to see whether chains agree"
    else:
        verdict = f"Fewer than {FEWEST} draws of each chain: too few to see whether chains agree"
    figure.suptitle(verdict, x=0.01, ha="left", fontweight="bold", fontsize=10.5)
    return figure


def _verdict(rhats: NDArray[np.float64], chains: int, trusted: bool) -> str:
    """Say whether the chains agree, in no stronger words than the checks of the posterior allow."""
    from ppdinf.diagnostics.rhat import APART, limit, shown

    most = limit(rhats.size, chains)
    largest = float(np.max(rhats)) if not np.isnan(rhats).any() else np.nan
    said = f"largest R-hat {shown(largest, most)}"
    if not largest <= most:
        advice = ": draw longer" if largest <= APART else ""  # longer does not move what is stuck
        return f"The chains do not agree{advice} ({said})"
    if not trusted:
        return f"These parameters look alike in all chains ({said}), yet checks of the posterior failed: see there"
    return f"{chains} chains agree ({said})"
