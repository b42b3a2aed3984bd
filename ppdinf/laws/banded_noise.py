"""Integer noise with any distribution of finite support, which can depend on the band of the count."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppdinf._internal.values import Flags, Integers, Reals, Symbolic, assign, logarithms
from ppdinf.errors import PrivacyError
from ppdinf.laws.observation_model import Column, IndependentLaw
from ppdinf.tables.frame import LARGEST

ROUNDING = 1e-6  # tolerance for the sum of probabilities
WIDEST = 10**7  # largest number of noise values, with gaps
EVERY = -(2**62)  # the smallest count of a band of all counts


class ListedNoise(IndependentLaw):
    """Published number ``x + noise``, where the distribution of the noise is listed for each band of counts.

    Attributes
    ----------
    starts : array of int64, shape (bands,)
        The smallest count of each band; `EVERY` for the band of all counts.
    first : int
        The smallest noise value.
    probabilities : array of float64, shape (bands, noise values), or (noise values,) for a single band
    """

    starts: Integers
    first: int
    probabilities: Reals

    @property
    def last(self) -> int:
        """Largest noise value."""
        return self.first + int(self.probabilities.shape[-1]) - 1

    @property
    def _rows(self) -> Reals:
        return np.atleast_2d(self.probabilities)

    @cached_property
    def _log_p(self) -> Reals:
        """Log probabilities with a row for counts below the first band, and padded columns on both sides."""
        return np.pad(logarithms(self._rows), ((1, 0), (1, 1)), constant_values=-np.inf)

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log probability of each y given the count x, elementwise."""
        x = np.asarray(x, dtype=np.int64)
        place = np.asarray(y - x, dtype=np.int64) - self.first + 1
        band = np.searchsorted(self.starts, x, side="right")
        return self._log_p[band, np.clip(place, 0, self._log_p.shape[1] - 1)]

    def _near(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return y, with one number for all numbers that only counts of the last band can have."""
        return np.minimum(y, self.starts[-1] + self.last)

    def noise_moments(self, numbers: int) -> tuple[float, float]:
        """Return the moments of noise that is the same for all counts."""
        if self.starts[0] != EVERY or len(self._rows) > 1:
            return super().noise_moments(numbers)
        noise = np.arange(self.first, self.last + 1.0)
        p = self._rows[0] / self._rows[0].sum()
        return float(p @ noise), float(p @ noise**2 - (p @ noise) ** 2)

    def _noise(self, y: NDArray[Any]) -> tuple[Flags, Integers]:
        """Return whether each noise value gives each different number, shape (k, noise values), and their places."""
        different, number = np.unique(self._near(y), return_inverse=True)
        counts = different[:, None] - np.arange(self.first, self.last + 1)
        return np.isfinite(self.log_weight(different[:, None], counts)), number.reshape(np.shape(y))

    def is_possible(self, y: Integers) -> Flags:
        """Return whether each number has positive probability for some count."""
        possible, number = self._noise(y)
        some: Flags = possible.any(axis=1)[number]
        return some

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count given each y, for any `tail_probability`."""
        possible, number = self._noise(np.asarray(y))
        smallest, largest = possible.argmax(axis=1), possible.shape[1] - 1 - possible[:, ::-1].argmax(axis=1)
        return y - self.first - largest[number], y - self.first - smallest[number]

    def columns(self, y: NDArray[Any]) -> list[Column]:
        """Return one column for each different number near the bands, and one for all larger numbers."""
        noise, near = np.arange(self.last, self.first - 1, -1), self._near(y)
        columns = []
        for value in np.unique(near):
            entries = np.flatnonzero(near == value)
            columns.append(Column(self.log_weight(value, value - noise), entries, y[entries] - self.last))
        return columns

    def column_below(self, threshold: int) -> Column:
        """Return the log probability that ``x + noise < threshold``, from the first band on."""
        is_every = self.starts[0] == EVERY
        start = threshold - 1 - self.last if is_every else self.starts[0]
        counts = np.arange(start, max(threshold - self.first, start + 1))
        below = np.pad(np.cumsum(self._rows, axis=1), ((0, 0), (1, 0)))
        place = np.clip(threshold - counts - self.first, 0, below.shape[1] - 1)
        band = np.searchsorted(self.starts, counts, side="right") - 1
        log_below = logarithms(np.minimum(below[band, place], 1.0))
        left = (0.0, 0.0) if is_every else (np.inf, 0.0)
        return Column(log_below, np.zeros(1, dtype=np.int64), np.array([start]), left=left)

    def publish(self, x: Integers, rng: np.random.Generator) -> Integers:
        """Add noise drawn by inversion from the band of each count."""
        band, uniform, y = np.searchsorted(self.starts, x, side="right") - 1, rng.random(x.shape), x + self.first
        for k in np.unique(band):
            cells, below = band == k, np.cumsum(self._rows[k])
            y[cells] += np.searchsorted(below, uniform[cells] * below[-1], side="right")
        return y


@dataclass(frozen=True, eq=False)
class AdditiveNoise(ListedNoise):
    """Published number ``x + noise`` with the stated probabilities of the noise; other noise is impossible.

    The density is normalized. Memory and time depend on the number of noise values, not on the counts.

    Parameters
    ----------
    pmf : mapping of int to float, pandas.Series indexed by noise, or array of shape (n, 2)
        Probability of each noise value; the rows of an array are noise values and probabilities.

    Raises
    ------
    PrivacyError
        Noise values are not different integers, or probabilities are negative or do not sum to 1.

    See Also
    --------
    ppdinf.laws.BandedNoise, ppdinf.laws.DoubleGeometric

    Examples
    --------
    The sum of two independent discrete Laplace variables is a convolution.

    >>> import numpy as np
    >>> from ppdinf.laws import AdditiveNoise
    >>> import pandas as pd
    >>> z = np.arange(-60, 61)
    >>> one = np.exp(-0.5 * abs(z)) / np.exp(-0.5 * abs(z)).sum()
    >>> noise = AdditiveNoise(pd.Series(np.convolve(one, one), index=np.arange(-120, 121)))
    >>> np.exp(noise.log_weight(7, np.array([5, 7]))).round(4)
    array([0.0919, 0.1298])
    """

    name: ClassVar[str] = "additive-noise"
    gives: ClassVar[str] = "a count with noise"
    pmf: Any = field(repr=False)
    starts: Integers = field(init=False, repr=False, compare=False)
    first: int = field(init=False, compare=False)
    probabilities: Reals = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        first, probabilities = noise_distribution(self.pmf, "the noise")
        used = np.flatnonzero(probabilities)
        pmf = np.column_stack([first + used, probabilities[used]])
        assign(self, pmf=pmf, starts=np.array([EVERY]), first=first, probabilities=probabilities)

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count given each y, except with probability `tail_probability` per end."""
        below = np.searchsorted(np.cumsum(self.probabilities), tail_probability, side="right")
        above = np.searchsorted(np.cumsum(self.probabilities[::-1]), tail_probability, side="right")
        return y - (self.last - int(above)), y - (self.first + int(below))


@dataclass(frozen=True, eq=False)
class BandedNoise(ListedNoise):
    """Published number ``x + noise``, where the distribution of the noise depends on the band that contains x.

    Bands are consecutive ranges of counts. The last band has no upper end. Counts below the first band are impossible.
    Memory is proportional to bands times noise values, for counts of any size.

    Parameters
    ----------
    bands : mapping of int to distribution, or array of shape (n, 3)
        The smallest count of each band, and the distribution of its noise as for `AdditiveNoise`. The rows of an array
        are the smallest count of a band, a noise value, and its probability.

    Raises
    ------
    PrivacyError
        A band is not an integer, or its distribution is not valid (the message names the band).

    See Also
    --------
    ppdinf.laws.read_ptable, ppdinf.laws.AdditiveNoise

    Examples
    --------
    Zeros stay zeros, ones become 0 or 3, larger counts change by at most 1.

    >>> import numpy as np
    >>> from ppdinf.laws import BandedNoise
    >>> keys = BandedNoise({0: {0: 1}, 1: {-1: 0.7, 2: 0.3}, 2: {-1: 0.2, 0: 0.6, 1: 0.2}})
    >>> np.exp(keys.log_weight(3, np.array([0, 1, 2, 3, 4]))).round(3)
    array([0. , 0.3, 0.2, 0.6, 0.2])
    """

    name: ClassVar[str] = "banded-noise"
    gives: ClassVar[str] = "whose probability is 0 in every band"
    bands: Any = field(repr=False)
    starts: Integers = field(init=False, compare=False)
    first: int = field(init=False, compare=False)
    probabilities: Reals = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        bands: Any = self.bands if isinstance(self.bands, Mapping) else _bands_of(self.bands)
        if not bands or any(isinstance(n, bool) or not isinstance(n, int | np.integer) for n in bands):
            raise PrivacyError("bands must map the smallest count of each band, an integer, to a distribution of noise")
        starts = sorted(bands)
        parts = [noise_distribution(bands[start], f"the band from {start} on") for start in starts]
        first = min(begin for begin, _ in parts)
        matrix = np.zeros((len(parts), max(begin + p.size for begin, p in parts) - first))
        for row, (begin, p) in zip(matrix, parts, strict=True):
            row[begin - first : begin - first + p.size] = p
        band, place = np.nonzero(matrix)
        rows = np.column_stack([np.array(starts)[band], first + place, matrix[band, place]])
        assign(self, bands=rows, starts=np.array(starts, dtype=np.int64), first=first, probabilities=matrix)


def _bands_of(rows: object) -> dict[int, Reals]:
    """Return the distribution of each band from rows of a band, a noise value and a probability."""
    array = np.asarray(rows, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 3 or not (array[:, 0] == np.rint(array[:, 0])).all():
        raise PrivacyError("bands must be a mapping, or an array (n, 3) of band, noise and probability")
    return {int(start): array[array[:, 0] == start, 1:] for start in np.unique(array[:, 0])}


def noise_distribution(pmf: object, what: str) -> tuple[int, Reals]:
    """Return the smallest noise value of positive probability, and the probabilities of consecutive values."""
    if isinstance(pmf, pd.Series):
        noise, p = np.asarray(pmf.index), np.asarray(pmf, dtype=np.float64)
    elif isinstance(pmf, Mapping):
        noise, p = np.array(list(pmf)), np.array(list(pmf.values()), dtype=np.float64)
    else:
        rows = np.asarray(pmf, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != 2:
            raise PrivacyError(f"{what} must be a mapping of noise to probability, a Series or an array (n, 2)")
        noise, p = rows.T
    numbers = pd.to_numeric(pd.Series(noise), errors="coerce").to_numpy(np.float64)
    if not numbers.size or not ((numbers == np.rint(numbers)) & (np.abs(numbers) <= LARGEST)).all():
        raise PrivacyError(f"{what} must have noise values that are integers of at most 2**53 in absolute value")
    if not (p >= 0).all() or not abs(math.fsum(p) - 1) < ROUNDING:
        raise PrivacyError(f"{what} must have probabilities that are non-negative and sum to 1, found {p.sum():.6g}")
    used = numbers[p > 0].astype(np.int64)
    if np.unique(used).size < used.size:
        raise PrivacyError(f"{what} must have different noise values")
    if used.max() - used.min() >= WIDEST:
        raise PrivacyError(f"{what} must cover at most {WIDEST:,} values, from the smallest to the largest")
    probabilities = np.zeros(int(used.max() - used.min()) + 1)
    probabilities[used - used.min()] = p[p > 0]
    return int(used.min()), probabilities


def read_ptable(path: str | PathLike[str]) -> BandedNoise:
    r"""Read a perturbation table of the cell-key method, as the R package ptable writes it.

    Cells with the same records have the same cell key and the same noise. Such cells must be stated once.

    Parameters
    ----------
    path : str or path
        CSV with a header, separated by commas, semicolons or tabs, and decimal points. Columns: ``i`` (original count),
        ``p`` (probability), and ``j`` (published count) or ``v`` (noise, ``j - i``). Other columns are ignored. The
        largest ``i`` also applies to all larger counts. Columns ``pcv``, ``ckey`` and ``pvalue`` are the count, the
        cell key and the noise; all keys have the same probability.

    Raises
    ------
    PrivacyError
        A column is missing, a value is not a number, an original count between 0 and the largest one is missing, or
        the probabilities of an original count do not sum to 1.

    See Also
    --------
    ppdinf.laws.BandedNoise

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.laws import read_ptable
    >>> import pathlib, tempfile
    >>> text = "i;j;p;v\n0;0;1;0\n1;0;0.5;-1\n1;2;0.5;1\n2;1;0.25;-1\n2;2;0.5;0\n2;3;0.25;1\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "ptable.csv").write_text(text)
    ...     keys = read_ptable(pathlib.Path(folder, "ptable.csv"))
    >>> np.exp(keys.log_weight(30_001, np.array([30_000, 30_001, 30_002])))
    array([0.25, 0.5 , 0.25])
    """
    table = pd.read_csv(path, sep=None, engine="python")
    table.columns = [str(column).strip() for column in table.columns]
    if {"pcv", "ckey", "pvalue"} <= set(table.columns):
        shares = table.groupby("pcv")["pvalue"].value_counts(normalize=True)
        table = shares.rename("p").rename_axis(["i", "v"]).reset_index()
    if not {"i", "p"} <= set(table.columns) or not {"j", "v"} & set(table.columns):
        raise PrivacyError(f"a ptable needs the columns i, p, and j or v, found {', '.join(table.columns)}")
    if "type" in table.columns and table["type"].nunique() > 1:
        raise PrivacyError("the ptable has several types of rows: use the rows of one type for counts")
    numbers = {
        name: pd.to_numeric(table[name], errors="coerce").to_numpy(np.float64)
        for name in ("i", "p", "j", "v")
        if name in table
    }
    for name, column in numbers.items():
        for row in np.flatnonzero(np.isnan(column))[:1]:
            raise PrivacyError(f"the column {name!r} of the ptable has no number in data row {row + 1}")
    i = numbers["i"]
    noise = numbers["v"] if "v" in numbers else numbers["j"] - i
    if not np.array_equal(np.unique(i), np.arange(i.max() + 1)):
        raise PrivacyError("the original counts i of a ptable must be 0, 1, ..., up to the largest one")
    return BandedNoise(np.column_stack([i, noise, numbers["p"]]))
