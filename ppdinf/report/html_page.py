"""The stand-alone HTML page: one file, figures inside, nothing to load from anywhere."""

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

from ppdinf._internal.atomic_files import write_whole
from ppdinf.plots.noise import noise_values
from ppdinf.privacy.guarantees.unit_loss import describe_loss
from ppdinf.privacy.guarantees.wording import shown
from ppdinf.report.analysis_report import PER, RateAnalysis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ppdinf.privacy.guarantees.release_guarantee import ReleaseGuarantee

__all__ = ["write_report"]

PACKAGES = ("ppdinf", "pymc", "arviz", "numba", "numpy")


def write_report(
    analysis: RateAnalysis, path: str | PathLike[str], *, title: str, release_file: str, about: str = ""
) -> None:
    """Write the story of a release and its posterior as one HTML file, and the figures beside it as PNG.

    Parameters
    ----------
    analysis : RateAnalysis
    path : str or path
        Of the HTML file; its folder must exist.
    title : str
        What the table counts, where and when.
    release_file : str
        File name of the release, as the code on the page reads it.
    about : str, optional
        A sentence on where the table comes from.
    """
    path = Path(path)
    images = {}
    for name, figure in analysis.figures().items():
        images[name] = png(figure)
        write_whole(path.parent / f"{name}.png", images[name])
    write_whole(path, _render(analysis, images, title, release_file, about))


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
    """Templates of this folder; labels are escaped."""
    found = Environment(
        loader=PackageLoader("ppdinf.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["number"] = _number
    return found


def versions() -> list[tuple[str, str]]:
    """Name the packages that a page was made with."""
    return [(name, version(name)) for name in PACKAGES] + [("Python", platform.python_version())]


def _one_person(guarantee: ReleaseGuarantee) -> tuple[str, str]:
    """Loss of one unit as text, and all its numbers."""
    loss, name = guarantee.loss_of_unit, "epsilon" if guarantee.rho is None else "rho"
    if loss == math.inf:
        return "no limit", f"on the loss of one {guarantee.unit}"
    return shown(loss), f"{name} at most for one {guarantee.unit}: {describe_loss(guarantee)}"


def _loss(promise: ReleaseGuarantee) -> tuple[str, str]:
    """Privacy loss as a number, and which number it is."""
    zcdp = promise.rho is not None
    unit = "per unit of distance" if promise.metric else "between neighbours"
    what = f"rho: zCDP loss {unit.replace('distance', 'squared distance')}" if zcdp else f"epsilon: privacy loss {unit}"
    return f"{float(promise.loss(1)):g}", what


def _number(value: float, digits: int | None = None) -> str:
    """Write a number for a table; a dash where there is none."""
    if pd.isna(value):
        return "–"
    whole = float(value).is_integer() if digits is None else digits == 0
    return f"{value:,.0f}" if whole else f"{value:,.{digits or 1}f}"


def png(figure: Figure) -> bytes:
    """Draw a figure; finer than usual if it says so."""
    data = io.BytesIO()
    dpi = max(110 if figure.get_figheight() < 8 else 130, figure.dpi)
    figure.savefig(data, format="png", dpi=dpi, metadata={"Software": None})
    return data.getvalue()
