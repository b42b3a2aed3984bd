"""Published measurements of a table and its posterior without a user-written model, as one page."""

from __future__ import annotations

import base64
import re
from dataclasses import fields, is_dataclass
from os import PathLike

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ppdinf._internal.atomic_files import write_atomically
from ppdinf.denoising import Denoised, identified_bounds
from ppdinf.invariants import Public
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.plots import plot_cells
from ppdinf.plots.style import NAIVE, POSTERIOR, QUIET, clean, figure_style
from ppdinf.report.analysis_report import environment, png, versions

SHOWN = 40  # cells or sums in the figure: those with the widest intervals relative to their estimates
COLUMNS = 40  # largest number of columns of the figure of all cells
SECONDS = 20.0  # time limit of the bounds
LISTED = 1000  # rows in the table of the page


def write_denoised(
    posterior: Denoised, path: str | PathLike[str], statement: Public | None = None, title: str = ""
) -> None:
    """Write the page; see `Denoised.report`."""
    data = posterior.data
    table = posterior.summary(statement).round(1)
    bounds = _bounds(posterior, statement)
    columns = "Posterior mean, standard deviation, 90 % interval and half of its width"
    if bounds is not None:
        table = table.assign(least=bounds["lower"].to_numpy(), most=bounds["upper"].to_numpy())
        columns += "; least and most are possible given the published ranges, rounded numbers and exact sums"
        if bounds["disclosed"].any():
            columns += f"; {bounds['disclosed'].sum()} of {len(bounds)} are not published but determined"
    verdict = " ".join(posterior.problems) or "The chains agree about every cell, and there are enough draws."
    parts = [
        _part(heading="Published measurements", text=_exact(posterior)),
        _rows(
            _published(posterior),
            "Published sums, statement by statement; a law may have a scale for each sum.",
        ),
        _part(heading="Posterior"),
        *_margins(posterior, table, statement),
        _image(_intervals(posterior, table, statement), _caption(table)),
        _rows(
            table.head(LISTED),
            columns + (f"; {len(table) - LISTED} more are not shown." if len(table) > LISTED else "."),
        ),
        _part(heading="Diagnostics", text=f"{verdict}\n\nTables were {posterior.plan.removesuffix('.')}."),
        _image(_convergence(posterior), "Effective draws and R-hat of every cell; dashed lines: limits."),
    ]
    if posterior.parameters:
        parts.append(_rows(_parameters(posterior), "Learned prior: level and effects are of log means."))
    chains, draws = posterior.draws.sizes["chain"], posterior.draws.sizes["draw"]
    page = (
        environment()
        .get_template("study.html.j2")
        .render(
            title=title or f"Counts by {' and '.join(data.dims)}",
            about="Confidential counts given all published noisy and exact sums.",
            claims=[],
            parts=parts,
            settings={"chains": chains, "draws of each": draws, "prior": "learned" if posterior.parameters else "flat"},
            versions=versions(),
        )
    )
    write_atomically(path, page)


def _part(**fields: object) -> dict[str, object]:
    return {"heading": "", "text": "", "image": "", "caption": "", "rows": None} | fields


def _rows(table: pd.DataFrame, caption: str) -> dict[str, object]:
    flat = table.reset_index(allow_duplicates=True)
    rows = [[f"{x:g}" if isinstance(x, float) else str(x) for x in row] for row in flat.values.tolist()]
    return _part(caption=caption, columns=[str(column) for column in flat.columns], rows=rows)


def _image(figure: Figure, caption: str) -> dict[str, object]:
    return _part(caption=caption, image=base64.b64encode(png(figure)).decode("ascii"))


def _caption(table: pd.DataFrame) -> str:
    shown = (
        f"The {SHOWN} of {len(table)} with the widest intervals relative to the estimate. "
        if len(table) > SHOWN
        else ""
    )
    thin = "; thin lines: all values that the data permit" if "least" in table else ""
    return f"{shown}Posterior mean and 90 % interval{thin}; crosses: published numbers of single cells or sums."


def _bounds(posterior: Denoised, statement: Public | None) -> pd.DataFrame | None:
    """Return the identified bounds if the data contain ranges or rounded numbers, not noise and exact sums alone."""
    limited = np.isfinite(posterior.data.entries.support_bounds(0.0)).any()
    return identified_bounds(posterior.data, statement, seconds=SECONDS, progressbar=False) if limited else None


def _exact(posterior: Denoised) -> str:
    data = posterior.data
    sizes = ", ".join(f"{n} of {dim}" for dim, n in zip(data.dims, data.shape, strict=True))
    exact = ", ".join(
        f"{name}: {value:,}"
        for name, value in zip(data.public.names[:12], data.public.values[:12].tolist(), strict=True)
    )
    hidden = f", and {len(data.public.names) - 12} more" if len(data.public.names) > 12 else ""
    return f"{data.frame.size:,} cells: {sizes}. {data.public.public} " + (
        f"Exactly: {exact}{hidden}." if exact else ""
    )


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
    return pd.DataFrame(rows, columns=["sums", "numbers", "law"]).set_index("sums")


def _published_cells(posterior: Denoised) -> NDArray[np.float64]:
    """Return the published number of each cell, the mean of several numbers, or nan."""
    entries, d = posterior.data.entries, posterior.data.frame.size
    values = pd.to_numeric(pd.Series(entries.published), errors="coerce").to_numpy(np.float64)
    single = np.flatnonzero((np.diff(entries.matrix.indptr) == 1) & ~np.isnan(values))
    cells = entries.matrix.indices[entries.matrix.indptr[single]]
    number = np.bincount(cells, minlength=d)
    with np.errstate(invalid="ignore"):
        return np.bincount(cells, weights=values[single], minlength=d) / np.where(number, number, np.nan)


def _margins(posterior: Denoised, table: pd.DataFrame, statement: Public | None) -> list[dict[str, object]]:
    """Return a figure of all cells or sums if the other figure omits some and the page is wide enough."""
    draws = posterior.draws if statement is None else posterior.sums(statement)
    if len(table) <= SHOWN or draws.ndim < 4 or draws.shape[-1] > COLUMNS:
        return []
    return [_image(plot_cells(draws), "Posterior means; half of the 90 % interval divided by the estimate.")]


def _intervals(posterior: Denoised, table: pd.DataFrame, statement: Public | None) -> Figure:
    width = (table["upper"] - table["lower"]).to_numpy() / np.maximum(table["estimate"].to_numpy(), 1)
    widest = np.sort(np.argsort(-width, kind="stable")[:SHOWN])
    shown = table.iloc[widest]
    labels = [", ".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in shown.index]
    with figure_style():
        figure = Figure(figsize=(7, 0.8 + 0.2 * len(shown)), layout="constrained")
        axes = figure.add_subplot()
        places = np.arange(len(shown))
        if "least" in shown:
            upper_end = np.where(np.isfinite(shown["most"]), shown["most"], shown["upper"])
            axes.hlines(places, shown["least"], upper_end, color=QUIET, linewidth=0.7)
        axes.hlines(places, shown["lower"], shown["upper"], color=POSTERIOR, linewidth=2, alpha=0.5)
        axes.plot(shown["estimate"], places, "o", color=POSTERIOR, markersize=4)
        if statement is None:
            axes.plot(_published_cells(posterior)[widest], places, "x", color=NAIVE, markersize=5)
        axes.set(yticks=places, yticklabels=labels, xlabel="persons", ylim=(len(shown) - 0.4, -0.6))
        clean(axes)
    return figure


def _convergence(posterior: Denoised) -> Figure:
    table = posterior.convergence
    with figure_style():
        figure = Figure(figsize=(7, 2.2), layout="constrained")
        panels = figure.subplots(1, 2)
        for axes, values, limit, label in (
            (panels[0], table["ess_bulk"], 400, "effective draws"),
            (panels[1], table["r_hat"], 1.02, "R-hat"),
        ):
            known = values.dropna().to_numpy()
            if known.size:
                axes.hist(known, bins=min(30, 5 + known.size // 4), color=POSTERIOR)
            axes.axvline(limit, color=NAIVE, linestyle="--", linewidth=1)
            axes.set(xlabel=label, ylabel="cells")
            clean(axes)
    return figure


def _parameters(posterior: Denoised) -> pd.DataFrame:
    """Return posterior means and standard deviations of the prior's scalar parameters."""
    rows = {name: (draws.mean(), draws.std()) for name, draws in posterior.parameters.items() if np.ndim(draws) == 2}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "sd"]).round(2)
    return table.rename_axis("parameter")
