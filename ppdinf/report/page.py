"""One page: verdict and finding, then figures, tables, and text behind folds, as one HTML file that loads no file."""

from __future__ import annotations

import base64
import io
import platform
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pandas as pd
from jinja2 import Environment, PackageLoader

from ppdinf._internal.atomic_files import write_atomically
from ppdinf._internal.values import FilePath

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PACKAGES = ("ppdinf", "pymc", "arviz", "numba", "numpy")
FAILED = "The checks failed: do not use."
LISTED = 1000  # rows of a table on a page


@dataclass
class Page:
    """A page with the result in a box, and its parts in their order."""

    title: str
    about: str = ""
    verdict: str = ""
    ok: bool | None = None  # None: nothing was checked
    finding: str = ""
    details: str = ""
    stamp: str = ""  # a warning at every figure
    settings: Mapping[str, object] = field(default_factory=dict)
    parts: list[dict[str, object]] = field(default_factory=list)

    def add(self, heading: str = "", text: str = "", **fields: object) -> None:
        """Append a heading, a paragraph, and the fields of a figure or a table."""
        self.parts.append({"heading": heading, "text": text} | fields)

    def figure(self, figure: Figure, caption: str) -> bytes:
        """Append a figure, and return it as PNG bytes."""
        data = png(figure)
        self.add(image=base64_of(data), caption=caption)
        return data

    def table(
        self, table: pd.DataFrame, caption: str, *, labels: int = 1, marks: Collection[int] = (), wrapped: bool = False
    ) -> None:
        """Append a table whose first columns are labels; `marks` are the positions of marked rows."""
        # one decimal place in columns that contain fractions
        digits = [int(column.dtype.kind == "f" and bool((column % 1 > 0).any())) for _, column in table.items()]
        rows = [
            (k in marks, [*map(str, row[:labels]), *map(number, row[labels:], digits[labels:])])
            for k, row in enumerate(table.head(LISTED).itertuples(index=False, name=None))
        ]
        if len(table) > LISTED:
            caption = f"{caption} {len(table) - LISTED:,} more rows are not shown."
        columns = [str(column) for column in table.columns]
        self.add(caption=caption, columns=columns, rows=rows, labels=labels, wrapped=wrapped)

    def write(self, path: FilePath, template: str = "page.html.j2", **values: object) -> None:
        """Write the page by a template, with further values for it; an existing file is replaced."""
        page = environment().get_template(template)
        versions = [*((name, version(name)) for name in PACKAGES), ("Python", platform.python_version())]
        write_atomically(path, page.render(**vars(self), **values, versions=versions))


def environment() -> Environment:
    """Return the templates of this folder; labels are escaped."""
    loader = PackageLoader("ppdinf.report", ".")
    templates = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    templates.filters["number"] = number
    return templates


def number(value: Any, digits: int | None = None) -> str:
    """Format an entry of a table: numbers with separators, a dash for nan."""
    if isinstance(value, str | bool):
        return str(value)
    if pd.isna(value):
        return "–"
    if value in (float("inf"), -float("inf")):
        return "no limit"
    return f"{value:,.{int(value % 1 > 0) if digits is None else digits}f}"


def listed(names: list[str], most: int = 5) -> str:
    """Join names in a sentence, at most some of them; by semicolons if names contain commas."""
    comma = "; " if any("," in name for name in names) else ", "
    *shown, last = names if len(names) <= most else [*names[:most], f"{len(names) - most} more"]
    return f"{comma.join(shown)} and {last}" if shown else last


def base64_of(data: bytes) -> str:
    """Return bytes as text for the address of an image."""
    return base64.b64encode(data).decode("ascii")


def png(figure: Figure) -> bytes:
    """Return a figure as PNG bytes, at a higher resolution if the figure requests it."""
    data = io.BytesIO()
    dpi = max(110 if figure.get_figheight() < 8 else 130, figure.dpi)
    figure.savefig(data, format="png", dpi=dpi, metadata={"Software": None})
    return data.getvalue()
