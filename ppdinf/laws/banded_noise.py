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

from ppdinf._internal.values import Json, Symbolic, assign, construct
from ppdinf.errors import PrivacyError
from ppdinf.laws.observation_model import Column, IndependentLaw
from ppdinf.tables.frame import LARGEST

ROUNDING = 1e-6  # tolerance for the sum of probabilities
WIDEST = 10**7  # largest number of noise values, with gaps


@dataclass(frozen=True, eq=False)
class AdditiveNoise(IndependentLaw):
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
    pmf: Any = field(repr=False)
    first: int = field(init=False)
    probabilities: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        first, probabilities = noise_distribution(self.pmf, "the noise")
        assign(self, first=first, probabilities=probabilities)

    def to_dict(self) -> Json:
        """Return the name, and the noise values with their probabilities as a matrix of two columns."""
        used = np.flatnonzero(self.probabilities)
        return {"name": self.name, "pmf": np.column_stack([self.first + used, self.probabilities[used]])}

    @classmethod
    def _of_texts(cls, data: Json) -> AdditiveNoise:
        return construct(cls, {key: value for key, value in data.items() if key != "name"}, "additive noise")

    @property
    def last(self) -> int:
        """Largest noise value."""
        return self.first + self.probabilities.size - 1

    @cached_property
    def _log_p(self) -> NDArray[np.float64]:
        """Log probabilities, padded on both sides by ``-inf``."""
        with np.errstate(divide="ignore"):
            return np.pad(np.log(self.probabilities), 1, constant_values=-np.inf)

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return "a count with noise"

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log probability of each y given the count x, elementwise."""
        place = np.asarray(y - x, dtype=np.int64) - self.first + 1
        return self._log_p[np.clip(place, 0, self._log_p.size - 1)]

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count given each y, except with probability `tail_probability` per end."""
        below = np.searchsorted(np.cumsum(self.probabilities), tail_probability, side="right")
        above = np.searchsorted(np.cumsum(self.probabilities[::-1]), tail_probability, side="right")
        return y - (self.last - int(above)), y - (self.first + int(below))

    def columns(self, y: NDArray[Any]) -> list[Column]:
        """Return one column: the log probabilities in reverse order."""
        return [Column(self._log_p[-2:0:-1], np.arange(y.size), y - self.last)]

    def column_below(self, threshold: int) -> Column:
        """Return the log probability that ``x + noise < threshold``, the distribution function in reverse order."""
        log_below = np.log(np.minimum(np.cumsum(self.probabilities), 1.0))[::-1]
        begin = np.array([threshold - 1 - self.last])
        return Column(log_below, np.zeros(1, dtype=np.int64), begin, left=(0.0, 0.0))

    def publish(self, x: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Add noise drawn by inversion."""
        below = np.cumsum(self.probabilities)
        y: NDArray[np.int64] = x + self.first + np.searchsorted(below, rng.random(x.shape) * below[-1], side="right")
        return y


def noise_distribution(pmf: object, what: str) -> tuple[int, NDArray[np.float64]]:
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


@dataclass(frozen=True, eq=False)
class BandedNoise(IndependentLaw):
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
    bands: Any = field(repr=False)
    starts: NDArray[np.int64] = field(init=False)
    first: int = field(init=False)
    probabilities: NDArray[np.float64] = field(init=False, repr=False)

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
        assign(self, starts=np.array(starts, dtype=np.int64), first=first, probabilities=matrix)

    def to_dict(self) -> Json:
        """Return the name, and one row for each band and noise value of positive probability."""
        band, place = np.nonzero(self.probabilities)
        rows = np.column_stack([self.starts[band], self.first + place, self.probabilities[band, place]])
        return {"name": self.name, "bands": rows}

    @classmethod
    def _of_texts(cls, data: Json) -> BandedNoise:
        return construct(cls, {key: value for key, value in data.items() if key != "name"}, "banded noise")

    @property
    def last(self) -> int:
        """Largest noise value."""
        return self.first + int(self.probabilities.shape[1]) - 1

    @cached_property
    def _log_p(self) -> NDArray[np.float64]:
        """Log probabilities with a row for counts below the first band, and padded columns on both sides."""
        with np.errstate(divide="ignore"):
            return np.pad(np.log(self.probabilities), ((1, 0), (1, 1)), constant_values=-np.inf)

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return "whose probability is 0 in every band"

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log probability of each y given the count x, elementwise."""
        x = np.asarray(x, dtype=np.int64)
        place = np.asarray(y - x, dtype=np.int64) - self.first + 1
        band = np.searchsorted(self.starts, x, side="right")
        return self._log_p[band, np.clip(place, 0, self._log_p.shape[1] - 1)]

    def is_possible(self, y: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each number has positive probability for some count."""
        different, number = np.unique(y, return_inverse=True)
        noise = np.arange(self.first, self.last + 1)
        possible: NDArray[np.bool_] = np.isfinite(self.log_weight(different[:, None], different[:, None] - noise)).any(
            axis=1
        )
        return possible[number]

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count given each y, for any `tail_probability`."""
        return np.maximum(y - self.last, self.starts[0]), y - self.first

    def columns(self, y: NDArray[Any]) -> list[Column]:
        """Return one column for each different number near the bands, and one for all larger numbers."""
        noise = np.arange(self.last, self.first - 1, -1)
        key = np.minimum(y, self.starts[-1] + self.last)  # counts are in the last band for this y and larger ones
        found = []
        for value in np.unique(key):
            entries = np.flatnonzero(key == value)
            found.append(Column(self.log_weight(value, value - noise), entries, y[entries] - self.last))
        return found

    def column_below(self, threshold: int) -> Column:
        """Return the log probability that ``x + noise < threshold``, from the first band on."""
        counts = np.arange(self.starts[0], max(threshold - self.first, self.starts[0] + 1))
        below = np.pad(np.cumsum(self.probabilities, axis=1), ((0, 0), (1, 0)))
        place = np.clip(threshold - counts - self.first, 0, below.shape[1] - 1)
        band = np.searchsorted(self.starts, counts, side="right") - 1
        with np.errstate(divide="ignore"):
            log_below = np.log(np.minimum(below[band, place], 1.0))
        return Column(log_below, np.zeros(1, dtype=np.int64), self.starts[:1])

    def publish(self, x: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Add noise drawn by inversion from the band of each count."""
        rows = np.cumsum(self.probabilities, axis=1)[np.searchsorted(self.starts, x, side="right") - 1]
        y: NDArray[np.int64] = x + self.first + (rng.random(x.shape)[..., None] * rows[..., -1:] >= rows).sum(axis=-1)
        return y


def _bands_of(rows: object) -> dict[int, NDArray[np.float64]]:
    """Return the distribution of each band from rows of a band, a noise value and a probability."""
    array = np.asarray(rows, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 3 or not (array[:, 0] == np.rint(array[:, 0])).all():
        raise PrivacyError("bands must be a mapping, or an array (n, 3) of band, noise and probability")
    return {int(start): array[array[:, 0] == start, 1:] for start in np.unique(array[:, 0])}


def read_ptable(path: str | PathLike[str]) -> BandedNoise:
    r"""Read a perturbation table of the cell-key method, as the R package ptable writes it.

    Parameters
    ----------
    path : str or path
        CSV with a header, separated by commas, semicolons or tabs, and decimal points. Columns: ``i`` (original count),
        ``p`` (probability), and ``j`` (published count) or ``v`` (noise, ``j - i``). Other columns are ignored. The
        largest ``i`` also applies to all larger counts.

    Returns
    -------
    BandedNoise

    Raises
    ------
    PrivacyError
        A column is missing, a value is not a number, an original count between 0 and the largest one is missing, or
        the probabilities of an original count do not sum to 1.

    See Also
    --------
    ppdinf.laws.BandedNoise

    Notes
    -----
    Cells with the same records have the same cell key and the same noise. Such cells must be stated once.

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
