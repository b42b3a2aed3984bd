"""One part of a table: its source, and the files of its message and its draws, each with a digest that is checked."""

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

FOLDERS = MESSAGES, DRAWS, DIGESTS = "messages", "draws", "digests"
DRAW = "draw_"  # prefix of the columns of draws
DIGEST = "sha256"  # of the notes and of the data of a file
# notes of a file of draws: digest of the measurements, the prior and the totals; see `Part.draw`
GIVEN, TRUNCATED = "given", "truncated"
AGAIN = "delete it, and run denoise_parts again: it makes the same draws"

type Notes = dict[str, str | int]

type Source = Callable[[], Measurements] | str | PathLike[str] | Measurements
"""Measurements of a part, a function that loads them, or the path of a file that `Measurements.save` wrote."""


@dataclass(frozen=True, eq=False)
class Part:
    """One part of a table, and the folder of its results; it can be sent to another process."""

    name: str
    source: Source
    prior: BinomialPrior | None
    folder: Path

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or Path(self.name).name != self.name:
            raise LabelError(f"the name of a part must be text that can be the name of a file, found {self.name!r}")

    def message(self, step: int, tilt: float, tolerance: float) -> TotalMessage:
        """Compute and store the message of an upward pass, or read it if the part has not changed since."""
        place = self.folder / MESSAGES / f"{self.name}.{step}.npz"
        stored = _stored(self.folder, place, self.name)
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
        write_checked(self.folder, place, data.getvalue(), {})
        return message

    def draw(self, message: TotalMessage, totals: NDArray[np.int64], seed: np.random.SeedSequence) -> int:
        """Draw all cells given their total in each draw, and write them, unless the file exists."""
        place = self.folder / DRAWS / f"{self.name}.parquet"
        given = hashlib.sha256(message.digest.encode() + totals.tobytes()).hexdigest()
        found = read_checked(self.folder, place, f"of part {self.name!r}")
        if found is not None:
            if found[1][GIVEN] != given:
                raise ModelError(
                    f"{place.name} has draws of part {self.name!r} given other measurements or another total: use "
                    "another output folder"
                )
            return int(found[1][TRUNCATED])
        sums = self._load()
        self._require_same(sums, message)
        with _named(self.name):
            drawn = sums.draw(message, totals, np.random.default_rng(seed))
        frame = sums.data.frame
        labels = {name: frame.broadcast(name) for name in frame.coords}
        table = pd.DataFrame(labels | {f"{DRAW}{n}": row for n, row in enumerate(drawn)}, copy=False)
        notes: Notes = {GIVEN: given, TRUNCATED: (truncated := sums.truncated(drawn))}
        write_checked(self.folder, place, table.to_parquet(index=False), notes)
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


def write_checked(folder: Path, place: Path, data: bytes, notes: Notes) -> None:
    """Write a file of a run, then its notes and the digest of both; a file without a digest is not used."""
    write_atomically(place, data)
    write_atomically(_index(folder, place), json.dumps(notes | {DIGEST: _digest(notes, data)}))


def read_checked(folder: Path, place: Path, of: str, remedy: str = AGAIN) -> tuple[bytes, Notes] | None:
    """Return the bytes and the notes of a file of a run; None if the file or its digest was not written."""
    index = _index(folder, place)
    if not (place.exists() and index.exists()):
        return None
    try:
        notes = json.loads(index.read_bytes())
        digest = notes.pop(DIGEST)
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        raise ModelError(f"the file {DIGESTS}/{index.name} {of} is damaged: {remedy}") from None
    try:
        data = place.read_bytes()
    except OSError as error:
        raise ModelError(f"the file {place.name} {of} cannot be read ({error.strerror}): {remedy}") from None
    if digest != _digest(notes, data):
        raise ModelError(f"the file {place.name} {of} is damaged, its digest differs: {remedy}")
    return data, notes


def _index(folder: Path, place: Path) -> Path:
    return folder / DIGESTS / f"{place.name}.json"


def _digest(notes: Notes, data: bytes) -> str:
    return hashlib.sha256(json.dumps(notes, sort_keys=True).encode() + data).hexdigest()


def _stored(folder: Path, place: Path, name: str) -> TotalMessage | None:
    """Return the message in a file; None if it was not written."""
    found = read_checked(folder, place, f"of part {name!r}")
    if found is None:
        return None
    with np.load(io.BytesIO(found[0]), allow_pickle=False) as stored:
        values = {name: stored[name] for name in stored.files}
    return TotalMessage(**{name: value if value.ndim else value.item() for name, value in values.items()})
