"""Published measurements of a table and its posterior without a user-written model, as one page."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ppdinf._internal.values import FilePath, Reals
from ppdinf.denoising import Denoised, identified_bounds
from ppdinf.invariants import Public
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.plots import plot_cells, plot_intervals
from ppdinf.plots.uncertainty import COLUMNS, LONGEST, label_text
from ppdinf.report.page import FAILED, Page, listed

SECONDS = 20.0  # time limit of the bounds
UNCERTAIN = 0.3  # margin of error divided by the estimate


def write_denoised(posterior: Denoised, path: FilePath, statement: Public | None = None, title: str = "") -> None:
    """Write the page; see `Denoised.report`."""
    problems = posterior.problems
    table = intervals_of(posterior, statement)
    hidden = table.index[table["disclosed"]].map(label_text).tolist() if "disclosed" in table else []
    wide = table["margin_of_error"] > UNCERTAIN * table["estimate"]
    finding = f"In {wide.sum()} of {len(table)} rows the margin of error exceeds {UNCERTAIN:.0%} of the estimate."
    if hidden:
        finding += f" Not published but determined, {len(hidden)} of {len(table)}: {listed(hidden)}."
    page = Page(
        title or f"Counts by {' and '.join(posterior.data.dims)}",
        "Confidential counts given all published noisy and exact sums.",
        verdict="Do not use these counts yet: checks failed." if problems else "The chains agree about every cell.",
        ok=not problems,
        finding=finding,
        details=" ".join(problems),
        stamp=FAILED if problems else "",
        settings={"draws": " x ".join(str(posterior.draws.sizes[dim]) for dim in ("chain", "draw"))},
    )
    page.add("Estimates")
    thin = "; thin lines: all values that the data permit" if "least" in table else ""
    crosses = "; crosses: published numbers of cells" if "published" in table else ""
    page.figure(plot_intervals(table), f"Posterior mean and 90 % interval{thin}{crosses}.")
    if figure := _margins(posterior, table, statement):
        page.figure(figure, "Posterior means; half of the 90 % interval divided by the estimate.")
    columns = "Posterior mean, standard deviation, 90 % interval and half of its width"
    if "least" in table:
        columns += "; least and most are possible given the published ranges, rounded numbers and exact sums"
    page.add("Every row")
    shown = table.drop(columns="disclosed", errors="ignore").reset_index(allow_duplicates=True)
    marks = np.flatnonzero(table["disclosed"]).tolist() if hidden else ()
    marked = "; marked rows are not published but determined" if hidden else ""
    page.table(shown, f"{columns}{marked}.", labels=table.index.nlevels, marks=marks)
    page.add("Published measurements", _exact(posterior))
    page.table(_published(posterior), "Published sums, statement by statement; a law may have a scale for each sum.")
    ess, r_hat = posterior.convergence["ess_bulk"].min(), posterior.convergence["r_hat"].max()
    checked = f"Effective draws of every cell: at least {ess:.0f}; R-hat: at most {r_hat:.3f}."
    page.add("Diagnostics", f"{checked} Tables were {posterior.plan.removesuffix('.')}.")
    if posterior.parameters:
        page.table(_parameters(posterior), "Learned prior: level and effects are of log means.")
    page.write(path)


def intervals_of(posterior: Denoised, statement: Public | None) -> pd.DataFrame:
    """Return the summary of a posterior with possible, published and disclosed counts where the data have them."""
    table = posterior.summary(statement).round(1)
    if np.isfinite(posterior.data.entries.support_bounds(0.0)).any():  # not noise and exact sums alone
        bounds = identified_bounds(posterior.data, statement, seconds=SECONDS, progressbar=False)
        least, most, disclosed = (bounds[name].to_numpy() for name in ("lower", "upper", "disclosed"))
        table = table.assign(least=least, most=most, disclosed=disclosed)
    published = _published_cells(posterior)  # of cells that are neither exact nor hidden
    return table if statement is not None or np.isnan(published).all() else table.assign(published=published)


def plot_denoised(posterior: Denoised, statement: Public | None) -> Figure:
    """Plot the intervals of a posterior; see `Denoised.plot`."""
    return plot_intervals(intervals_of(posterior, statement))


def _exact(posterior: Denoised) -> str:
    data = posterior.data
    sizes = ", ".join(f"{n} of {dim}" for dim, n in zip(data.dims, data.shape, strict=True))
    exact = [f"{value:,} ({name})" for name, value in zip(data.public.names, data.public.values.tolist(), strict=True)]
    values = f" Values: {listed(exact, 12)}." if exact else ""
    return f"{data.frame.size:,} cells: {sizes}. {data.public.public}{values}"


def _described(law: object) -> str:
    """Return the name and the parameters of a law in words."""
    if isinstance(law, AdditiveLaw):
        return _described(law.law)
    if not is_dataclass(law):
        return str(law)
    values = {field.name: getattr(law, field.name) for field in fields(law) if field.repr}
    shown = ", ".join(f"{name}: {_described(value)}" for name, value in values.items() if value is not None)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(law).__name__).lower()
    return f"{words} ({shown})" if shown else words


def _published(posterior: Denoised) -> pd.DataFrame:
    """Return one row per noisy statement."""
    rows = []
    for stated, part in zip(posterior.data.stated, posterior.data.parts, strict=True):
        laws = [_described(form) for form, _ in part.forms]
        said = "; ".join(map(str, stated.statement)) or "nothing"
        rows.append((said, part.y.size, laws[0] if len(laws) == 1 else f"{laws[0]} and {len(laws) - 1} more scales"))
    return pd.DataFrame(rows, columns=["sums", "numbers", "law"])


def _published_cells(posterior: Denoised) -> Reals:
    """Return the published number of each cell, the mean of several numbers, or nan."""
    entries, d = posterior.data.entries, posterior.data.frame.size
    values = pd.to_numeric(pd.Series(entries.published), errors="coerce").to_numpy(np.float64)
    single = np.flatnonzero((np.diff(entries.matrix.indptr) == 1) & ~np.isnan(values))
    cells = entries.matrix.indices[entries.matrix.indptr[single]]
    number = np.bincount(cells, minlength=d)
    with np.errstate(invalid="ignore"):
        return np.bincount(cells, weights=values[single], minlength=d) / np.where(number, number, np.nan)


def _margins(posterior: Denoised, table: pd.DataFrame, statement: Public | None) -> Figure | None:
    """Return a figure of all cells or sums if the other figure omits some and the page is wide enough."""
    draws = posterior.draws if statement is None else posterior.sums(statement)
    if len(table) <= LONGEST or draws.ndim < 4 or draws.shape[-1] > COLUMNS:
        return None
    return plot_cells(draws)


def _parameters(posterior: Denoised) -> pd.DataFrame:
    """Return posterior means and standard deviations of the prior's scalar parameters."""
    rows = [
        (name, f"{draws.mean():.2f}", f"{draws.std():.2f}")
        for name, draws in posterior.parameters.items()
        if np.ndim(draws) == 2
    ]
    return pd.DataFrame(rows, columns=["parameter", "mean", "sd"])
