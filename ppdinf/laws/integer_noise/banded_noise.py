"""Integer noise whose distribution depends on the band of the count, such as cell-key perturbation tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppdinf._internal.frozen import assign, construct
from ppdinf._internal.types import Json, Symbolic
from ppdinf.errors import PrivacyError
from ppdinf.laws.integer_noise.additive_noise import noise_distribution
from ppdinf.laws.observation_model import Column, IndependentLaw


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
