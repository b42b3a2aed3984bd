"""Common style of all figures: sizes, ink, and two colours for colour-blind readers.

Blue shows the posterior, vermilion the noisy numbers treated as true (palette of Okabe and Ito). Figures do not use
pyplot, so global state is unchanged and every backend is supported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.axes import Axes

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

__all__ = ["INK", "NAIVE", "POSTERIOR", "QUIET", "clean", "figure_style", "headline"]

POSTERIOR = "#0072B2"
NAIVE = "#D55E00"
INK = "#222222"
QUIET = "#767676"

_STYLE: dict[RcKeyType, str | float] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": QUIET,
    "axes.linewidth": 0.8,
    "xtick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.color": QUIET,
    "ytick.labelcolor": INK,
    "text.parse_math": False,  # labels are data: a dollar sign is printed
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 100,
}


@contextmanager
def figure_style() -> Iterator[None]:
    """Use the style of the package while a figure is built."""
    with mpl.rc_context(_STYLE):
        yield


def clean(axes: Axes) -> None:
    """Draw a grid behind the marks along x only, without tick marks along y."""
    axes.grid(axis="x", color="#E4E4E4", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)


def headline(axes: Axes, title: str, subtitle: str = "") -> None:
    """Write a sentence and, smaller, a description of the content above `axes`, left-aligned."""
    axes.set_title(f"{title}\n" if subtitle else title, loc="left", fontsize=10.5, fontweight="bold")
    if subtitle:
        axes.annotate(
            subtitle, (0, 1), xytext=(0, 6), xycoords="axes fraction", textcoords="offset points",
            fontsize=8.5, color=QUIET,
        )  # fmt: skip
