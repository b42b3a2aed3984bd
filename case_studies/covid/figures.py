"""Figures of the COVID study: one function each, which adds a figure to a study. `run.py` in this folder calls them."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from ppdinf.plots.style import label_round_numbers

EPSILONS, LOSSES = (0.01, 1.0), ("l2", "l1")
METHODS = {  # base measure, or post-processing: title, colour
    "counting": ("counting measure,\nnothing imposed", "#767676"),
    "post-processed": ("post-processed\nin two stages", "#D55E00"),
    "congenial": ("congenial\nbase measure", "#56B4E9"),
    "prior": ("prior-congenial\nbase measure", "#0072B2"),
}
ANALYSES = {
    "conditioning": ("conditioning on the total", "#0072B2", "o"),
    "no total": ("noise-aware, without the total", "#009E73", "s"),
    "naive": ("post-processed counts as true", "#D55E00", "^"),
}


def chosen(table):
    """Return the counties of figure 1: a large, a mid-sized and a small one."""
    names, persons = table.county.values.tolist(), table.population.values
    paper = ("Allegheny", "Erie", "Cameron")
    if set(paper) <= set(names):
        return [names.index(name) for name in paper]
    return [int(np.argmin(np.abs(persons - size))) for size in (1_200_000, 260_000, 4_000)]


def rates(study, released, table, months, norm):
    """Draw figure 1: released rates of three counties, by method."""
    figure, panels = plt.subplots(2, 4, figsize=(13, 6), sharex=True, sharey=True, layout="constrained")
    at, scale = np.arange(len(months)), 1e5 / table.population.values
    for j, color, shift in zip(chosen(table), ("#D55E00", "#009E73", "#0072B2"), (-0.22, 0.0, 0.22), strict=True):
        label = f"{table.county.values[j]} ({table.population.values[j]:,} persons)"
        for own, epsilon in zip(panels, EPSILONS, strict=True):
            for axes, method in zip(own, METHODS, strict=True):
                drawn = released[epsilon, method, norm][:, :, j, 0] * scale[j]
                axes.plot(at, table.cases.values[j, months] * scale[j], color=color, linewidth=1, label=label, zorder=1)
                for ends, width in (((5, 95), 1.0), ((25, 75), 3.5)):  # at least as long as wide, in every county
                    low, high = np.percentile(drawn, ends, axis=1)
                    axes.vlines(at + shift, low, high, color=color, linewidth=width, capstyle="projecting")
                middle = np.median(drawn, axis=1)
                axes.plot(at + shift, middle, "_", color=color, markersize=5.5, markeredgewidth=1.8, zorder=3)
    step = max(1, len(months) // 5)
    for axes, (title, _) in zip(panels[0], METHODS.values(), strict=True):
        axes.set_title(title, fontsize=10)
    for axes in panels.ravel():
        axes.set_yscale("symlog", linthresh=10)
        label_round_numbers(axes.yaxis, 10)
        axes.set_xticks(at[::step], table.month.values[months][::step], rotation=45, fontsize=8)
        axes.axhline(0, color="#BBBBBB", linewidth=0.7, zorder=0)
    for own, epsilon in zip(panels, EPSILONS, strict=True):
        own[0].set_ylabel(f"epsilon = {epsilon:g}\ncases per 100,000 in the month")
    caption = (
        f"Released case rates of three counties, {norm} loss: thick, the middle half of the replicates with a wider "
        "line at their median; thin, 90 % of them; lines, the confidential rates. The axis is linear between -10 and "
        "10, logarithmic beyond."
    )
    _finish(study, f"rates_{norm}", figure, panels, caption, 3)


def relative(study, errors):
    """Draw figure 2: exceedance of relative errors."""
    figure, panels = plt.subplots(2, 2, figsize=(9.5, 6.2), sharex=True, sharey=True, layout="constrained")
    for own, norm in zip(panels, LOSSES, strict=True):
        for axes, epsilon in zip(own, EPSILONS, strict=True):
            for method, (title, color) in METHODS.items():
                falling = np.sort(errors[epsilon, method, norm])[::-1]
                ranks = np.unique(np.geomspace(1, falling.size, 400).astype(int))
                axes.plot(falling[ranks - 1], ranks / falling.size, color=color, label=title.replace("\n", " "))
            axes.set(xscale="log", yscale="log", xlim=(0.05, None))
            axes.set_title(f"epsilon = {epsilon:g}, {norm} loss", fontsize=10)
            axes.grid(color="#EEEEEE")
        own[0].set_ylabel("share of releases with\na larger error")
    figure.supxlabel("relative error of a county's cases in a month (%)", fontsize=10)
    caption = (
        "How often the released cases of a county in a month are off by more than so much, over all counties, months "
        "with cases, and replicates. Further left is better; 100 % is where counts contracted to 0 are."
    )
    _finish(study, "relative_errors", figure, panels, caption, 2)


def contraction(study, effects):
    """Draw figure 3: contracted counts of the least and the most populous county."""
    figure, panels = plt.subplots(2, 4, figsize=(13, 5.4), sharex=True, sharey=True, layout="constrained")
    places = [(epsilon, county) for epsilon in EPSILONS for county in ("least", "most")]
    kinds = list(effects.columns)
    for own, norm in zip(panels, LOSSES, strict=True):
        for axes, (epsilon, county) in zip(own, places, strict=True):
            for k, (method, (title, color)) in enumerate(METHODS.items()):
                values = 100 * effects.loc[(epsilon, norm, method, county)].to_numpy(dtype=float)
                at = np.arange(len(kinds)) + 0.2 * (k - 1.5)
                axes.barh(at, np.nan_to_num(values), height=0.18, color=color, label=title.replace("\n", " "))
                for y, value in zip(at, values, strict=True):
                    text = "cannot be" if np.isnan(value) else f"{value:.1f}" if 0.05 < value < 10 else f"{value:.0f}"
                    text = "< 0.1" if 0 < value <= 0.05 else text
                    axes.text(np.nan_to_num(value) + 1, y, text, va="center", fontsize=7, color="#444444")
            axes.set_title(f"{county} populous county,\nepsilon = {epsilon:g}, {norm} loss", fontsize=9)
    panels[0, 0].set(xlim=(0, 108), ylim=(len(kinds) - 0.5, -0.5))
    panels[0, 0].set_yticks(range(len(kinds)), kinds)
    figure.supxlabel("releases with a 0 where the confidential number is not 0 (%)", fontsize=10)
    caption = (
        "Counts that a release contracts to 0: no cases, no deaths, and as many deaths as cases (no survivors), where "
        "the confidential table has some. All months and replicates."
    )
    _finish(study, "contraction", figure, panels, caption, 4)


def intervals(study, table, what, caption):
    """Draw coverage or error of the three analyses by county size."""
    sharey = "col" if what == "rmse" else True
    figure, panels = plt.subplots(2, 3, figsize=(10.5, 5.8), sharex=True, sharey=sharey, layout="constrained")
    sizes = ["small", "middle", "large"]
    for own, epsilon in zip(panels, EPSILONS, strict=True):
        for axes, quantity in zip(own, ("cases", "deaths", "fatality"), strict=True):
            for k, (name, (label, color, mark)) in enumerate(ANALYSES.items()):
                values = table.loc[(epsilon, name, sizes, quantity), what].to_numpy()
                axes.plot(np.arange(3) + 0.12 * (k - 1), values, mark, color=color, label=label, markersize=6)
            if what == "coverage":
                axes.axhspan(0.92, 0.98, color="#DDDDDD", zorder=0)
                axes.set_ylim(0, 1.03)
            else:
                axes.set_yscale("log")
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
                axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
                axes.yaxis.set_minor_formatter(NullFormatter())
            axes.set_xticks(range(3), sizes)
            axes.set_xlim(-0.4, 2.4)
            axes.set_title(f"{quantity.replace('fatality', 'case fatality')}, epsilon = {epsilon:g}", fontsize=10)
        own[0].set_ylabel(
            "share of 95 % intervals that\nhold the number"
            if what == "coverage"
            else "root mean squared error\n(persons; fatality: share)"
        )
    figure.supxlabel("counties by population, in thirds", fontsize=10)
    _finish(study, what, figure, panels, caption, 3)


def congenial(study, name, norm, table, released, truth, which):
    """Draw coverage of posteriors from congenial releases, and their errors beside those of the releases."""
    figure, panels = plt.subplots(2, 4, figsize=(12, 5.6), sharex=True, layout="constrained")
    sizes = ["small", "middle", "large"]
    for k, (epsilon, q) in enumerate((epsilon, q) for epsilon in EPSILONS for q in (0, 1)):
        quantity = ("cases", "deaths")[q]
        for shift, method in ((-0.1, "congenial"), (0.1, "prior")):
            own, (title, color) = table.loc[(epsilon, method, sizes, quantity)], METHODS[method]
            at, label = np.arange(3) + shift, title.replace("\n", " ")
            panels[0, k].plot(at, own["coverage"].map(float), "o", color=color, label=f"posterior, {label}")
            panels[1, k].plot(at, own["rmse"].map(float), "o", color=color)
            error = (released[epsilon, method] - truth[:, np.newaxis])[..., q].astype(float)
            raw = [np.sqrt((error[..., which == size] ** 2).mean()) for size in sizes]
            panels[1, k].plot(at, raw, "x", color=color)
            panels[0, k].plot([], [], "x", color=color, label=f"release, {label}")
        panels[0, k].axhspan(0.92, 0.98, color="#DDDDDD", zorder=0)
        panels[0, k].set(ylim=(0.8, 1.01), title=f"{quantity}, epsilon = {epsilon:g}")
        panels[1, k].set_yscale("log")
        panels[1, k].yaxis.set_major_locator(LogLocator(subs=(1, 3)))
        panels[1, k].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panels[1, k].yaxis.set_minor_formatter(NullFormatter())
        panels[1, k].set_xticks(range(3), sizes)
        panels[1, k].set_xlim(-0.4, 2.4)
    panels[0, 0].set_ylabel("share of 95 % intervals that\nhold the count")
    panels[1, 0].set_ylabel("root mean squared\nerror (persons)")
    figure.supxlabel("counties by population, in thirds", fontsize=10)
    caption = f"Posteriors given single releases of the congenial mechanisms ({norm} loss); grey, 0.92 to 0.98."
    _finish(study, f"{name}_posteriors", figure, panels, caption, 2)


def one_month(study, released, estimates, table, month):
    """Draw the posterior of every county given one release of one month."""
    order = np.argsort(table.population.values)
    persons = table.population.values[order]
    scale = 1e5 / persons
    _, low, high = np.moveaxis(estimates[order, 0], -1, 0) * scale
    figure, axes = plt.subplots(figsize=(12, 4.4), layout="constrained")
    at = np.arange(len(order))
    axes.vlines(
        at,
        low,
        high,
        color="#0072B2",
        linewidth=4,
        alpha=0.6,
        capstyle="projecting",
        label="95 % interval given the noisy table and the total",
    )
    post, truth = released[order, 0] * scale, table.cases.values[order, month] * scale
    axes.plot(at, post, "^", color="#D55E00", markersize=5, clip_on=False, label="the same noisy table, post-processed")
    axes.plot(at, truth, "_", color="#222222", markersize=4, markeredgewidth=1.6, label="confidential")
    axes.set_yscale("symlog", linthresh=100)
    label_round_numbers(axes.yaxis, 100)
    axes.set(xlim=(-0.7, len(order) - 0.3), ylim=(0, None))
    names = [f"{name} ({n / 1000:,.0f})" for name, n in zip(table.county.values[order], persons, strict=True)]
    axes.set_xticks(at, names, rotation=90, fontsize=7)
    axes.set(xlabel="county, with its population in thousands", ylabel="cases per 100,000 in the month")
    caption = (
        f"One release of {table.month.values[month]} at epsilon = {EPSILONS[0]:g}. The axis is linear up to 100, "
        "logarithmic beyond; triangles at 0 are counties that post-processing leaves without a case."
    )
    _finish(study, "one_month", figure, np.array([axes]), caption, 3)


def panel(study, estimates, table):
    """Draw three counties in all months: the joint panel, and each month given exact previous months."""
    figure, panels = plt.subplots(2, 3, figsize=(12, 5.6), sharex=True, layout="constrained")
    at, months = np.arange(table.sizes["month"]), table.month.values
    shown = {"panel": (-0.2, "#0072B2", "all months together, from noisy tables alone"),
             "month by month": (0.2, "#E69F00", "one month, given exact tables of those before")}  # fmt: skip
    fatality = 100 * table.deaths.values / np.maximum(table.cases.values, 1)
    for own, j in zip(panels.T, chosen(table), strict=True):
        scale = 1e5 / table.population.values[j]
        for axes, q, factor, truth in zip(
            own, (0, 2), (scale, 100), (table.cases.values[j] * scale, fatality[j]), strict=True
        ):
            for name, (shift, color, label) in shown.items():
                mean, low, high = np.moveaxis(estimates[1, name][:, 0, j, q], -1, 0) * factor
                axes.vlines(at + shift, low, high, color=color, linewidth=3.5, capstyle="projecting", label=label)
                axes.plot(at + shift, mean, "s", color=color, markersize=3.5, markeredgewidth=0)  # of narrow intervals
            axes.plot(at, truth, "_", color="#222222", markersize=3.5, markeredgewidth=1.6, label="confidential")
            axes.set_yscale("symlog", linthresh=10 if q == 0 else 1)
            label_round_numbers(axes.yaxis, 10 if q == 0 else 1)
            axes.set_ylim(0, None)
        own[0].set_title(f"{table.county.values[j]} ({table.population.values[j]:,} persons)", fontsize=10)
        step = max(1, len(at) // 6)
        own[1].set_xticks(at[::step], months[::step], rotation=45, fontsize=8)
    panels[0, 0].set_ylabel("cases per 100,000\nin the month")
    panels[1, 0].set_ylabel("deaths per 100 cases\nof the month")
    caption = (
        f"95 % intervals at epsilon = 1 a month: {len(at)} months in one posterior, and one month at a time. Axes are "
        "linear below 10 cases per 100,000 and 1 death per 100 cases, logarithmic above. Deaths "
        "come weeks after cases, so that there are many for each case once a wave has passed."
    )
    _finish(study, "panel", figure, panels, caption, 3)


def _finish(study, name, figure, panels, caption, columns):
    for axes in panels.ravel():
        axes.spines[["top", "right"]].set_visible(False)
    handles = panels.ravel()[0].get_legend_handles_labels()
    figure.legend(*handles, frameon=False, ncols=columns, loc="outside upper center")
    study.figure(name, figure, caption)
    plt.close(figure)
