"""Noise of a mechanism in one cell, errors of released cells against the privacy loss, and errors of methods."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, PercentFormatter

from ppdinf.errors import PrivacyError
from ppdinf.mechanisms.error_plan import ErrorPlan
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.plots.style import GRID, INK, NAIVE, POSTERIOR, QUIET, clean, figure_style, headline
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
    kind, *parameters = release.mechanism.to_dict().items()
    law = f"{kind[1]} noise, " + ", ".join(f"{name} = {value}" for name, value in parameters)
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
        axes.grid(axis="y", **GRID)
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
            f"{law}; frequencies of {noise.size:,} new draws",
        )
    return figure


COLOURS = [POSTERIOR, NAIVE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", QUIET, INK]


def plot_plan(
    plans: ErrorPlan | Mapping[str, ErrorPlan],
    name: str = "epsilon",
    *,
    cv: str | float | Fraction | None = None,
    at: int | None = None,
) -> Figure:
    """Plot the error of released cells against the privacy loss: in persons, and relative to the count.

    Parameters
    ----------
    plans : ErrorPlan, or dict of name to ErrorPlan
        Several plans are drawn below each other, each against losses of its name.
    name : str
        Name of the loss of a single plan.
    cv, at : (float, str or Fraction) and int, optional
        Wanted coefficient of variation of a count of `at` persons, as in ``ErrorPlan.loss_for``. The figure marks it
        and the loss that it requires.

    Raises
    ------
    PrivacyError
        The public sums determine every cell, so that there is noise in none.

    See Also
    --------
    ppdinf.plan

    Examples
    --------
    >>> import ppdinf as ppd
    >>> total = ppd.invariants.total()
    >>> found = ppd.plan(lambda epsilon: ppd.GeneralizedLaplace(total, epsilon), {"county": 67}, ["1/10", "1/4", 1])
    >>> len(ppd.plots.plot_plan(found, cv="1/10", at=50).axes)
    2
    """
    shown = {name: plans} if isinstance(plans, ErrorPlan) else dict(plans)
    with figure_style():
        figure = Figure(figsize=(9, 4.3 * len(shown)), layout="constrained")
        panels = figure.subplots(len(shown), 2, squeeze=False)
        for (persons, relative), (loss_name, plan) in zip(panels, shown.items(), strict=True):
            noisy = plan.table[plan.table["sd"] > 0]
            if not len(noisy):
                raise PrivacyError("the public sums determine every cell: the noise is always 0")
            by_loss = noisy.rename(lambda text: float(Fraction(text)), level="loss").sort_index(level="loss")
            kinds = noisy.index.get_level_values("noise of cells").unique()
            for kind, colour in zip(kinds, COLOURS, strict=False):
                rows = by_loss.xs(kind, level="noise of cells")
                label = f"{rows['cells'].iloc[0]:,} cells {kind}"
                persons.plot(rows["sd"], "o-", color=colour, label=label)
                persons.plot(rows["support_radius"], "o:", color=colour, markersize=3)
            widest = by_loss.groupby(level="loss").max()
            for column, colour in zip([c for c in widest if str(c).startswith("cv_")], COLOURS, strict=False):
                relative.plot(widest[column], "o-", color=colour, label=f"count of {int(str(column)[3:]):,}")
            if cv is not None:
                share, required = float(Fraction(cv)), plan.loss_for(cv=cv, at=at)
                relative.axhline(share, color=QUIET, linewidth=0.8)
                relative.axvline(float(required), color=QUIET, linewidth=0.8)
                label = f"{100 * share:.3g}% at {at:,} persons: {loss_name} = {required}"
                relative.plot(float(required), share, "D", color=INK, label=label)
            persons.plot([], [], "o-", color=QUIET, label="standard deviation")
            persons.plot([], [], "o:", color=QUIET, markersize=3, label="90 % of the noise is within")
            persons.set_ylabel("noise (persons)")
            relative.set_ylabel("standard deviation / count, noisiest cells")
            for axes in (persons, relative):
                axes.set(xscale="log", yscale="log", xlabel=f"{loss_name}, per unit of distance")
                for axis in (axes.xaxis, axes.yaxis):
                    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                    axis.set_minor_locator(NullLocator())
                    axis.set_major_formatter("{x:,g}")
                axes.grid(**GRID)
                axes.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=8)
            relative.yaxis.set_major_formatter(lambda share, _: f"{100 * share:,g}%")
        figure.suptitle("Error against privacy loss", fontsize=10.5, fontweight="bold", x=0.01, ha="left")
    return figure


def plot_scores(scores: xr.Dataset) -> Figure:
    """Plot the error and the coverage of each method, one point per cell.

    Parameters
    ----------
    scores : xarray.Dataset
        Result of `ppdinf.compare`.

    Returns
    -------
    matplotlib.figure.Figure
        Methods in the order of their root mean square error over all cells, which a bar shows. Coverage is missing for
        methods without intervals. A line marks the probability of the intervals.

    See Also
    --------
    ppdinf.compare

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/2")
    >>> scores = ppd.compare({"noisy": mechanism}, np.array([0, 1, 30]), draws=50, rng=1, progressbar=False)
    >>> [label.get_text() for label in ppd.plots.plot_scores(scores).axes[0].get_yticklabels()]
    ['noisy']
    """
    methods = scores["analysis"].values
    errors_of, shares_of = (scores[name].values.reshape(methods.size, -1) for name in ("rmse", "coverage"))
    together = np.sqrt((errors_of**2).mean(axis=1))
    order = np.argsort(together)
    dots: dict[str, Any] = {"color": POSTERIOR, "alpha": 0.4, "markersize": 4}
    with figure_style():
        figure = Figure(figsize=(8, 1.3 + 0.42 * order.size), layout="constrained")
        errors, shares = figure.subplots(1, 2, sharey=True)
        for place, method in enumerate(order):
            rows = np.full(errors_of.shape[1], place)
            errors.plot(errors_of[method], rows, "o", **dots)
            if not str(scores["intervals"].values[method]).startswith("none"):
                shares.plot(shares_of[method], rows, "o", **dots)
        places = range(order.size)
        errors.plot(together[order], places, "|", color=INK, markersize=14)
        shares.axvline(scores.attrs.get("interval", 0.9), color=QUIET, linestyle="--")
        errors.set_yticks(places, methods[order])
        errors.set_ylabel("by increasing error", fontsize=8)
        errors.set_ylim(order.size - 0.5, -0.5)
        errors.set_xlim(left=0)
        errors.set_xlabel("root mean square error (persons); bars: all cells")
        shares.set_xlabel("releases whose interval contains the truth")
        shares.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        clean(errors)
        clean(shares)
    return figure
