"""One part of a table: its source, and the files of its message and its draws."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppdinf._internal.atomic_files import write_atomically
from ppdinf.denoising.count_priors import BinomialPrior
from ppdinf.denoising.part_sums import PartSums, TotalMessage
from ppdinf.errors import LabelError, ModelError, PpdinfError
from ppdinf.measurements import Measurements, read_measurements

__all__ = ["DRAWS", "MESSAGES", "Part", "Source"]

MESSAGES, DRAWS = "messages", "draws"  # subfolders

type Source = Callable[[], Measurements] | str | PathLike[str] | Measurements
"""Measurements of a part, a function that loads them, or the path of a file that `Measurements.save` wrote."""


@dataclass(frozen=True, eq=False)
class Part:
    """One part of a table, and the folder of its results; it can be sent to another process.

    Raises
    ------
    LabelError
        The name cannot be the name of a file.
    """

    name: str
    source: Source
    prior: BinomialPrior | None
    folder: Path

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or Path(self.name).name != self.name:
            raise LabelError(f"the name of a part must be text that can be the name of a file, found {self.name!r}")

    def message(self, step: int, tilt: float, tolerance: float) -> TotalMessage:
        """Compute and store the message of an upward pass, or read it if the part has not changed since.

        Raises
        ------
        ModelError
            The part has changed since its message was stored.
        """
        place = self.folder / MESSAGES / f"{self.name}.{step}.npz"
        stored = _read(place) if place.exists() else None
        if stored is not None and stored.tilt == tilt and step > 0:  # compared with the part in the first pass
            return stored
        sums = self._load()
        if stored is not None:
            self._require_same(sums, stored)
            if stored.tilt == tilt:
                return stored
        with _named(self.name):
            message = sums.message(tilt, tolerance)
        data = io.BytesIO()
        np.savez(data, **asdict(message))
        write_atomically(place, data.getvalue())
        return message

    def draw(self, message: TotalMessage, totals: NDArray[np.int64], seed: np.random.SeedSequence) -> None:
        """Draw all cells given their total in each draw, and write them, unless the file exists.

        Raises
        ------
        ModelError
            The part has changed since its message was stored.
        """
        place = self.folder / DRAWS / f"{self.name}.parquet"
        if place.exists():
            return
        sums = self._load()
        self._require_same(sums, message)
        with _named(self.name):
            drawn = sums.draw(message, totals, np.random.default_rng(seed))
        frame = sums.data.frame
        columns = {f"draw_{n}": row for n, row in enumerate(drawn)}
        for name in frame.coords:
            if name in columns:
                raise LabelError(f"part {self.name!r}: rename the coordinate {name!r}, which is the name of a draw")
        labels = {name: frame.broadcast(name) for name in frame.coords}
        write_atomically(place, pd.DataFrame(labels | columns, copy=False).to_parquet(index=False))

    def _load(self) -> PartSums:
        with _named(self.name):
            data = self.source
            if isinstance(data, str | PathLike):
                data = read_measurements(data)
            elif not isinstance(data, Measurements):
                data = data()
            if not isinstance(data, Measurements):
                raise ModelError(f"its function must return Measurements, found {type(data).__name__}")
            return PartSums(data, self.prior)

    def _require_same(self, sums: PartSums, message: TotalMessage) -> None:
        if sums.digest != message.digest:
            raise ModelError(
                f"the measurements or the prior of part {self.name!r} have changed since {self.folder.name} was "
                "started: use another output folder"
            )


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Add the name of a part to the messages of errors."""
    try:
        yield
    except PpdinfError as error:
        if len(error.args) != 1:
            raise
        raise type(error)(f"part {name!r}: {error}") from error


def _read(place: Path) -> TotalMessage:
    with np.load(place, allow_pickle=False) as stored:
        values = {name: stored[name] for name in stored.files}
    return TotalMessage(**{name: value if value.ndim else value.item() for name, value in values.items()})
