"""Names of rows, which are composed only when they are read: large systems have millions of rows."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import overload

import numpy as np
from numpy.typing import NDArray

from ppdinf.tables.frame import Frame


class Names(Sequence[str]):
    """A sequence of strings that equals a list of the same strings."""

    start = ""
    """Text at the start of every name."""

    @abstractmethod
    def name(self, row: int) -> str:
        """Return the name of row 0, 1, ..., ``len(self) - 1``."""

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        rows = range(len(self))[row]  # Python's rules for negative positions, missing positions and slices
        return [self.name(r) for r in rows] if isinstance(rows, range) else self.name(rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Names | list | tuple) and len(self) == len(other) and all(map(str.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        more = f", ... ({len(self)} names)" if len(self) > 6 else ""
        return f"[{', '.join(map(repr, self[:6]))}{more}]"


@dataclass(frozen=True, eq=False, repr=False)
class CellNames(Names):
    """Rows named after cells, by a subset of the cells' labels."""

    frame: Frame
    cells: NDArray[np.int64]
    by: tuple[str, ...]
    before: str = ""
    after: str = ""

    @property
    def start(self) -> str:  # type: ignore[override]
        """Text at the start of every name."""
        return f"{self.before}{self.by[0]}=" if self.by else self.before

    def __len__(self) -> int:
        return int(self.cells.size)

    def name(self, row: int) -> str:
        """Compose one name."""
        cell = int(self.cells[row])
        labels = ", ".join(f"{coordinate}={self.frame.label(coordinate, cell)}" for coordinate in self.by)
        return f"{self.before}{labels}{self.after}"


@dataclass(frozen=True, eq=False, repr=False)
class GroupNames(Names):
    """Rows named after groups of labels."""

    dim: str
    groups: Sequence[str | int]

    @property
    def start(self) -> str:  # type: ignore[override]
        """Text at the start of every name."""
        return f"{self.dim} in "

    def __len__(self) -> int:
        return len(self.groups)

    def name(self, row: int) -> str:
        """Compose one name."""
        return f"{self.dim} in {self.groups[row]}"


class Joined(Names):
    """Concatenated sequences of names."""

    def __init__(self, parts: Sequence[Sequence[str]]) -> None:
        self._parts = [part for part in parts if len(part)]
        self._starts = [0, *accumulate(map(len, self._parts))]

    def __len__(self) -> int:
        return self._starts[-1]

    def name(self, row: int) -> str:
        """Return the name of one row."""
        k = bisect_right(self._starts, row) - 1
        return self._parts[k][row - self._starts[k]]


class Chosen(Names):
    """A subset of a sequence of names."""

    def __init__(self, names: Sequence[str], rows: NDArray[np.int64]) -> None:
        self._names, self._rows = names, rows

    def __len__(self) -> int:
        return int(self._rows.size)

    def name(self, row: int) -> str:
        """Return the name of one row."""
        return self._names[int(self._rows[row])]


def cell_names(names: Sequence[str]) -> Iterator[tuple[CellNames, NDArray[np.int64]]]:
    """Return the rows that are named after cells, and their places in `names`, part by part."""
    if isinstance(names, CellNames):
        yield names, np.arange(len(names))
    elif isinstance(names, Joined):
        for start, part in zip(names._starts, names._parts, strict=False):
            for cells, rows in cell_names(part):
                yield cells, rows + start
    elif isinstance(names, Chosen):
        place = np.full(len(names._names), -1)
        place[names._rows] = np.arange(len(names))
        for cells, rows in cell_names(names._names):
            chosen = place[rows] >= 0
            yield replace(cells, cells=cells.cells[chosen]), place[rows][chosen]
