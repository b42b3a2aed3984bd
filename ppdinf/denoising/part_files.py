"""One part of a table: its source, and the files of its message and its draws."""

from __future__ import annotations

import hashlib
import io
import json
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
DRAW = "draw_"  # prefix of the columns of draws
# attributes of a file of draws: digest of the measurements, the prior and the totals; see `Part.draw`
GIVEN, TRUNCATED = "given", "truncated"

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

    def draw(self, message: TotalMessage, totals: NDArray[np.int64], seed: np.random.SeedSequence) -> int:
        """Draw all cells given their total in each draw, and write them, unless the file exists.

        Returns
        -------
        int
            Number of cells whose draws reach the end of the range that the noise permits.

        Raises
        ------
        ModelError
            The part has changed since its message was stored, or the file has draws of other measurements or totals.
        """
        place = self.folder / DRAWS / f"{self.name}.parquet"
        given = hashlib.sha256(message.digest.encode() + totals.tobytes()).hexdigest()
        if place.exists():
            attributes = _attributes(place)
            if attributes.get(GIVEN) != given:
                raise ModelError(
                    f"{place.name} has draws of part {self.name!r} given other measurements or another total: use "
                    "another output folder"
                )
            return int(attributes[TRUNCATED])
        sums = self._load()
        self._require_same(sums, message)
        with _named(self.name):
            drawn = sums.draw(message, totals, np.random.default_rng(seed))
        frame = sums.data.frame
        labels = {name: frame.broadcast(name) for name in frame.coords}
        table = pd.DataFrame(labels | {f"{DRAW}{n}": row for n, row in enumerate(drawn)}, copy=False)
        table.attrs = {GIVEN: given, TRUNCATED: (truncated := sums.truncated(drawn))}
        write_atomically(place, table.to_parquet(index=False))
        return truncated

    def _load(self) -> PartSums:
        with _named(self.name):
            data = self.source
            if isinstance(data, str | PathLike):
                data = read_measurements(data)
            elif not isinstance(data, Measurements):
                data = data()
            if not isinstance(data, Measurements):
                raise ModelError(f"its function must return Measurements, found {type(data).__name__}")
            for name in data.frame.coords:
                if name.startswith(DRAW) and name.removeprefix(DRAW).isdigit():
                    raise LabelError(f"rename the coordinate {name!r}, which is the name of a column of draws")
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


def _attributes(place: Path) -> dict[str, str | int]:
    """Return the attributes of a data frame in a Parquet file."""
    from pyarrow.parquet import read_schema

    attributes: dict[str, str | int] = json.loads((read_schema(place).metadata or {}).get(b"PANDAS_ATTRS", b"{}"))
    return attributes


def _read(place: Path) -> TotalMessage:
    with np.load(place, allow_pickle=False) as stored:
        values = {name: stored[name] for name in stored.files}
    return TotalMessage(**{name: value if value.ndim else value.item() for name, value in values.items()})
