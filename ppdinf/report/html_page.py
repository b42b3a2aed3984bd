"""The self-contained HTML page of an analysis, with figures inside."""

from __future__ import annotations

import base64
import io
import math
import platform
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from ppdinf._internal.atomic_files import write_atomically
from ppdinf.plots.noise import noise_values
from ppdinf.privacy.guarantees.unit_loss import describe_loss
from ppdinf.privacy.guarantees.wording import format_loss
from ppdinf.report.analysis_report import PER, RateAnalysis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ppdinf.privacy.guarantees.release_guarantee import ReleaseGuarantee

PACKAGES = ("ppdinf", "pymc", "arviz", "numba", "numpy")


def write_report(
    analysis: RateAnalysis, path: str | PathLike[str], *, title: str, release_file: str, about: str = ""
) -> None:
    """Write a release and its posterior as one HTML file, and the figures as PNG files in the same folder."""
    path = Path(path)
    images = {}
    for name, figure in analysis.figures().items():
        images[name] = png(figure)
        write_atomically(path.parent / f"{name}.png", images[name])
    write_atomically(path, _render(analysis, images, title, release_file, about))


def _render(analysis: RateAnalysis, images: dict[str, bytes], title: str, release_file: str, about: str) -> str:
    release, noise = analysis.release, noise_values(analysis.release)
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            about=about,
            analysis=analysis,
            release=release,
            frame=release.frame,
            guarantee=release.guarantee.describe().split("\n\n"),
            noise_sd=float(noise.std()),
            noise_often=np.quantile(abs(noise), 0.5, method="inverted_cdf"),
            noise_rare=np.quantile(abs(noise), 0.95, method="inverted_cdf"),
            digits=0 if release.mechanism.is_integer else 1,
            one_person=_one_person(release.guarantee),
            loss=_loss(release.guarantee),
            sums=list(zip(release.public.names, release.public.values.tolist(), strict=True)),
            kept=bool(release.public.check(release.table)["agrees"].all()),
            cells=analysis.table().to_dict("records"),
            summary=analysis.summary(),
            per=f"{PER:,}",
            images={name: base64.b64encode(data).decode("ascii") for name, data in images.items()},
            code=analysis.code(release_file),
            versions=versions(),
        )
    )


def environment() -> Environment:
    """Return the templates of this folder; labels are escaped."""
    templates = Environment(
        loader=PackageLoader("ppdinf.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["number"] = _number
    return templates


def versions() -> list[tuple[str, str]]:
    """Return names and versions of the packages that made a page."""
    return [(name, version(name)) for name in PACKAGES] + [("Python", platform.python_version())]


def _one_person(guarantee: ReleaseGuarantee) -> tuple[str, str]:
    """Return the loss of one unit as text, and all its numbers."""
    loss, name = guarantee.loss_of_unit, "epsilon" if guarantee.rho is None else "rho"
    if loss == math.inf:
        return "no limit", f"on the loss of one {guarantee.unit}"
    return format_loss(loss), f"{name} at most for one {guarantee.unit}: {describe_loss(guarantee)}"


def _loss(guarantee: ReleaseGuarantee) -> tuple[str, str]:
    """Return the privacy loss as a number, and its description."""
    zcdp = guarantee.rho is not None
    unit = "per unit of distance" if guarantee.metric else "between neighbours"
    squared = unit.replace("distance", "squared distance")
    description = f"rho: zCDP loss {squared}" if zcdp else f"epsilon: privacy loss {unit}"
    return f"{float(guarantee.loss(1)):g}", description


def _number(value: float, digits: int | None = None) -> str:
    """Format a number for a table, or a dash for nan."""
    if pd.isna(value):
        return "–"
    whole = float(value).is_integer() if digits is None else digits == 0
    return f"{value:,.0f}" if whole else f"{value:,.{digits or 1}f}"


def png(figure: Figure) -> bytes:
    """Return a figure as PNG bytes, at a higher resolution if the figure requests it."""
    data = io.BytesIO()
    dpi = max(110 if figure.get_figheight() < 8 else 130, figure.dpi)
    figure.savefig(data, format="png", dpi=dpi, metadata={"Software": None})
    return data.getvalue()
