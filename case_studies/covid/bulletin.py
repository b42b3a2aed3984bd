"""One page on one month for a health department to print: rates and case fatality by county, with margins of error.

All numbers are computed from posterior draws, populations and the exact cases of all counties together. No confidential
count of a county is an input of this module. `run.py` in this folder calls it.
"""

import html
import io
import textwrap

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from ppdinf._internal.atomic_files import write_atomically

A4 = (8.27, 11.69)  # inches
TAIL = 0.025
INK, QUIET, BLUE = "#1D2329", "#5D6873", "#0072B2"
LEFT = {"County": 0.06, "Population": 0.265, "rate": 0.475, "fatality": 0.95}  # left end of names, right end of numbers
CHARTS = {"rate": (0.49, 0.215), "fatality": (0.72, 0.09)}  # left end and width
TEXT, LINE, BOTTOM = 0.903, 0.0116, 0.055  # top of the text, height of a line of it, bottom of the table

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
@page {{ size: A4; margin: 0; }}
body {{ margin: 0; font: 15px/1.5 sans-serif; color: #1d2329; }}
svg {{ display: block; width: 210mm; max-width: 100%; height: auto; margin: 0 auto; }}
details {{ max-width: 190mm; margin: 1rem auto; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: .1rem .6rem; text-align: right; }}
th:first-child, td:first-child {{ text-align: left; }}
@media print {{ details {{ display: none; }} }}
</style>
</head>
<body>
{drawing}
<details><summary>The same numbers as a table</summary>
{table}
</details>
</body>
</html>
"""


def numbers(draws, population, names):
    """Tabulate estimates and 95 % intervals by county: cases per 100,000, and deaths per 100 cases."""
    cases, deaths = np.moveaxis(draws, -1, 0)
    values = {"rate": 1e5 * cases / population, "fatality": 100 * deaths / np.maximum(cases, 1)}
    found = {"population": population}
    for name, value in values.items():
        low, high = np.quantile(value, [TAIL, 1 - TAIL], axis=0, method="inverted_cdf")
        found |= {name: np.median(value, axis=0), f"{name} from": low, f"{name} to": high}
    return pd.DataFrame(found, index=pd.Index(names, name="county"))


def statement(table, draws, total, months, epsilon, noise):
    """Describe the exact numbers, the noisy numbers and how to read the page; `noise` is a sample of the noise."""
    low, high = np.quantile(draws[..., 1].sum(axis=1), [TAIL, 1 - TAIL], method="inverted_cdf")
    usual, seldom = np.quantile(abs(noise), [0.5, 0.95], method="inverted_cdf")
    mean = 1e5 * total / table.population.sum()
    return {
        "What is exact": f"The number of cases in these {len(table)} counties together in this month: {total:,}, or "
        f"{mean:,.0f} per 100,000 inhabitants (dashed line). It is published as counted. The number of deaths is not: "
        f"between {low:,} and {high:,}.",
        "What is noisy": "The cases and deaths of every county. An integer drawn at random was added to each "
        "before publication, so that nobody can infer from them whether a given person is among them "
        f"(differential privacy, epsilon = {epsilon:g} a month). Half of these numbers are {usual:.0f} or less, one in "
        f"twenty is {seldom:.0f} or more: this is much in a small county and little in a large one.",
        "How to read it": f"A dot is the best estimate from the noisy numbers of {months} months and the exact totals. "
        "Its bar, and the numbers in brackets, are the margin of error: a range that contains the true count in 95 of "
        "100 cases. Rates with a filled dot differ from the dashed line by more than this; those with a hollow one "
        "may not. Do not rank counties whose bars overlap. Deaths come weeks after cases: when a wave ends, there are "
        "many for each case.",
    }


def bulletin(study, draws, total, population, names, *, title, months, epsilon, noise):
    """Draw the page from posterior draws of one month, (draws, counties, cases and deaths): PNG, SVG and HTML."""
    table = numbers(draws, population, names)
    figure = plt.figure(figsize=A4, dpi=200)
    figure.text(0.06, 0.955, title, fontsize=15, weight="bold", color=INK)
    about = "Cases per 100,000 inhabitants, and deaths per 100 cases, with their margins of error"
    figure.text(0.06, 0.935, about, fontsize=9, color=QUIET)
    columns = ((0.06, 34), (0.325, 45), (0.65, 47))
    texts = statement(table, draws, total, months, epsilon, noise)
    lines = {head: textwrap.wrap(text, width) for (head, text), (_, width) in zip(texts.items(), columns, strict=True)}
    for (head, wrapped), (x, _) in zip(lines.items(), columns, strict=True):
        figure.text(x, 0.91, head, fontsize=8.5, weight="bold", color=INK)
        figure.text(x, TEXT, "\n".join(wrapped), fontsize=7.2, va="top", color=INK, linespacing=1.35)
    top = TEXT - LINE * max(map(len, lines.values())) - 0.029  # leaves a line for the heads of the columns
    at = np.arange(len(table))
    state = {"rate": 1e5 * total / population.sum(), "fatality": None}
    for name, (left, width) in CHARTS.items():
        axes = figure.add_axes((left, BOTTOM, width, top - BOTTOM))
        _chart(axes, table, name, at, state[name])
    rows = figure.add_axes((0, BOTTOM, 1, top - BOTTOM))
    rows.set(xlim=(0, 1), ylim=(len(table) - 0.4, -0.6))
    rows.set_axis_off()
    heads = {
        "County": "County",
        "Population": "Population",
        "rate": "Cases per 100,000",
        "fatality": "Deaths per 100 cases",
    }
    for name, x in LEFT.items():
        side = "left" if name == "County" else "right"
        figure.text(x, top + 0.007, heads[name], fontsize=7, weight="bold", ha=side, color=INK)
    for y, (county, row) in enumerate(table.iterrows()):
        if y % 2 == 0:
            figure.patches.append(
                plt.Rectangle(
                    (0.055, BOTTOM + (top - BOTTOM) * (len(table) - 0.9 - y) / (len(table) + 0.2)),
                    0.9,
                    (top - BOTTOM) / (len(table) + 0.2),
                    transform=figure.transFigure,
                    color="#F2F4F6",
                    zorder=-1,
                )
            )
        style = {"fontsize": 6.8, "va": "center", "color": INK}
        rows.text(LEFT["County"], y, county, **style)
        rows.text(LEFT["Population"], y, f"{row.population:,.0f}", ha="right", **style)
        for name, digits in (("rate", 0), ("fatality", 1)):
            value, low, high = (f"{row[c]:,.{digits}f}" for c in (name, f"{name} from", f"{name} to"))
            rows.text(LEFT[name], y, f"{value}  ({low} to {high})", ha="right", **style)
    footer = "From releases with noise alone: nothing on this page was computed from a county's confidential counts."
    figure.text(0.06, 0.022, footer, fontsize=6.8, color=QUIET)
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    shown = table.round({c: 0 if c.startswith("rate") else 1 for c in table.columns if c != "population"})
    page = PAGE.format(
        title=html.escape(title),
        drawing=drawn.getvalue()[drawn.getvalue().index("<svg") :],
        table=shown.reset_index().to_html(index=False, border=0),
    )
    write_atomically(study.output / "bulletin.html", page)
    study.figure("bulletin", figure, "The page that a health department would print (bulletin.html).")
    plt.close(figure)


def _chart(axes, table, name, at, state):
    value, low, high = (table[column].to_numpy() for column in (name, f"{name} from", f"{name} to"))
    limit = 1.05 * np.quantile(high, 1 if state else 0.9)
    axes.hlines(at, low, np.minimum(high, limit), color=BLUE, linewidth=2, alpha=0.55)
    # ends of bars that a dot would cover
    axes.plot(np.minimum([low, high], limit), [at, at], "|", color=BLUE, markersize=6, markeredgewidth=0.7)
    beyond = high > limit
    axes.plot(np.full(beyond.sum(), limit), at[beyond], ">", color=BLUE, markersize=3, clip_on=False)
    differs = np.full(len(at), True) if state is None else (low > state) | (high < state)
    for own, face in ((differs, BLUE), (~differs, "white")):
        shown = own & (value <= limit)
        axes.plot(value[shown], at[shown], "o", color=BLUE, markerfacecolor=face, markersize=3.4, markeredgewidth=0.8)
    if state is not None:
        axes.axvline(state, color=INK, linewidth=0.8, linestyle="--", zorder=0)
    axes.set(xlim=(0, limit), ylim=(len(at) - 0.4, -0.6), yticks=[])
    axes.xaxis.set_major_locator(MaxNLocator(4, prune="upper"))  # labels at the ends of two charts would touch
    axes.patch.set_alpha(0)
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.tick_params(labelsize=6.5, color=QUIET, labelcolor=INK, length=2)
