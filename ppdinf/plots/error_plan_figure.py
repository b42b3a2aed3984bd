"""Error of released cells against the privacy loss."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from ppdinf.errors import PrivacyError
from ppdinf.mechanisms.error_plan import ErrorPlan
from ppdinf.plots.style import INK, NAIVE, POSTERIOR, QUIET, figure_style

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

    Returns
    -------
    matplotlib.figure.Figure

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
        figure = Figure(figsize=(9, 3.7 * len(shown)), layout="constrained")
        panels = figure.subplots(len(shown), 2, squeeze=False)
        for (persons, relative), (loss_name, plan) in zip(panels, shown.items(), strict=True):
            noisy = plan.table[plan.table["sd"] > 0]
            if not len(noisy):
                raise PrivacyError("the public sums determine every cell: the noise is always 0")
            kinds = noisy.index.get_level_values("noise of cells").unique()
            for kind, colour in zip(kinds, COLOURS, strict=False):
                rows = noisy.xs(kind, level="noise of cells")
                loss = np.array([float(Fraction(text)) for text in rows.index])
                order = np.argsort(loss)
                label = f"{rows['cells'].iloc[0]:,} cells {kind}"
                persons.plot(loss[order], rows["sd"].to_numpy()[order], "o-", color=colour, label=label)
                persons.plot(loss[order], rows["support_radius"].to_numpy()[order], "o:", color=colour, markersize=3)
            widest = noisy.groupby(level="loss", sort=False).max()
            loss = np.array([float(Fraction(text)) for text in widest.index])
            order = np.argsort(loss)
            for column, colour in zip([c for c in widest if str(c).startswith("cv_")], COLOURS, strict=False):
                label = f"count of {int(str(column)[3:]):,}"
                relative.plot(loss[order], widest[column].to_numpy()[order], "o-", color=colour, label=label)
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
                axes.set_xscale("log")
                axes.set_yscale("log")
                axes.set_xlabel(f"{loss_name}, per unit of distance")
                axes.grid(color="#E4E4E4", linewidth=0.7)
                axes.legend(frameon=False, fontsize=8)
            relative.yaxis.set_major_formatter(PercentFormatter(1))
        figure.suptitle("Error against privacy loss", fontsize=10.5, fontweight="bold", x=0.01, ha="left")
    return figure
