"""Common style of all figures: sizes, ink, and two colours for colour-blind readers.

Blue shows the posterior, vermilion the noisy numbers treated as true (palette of Okabe and Ito). Figures do not use
pyplot, so global state is unchanged and every backend is supported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import Locator, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from ppdinf._internal.values import Flags, Integers, Reals

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

POSTERIOR = "#0072B2"
NAIVE = "#D55E00"
INK = "#222222"
QUIET = "#767676"

GRID: dict[str, Any] = {"color": "#E4E4E4", "linewidth": 0.7}
FEWEST = 4  # labels along an axis

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
    axes.grid(axis="x", **GRID)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)


class EqualDistances(MaxNLocator):
    """At least four ticks at multiples of 1, 2 or 5 times a power of ten, and at integers if the range permits."""

    def __init__(self) -> None:
        super().__init__(nbins=7, steps=[1, 2, 5, 10], integer=True, min_n_ticks=FEWEST)


class RoundNumbers(Locator):
    """Ticks of an axis that is linear between -`threshold` and `threshold`, and logarithmic beyond."""

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold

    def __call__(self) -> list[float]:
        """Return the ticks of the shown range."""
        assert self.axis is not None
        return self.tick_values(*self.axis.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        """Return the ticks between two numbers."""
        low, high = sorted((vmin, vmax))
        decades = int(np.log10(max(abs(low), abs(high), self._threshold) / self._threshold)) + 1
        for multiples in ((1,), (1, 2, 5)):
            positive = [multiple * self._threshold * 10**k for k in range(decades) for multiple in multiples]
            ticks = [tick for tick in sorted({0, *positive, *(-tick for tick in positive)}) if low <= tick <= high]
            if len(ticks) >= FEWEST:
                return ticks
        equal = EqualDistances().tick_values(low, high)
        return [float(tick) for tick in equal if low <= tick <= high]


def label_round_numbers(axis: Axis, threshold: int | None = None) -> None:
    """Label at least four round numbers along an axis that is linear, or logarithmic beyond a power of ten."""
    axis.set_major_locator(EqualDistances() if threshold is None else RoundNumbers(threshold))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:,.0f}")


LINEAR = 10  # counts up to here are on a linear scale in every figure


def count_axis(axes: Axes, values: ArrayLike) -> None:
    """Scale the x axis so that small counts are visible: logarithmic beyond 10 if `values` exceed 100."""
    known = np.abs(np.asarray(values, dtype=np.float64))
    if np.max(known[np.isfinite(known)], initial=0.0) > 10 * LINEAR:
        axes.set_xscale("symlog", linthresh=LINEAR, linscale=0.7)
        label_round_numbers(axes.xaxis, LINEAR)
        axes.set_xlabel(f"persons (linear between -{LINEAR} and {LINEAR}, logarithmic beyond)")
    else:
        label_round_numbers(axes.xaxis)
        axes.set_xlabel("persons")


def cut_outliers(axes: Axes, rows: Integers, low: Reals, high: Reals) -> None:
    """Limit the x axis to 0 and the middle 95 % of rows if others would halve its scale, and print their ends."""
    known = [np.sort(ends[np.isfinite(ends)]) for ends in (low, high)]
    few = known[1].size // 20
    if not few:
        return
    left, right = min(known[0][few], 0.0), known[1][-few - 1]
    width, margin = right - left, 0.05 * (right - left)
    if known[1][-1] > right + width:
        axes.set_xlim(right=right + margin)
        _print_ends(axes, rows, high, high > right + margin, "right", "to {} \N{RIGHTWARDS ARROW}")
    if known[0][0] < left - width:
        axes.set_xlim(left=left - margin)
        _print_ends(axes, rows, low, low < left - margin, "left", "\N{LEFTWARDS ARROW} {}")


def _print_ends(axes: Axes, rows: Integers, ends: Reals, beyond: Flags, side: str, words: str) -> None:
    edge = axes.get_xlim()[side == "right"]
    for row in np.flatnonzero(beyond):
        axes.text(
            edge, rows[row], words.format(f"{ends[row]:,.0f}"), ha=side, va="center", color=INK, fontsize=6.5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )  # fmt: skip


def label_rows(axes: Axes, names: list[str], marked: Flags, word: str, size: float = 9) -> None:
    """Label rows from the top down, in the order of `names`; marked ones are bold, after a word."""
    texts = [f"{word}: {name}" if mark else name for name, mark in zip(names, marked, strict=True)]
    axes.set_yticks(range(len(texts)), texts, fontsize=size)
    axes.set_ylim(len(texts) - 0.4, -0.6)
    for label, mark in zip(axes.get_yticklabels(), marked, strict=True):
        label.set(color=NAIVE if mark else INK, fontweight="bold" if mark else "normal")


def headline(axes: Axes, title: str, subtitle: str = "") -> None:
    """Write a sentence and, smaller, a description of the content above `axes`, left-aligned."""
    axes.set_title(f"{title}\n" if subtitle else title, loc="left", fontsize=10.5, fontweight="bold")
    if subtitle:
        axes.annotate(
            subtitle, (0, 1), xytext=(0, 6), xycoords="axes fraction", textcoords="offset points",
            fontsize=8.5, color=QUIET,
        )  # fmt: skip
