"""Pages of bounds, of plans, and of scores of methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ppdinf._internal.values import FilePath
from ppdinf.mechanisms.error_plan import ErrorPlan
from ppdinf.models.compare import Scores
from ppdinf.plots import plot_intervals, plot_plan
from ppdinf.plots.uncertainty import label_text
from ppdinf.report.page import Page, listed


def write_bounds(
    bounds: pd.DataFrame, path: FilePath, title: str = "Possible counts", notes: Sequence[str] = ()
) -> None:
    """Write a page of the result of `ppdinf.identified_bounds`: disclosed cells first."""
    disclosed = bounds["disclosed"].to_numpy(bool)
    undecided = (~bounds["exact"]).sum()
    number = disclosed.sum()
    hidden = [label_text(label) for label in bounds.index[disclosed]]
    several = (bounds["lower"] < bounds["upper"]).sum()
    verdict, ok = "No cell that is not published is determined.", None if undecided else True
    if number:
        cells = "1 cell is" if number == 1 else f"{number} cells are"
        verdict, ok = f"Disclosed: {cells} not published, but determined by what is published.", False
    finding = f"{listed(hidden, 20)}. " if number else ""
    page = Page(
        title,
        "The smallest and the largest count of every cell that agrees with everything published.",
        verdict=verdict if ok is not None else "Undecided: the time was not sufficient for a proof.",
        ok=ok,
        finding=f"{finding}{several} of {len(bounds)} cells have more than one possible count.",
        details=" ".join([*notes, *([f"Undecided cells: {undecided}."] if undecided else [])]),
    )
    page.add("Possible counts")
    ranges = bounds.rename(columns={"lower": "least", "upper": "most"})
    page.figure(plot_intervals(ranges), "Smallest to largest possible count.")
    page.add("Every cell")
    table = ranges.reset_index(allow_duplicates=True)
    table["disclosed"] = np.where(disclosed, "disclosed", "")
    table["proof"] = np.where(table.pop("exact"), "", "not proved")
    marks = np.flatnonzero(disclosed).tolist()
    empty = [name for name in ("disclosed", "proof") if not table[name].any()]
    page.table(table.drop(columns=empty), "", labels=bounds.index.nlevels, marks=marks)
    page.write(path)


def write_plan(
    plans: Mapping[str, ErrorPlan],
    path: FilePath,
    *,
    answers: Mapping[str, str],
    tables: Mapping[str, pd.DataFrame],
    explanation: str,
    cv: str | None = None,
    at: int | None = None,
) -> None:
    """Write a page of plans by the name of their loss: the required losses and what they mean, figure and tables."""
    page = Page(
        "Error for each privacy loss",
        "From labels and public statements alone: no count was used, and the plan costs no privacy.",
        verdict=" ".join(answers) or "The error of released cells for each privacy loss.",
        finding=" ".join(answers.values()),
    )
    page.figure(plot_plan(plans, cv=cv, at=at), "Error of released cells against the privacy loss.")
    for title, table in tables.items():
        page.add(title)
        page.table(table, explanation)
    page.write(path)


def write_scores(scores: Scores, path: FilePath, title: str = "Comparison of methods") -> None:
    """Write a page of the result of `ppdinf.compare`: the methods in the order of their errors."""
    table = scores.summary()
    best = table.iloc[0]
    shares = [f"{row.coverage} of those of {row.method}" for row in table[table["coverage"] != "–"].itertuples()]
    page = Page(
        title,
        f"Errors over {scores.attrs['draws']:,} simulated releases of one table, for research only.",
        verdict=f"{best['method']} has the smallest error: {best['rmse']} persons (root mean square over all cells).",
        finding=f"Intervals with a stated probability of {scores.attrs['interval']:.0%} contain the truth: "
        f"{', '.join(shares) or 'no method has intervals'}.",
    )
    page.add("Error and coverage")
    page.figure(scores.plot(), "Each point is a cell; bars: all cells.")
    page.add("Every method")
    page.table(table, "Means over all cells; errors and widths in persons.", wrapped=True)
    page.write(path)
