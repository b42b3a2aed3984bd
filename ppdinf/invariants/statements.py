"""Statements that make something about a table public, in the words of its labels.

A statement knows nothing of any count. Given the labels of a table (:class:`ppdinf.tables.Frame`)
it writes down its rows of the integer system: ``A x`` that is published exactly, or ``B x >= b`` that
is known to hold. The values of ``A x`` come later, from the confidential table or from what was published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ppdinf.errors import InvariantError, LabelError
from ppdinf.tables import Frame

__all__ = ["AtLeast", "Between", "Cells", "Covariates", "Linear", "Parents", "Statement", "Sums", "Zeros"]

Rows = tuple[sp.csr_array, list[str]]
Bounds = tuple[sp.csr_array, np.ndarray, list[str]]


class Statement:
    """One public statement: rows by label, a sentence (`str`), and a form for the release file."""

    kind: ClassVar[str]

    def equalities(self, frame: Frame) -> Rows:
        """Rows of ``A`` (one column per cell, in table order) and a name for each."""
        return _no_rows(frame), []

    def inequalities(self, frame: Frame) -> Bounds:
        """Rows of ``B``, the limits ``b``, and a name for each."""
        return _no_rows(frame), np.zeros(0, dtype=np.int64), []

    def coordinates(self) -> frozenset[str]:
        """Names of the coordinates this statement makes public."""
        return frozenset()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the release file; `from_dict` reads it back."""
        return {"kind": self.kind} | {f.name: _plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Statement:
        """Rebuild a statement of any kind.

        Raises
        ------
        InvariantError
            A kind that this version does not know.
        """
        kinds = {kind.kind: kind for kind in Statement.__subclasses__()}
        parameters = dict(data)
        kind = parameters.pop("kind", None)
        if kind not in kinds:
            raise InvariantError(f"this version of ppdinf does not know public statements of kind {kind!r}")
        return kinds[kind](**{name: _frozen(value) for name, value in parameters.items()})


@dataclass(frozen=True)
class Sums(Statement):
    """Sums of the table within each combination of labels of `by`; with no `by`, the total.

    With `weights`, each count is multiplied by that integer coordinate first.
    """

    kind: ClassVar[str] = "sums"
    by: tuple[str, ...] = ()
    weights: str | None = None

    def equalities(self, frame: Frame) -> Rows:
        """One row per combination of labels, in the order of the table."""
        codes, names = np.zeros(frame.size, dtype=np.int64), ["" if self.by else "total"]
        for coordinate in self.by:
            inner, labels = pd.factorize(frame.broadcast(coordinate))
            codes = codes * len(labels) + inner
            names = [f"{head}{', ' if head else ''}{coordinate}={label}" for head in names for label in labels]
        present, codes = np.unique(codes, return_inverse=True)
        A = _indicator(codes, present.size)
        if self.weights is not None:
            weights = frame.broadcast(self.weights)
            if weights.dtype.kind != "i":
                raise LabelError(f"the weights {self.weights!r} must be an integer coordinate")
            A = (A * weights).tocsr()
            A.eliminate_zeros()
        suffix = "" if self.weights is None else f" weighted by {self.weights}"
        return A, [names[k] + suffix for k in present]

    def coordinates(self) -> frozenset[str]:
        """Name what the sums run over: publishing them reveals it."""
        return frozenset(self.by) | ({self.weights} if self.weights is not None else set())

    def __str__(self) -> str:
        weighted = "" if self.weights is None else f", weighted by {self.weights},"
        return (
            f"the total{weighted}".rstrip(",")
            if not self.by
            else f"the sum{weighted} for every {' and '.join(self.by)}"
        )


@dataclass(frozen=True)
class Parents(Statement):
    """Sums over the labels of `dim` that share a parent, from a mapping of labels to parents."""

    kind: ClassVar[str] = "parents"
    dim: str
    parents: tuple[tuple[str | int, str | int], ...]

    def equalities(self, frame: Frame) -> Rows:
        """One row per parent."""
        parents = dict(self.parents)
        labels = frame.broadcast(self.dim)
        orphan = next((label for label in labels if label not in parents), None)
        if orphan is not None:
            raise LabelError(f"the mapping of {self.dim!r} to parents lacks the label {orphan!r}")
        codes, names = pd.factorize(np.array([parents[label] for label in labels], dtype=object))
        return _indicator(codes, len(names)), [f"{self.dim} in {name}" for name in names]

    def __str__(self) -> str:
        return f"the sum for every group of {self.dim} ({len({parent for _, parent in self.parents})} groups)"


@dataclass(frozen=True)
class Cells(Statement):
    """Cells chosen by label, held exactly."""

    kind: ClassVar[str] = "cells"
    where: tuple[tuple[str, tuple[str | int, ...]], ...]

    def equalities(self, frame: Frame) -> Rows:
        """One row per chosen cell."""
        return _chosen(frame, self.where)

    def __str__(self) -> str:
        return f"every count with {_where(self.where)}"


@dataclass(frozen=True)
class Zeros(Statement):
    """Structural zeros: cells that are empty by definition, whatever the table."""

    kind: ClassVar[str] = "zeros"
    where: tuple[tuple[str, tuple[str | int, ...]], ...]

    def equalities(self, frame: Frame) -> Rows:
        """One row per cell, to be equal to zero."""
        A, names = _chosen(frame, self.where)
        return A, [f"{name} (structural zero)" for name in names]

    def __str__(self) -> str:
        return f"no one can have {_where(self.where)}"


@dataclass(frozen=True)
class Linear(Statement):
    """Any integer combinations of cells: row r sums ``weight`` over its triplets (r, cell, weight)."""

    kind: ClassVar[str] = "linear"
    names: tuple[str, ...]
    triplets: tuple[tuple[int, int, int], ...]
    width: int
    labels: tuple[str | int, ...] | None = None

    def equalities(self, frame: Frame) -> Rows:
        """Return the rows as given."""
        return _from_triplets(frame, self.names, self.triplets, self.width, self.labels), list(self.names)

    def __str__(self) -> str:
        shown = ", ".join(self.names[:4]) + (", ..." if len(self.names) > 4 else "")
        return f"{len(self.names)} weighted sum{'s' * (len(self.names) != 1)} ({shown})"


@dataclass(frozen=True)
class Covariates(Statement):
    """Coordinates of the table that are public and travel with the release."""

    kind: ClassVar[str] = "covariates"
    names: tuple[str, ...]

    def equalities(self, frame: Frame) -> Rows:
        """No constraint on the counts; the coordinates must exist."""
        for name in self.names:
            frame.broadcast(name)
        return _no_rows(frame), []

    def coordinates(self) -> frozenset[str]:
        """All of them."""
        return frozenset(self.names)

    def __str__(self) -> str:
        return f"the coordinate{'s' * (len(self.names) > 1)} {', '.join(self.names)}"


@dataclass(frozen=True)
class Between(Statement):
    """Every count lies between two limits."""

    kind: ClassVar[str] = "between"
    low: int | None = 0
    high: int | None = None

    def inequalities(self, frame: Frame) -> Bounds:
        """``x >= low`` and ``-x >= -high`` for every cell."""
        parts = []
        for limit, sign, word in ((self.low, 1, "at least"), (self.high, -1, "at most")):
            if limit is not None:
                names = [f"{frame.cell(k)} {word} {limit}" for k in range(frame.size)]
                parts.append(
                    (
                        sign * sp.eye_array(frame.size, dtype=np.int64),
                        np.full(frame.size, sign * limit),
                        names,
                    )
                )
        return (
            sp.csr_array(sp.vstack([B for B, _, _ in parts])),
            np.concatenate([b for _, b, _ in parts]),
            [name for _, _, names in parts for name in names],
        )

    def __str__(self) -> str:
        if self.high is None:
            return "no count is negative" if self.low == 0 else f"every count is at least {self.low}"
        return (
            f"every count is at most {self.high}"
            if self.low is None
            else f"every count is from {self.low} to {self.high}"
        )


@dataclass(frozen=True)
class AtLeast(Statement):
    """Along `dim`, the count under `larger` is at least the count under `smaller`."""

    kind: ClassVar[str] = "at-least"
    larger: str | int
    smaller: str | int
    dim: str

    def inequalities(self, frame: Frame) -> Bounds:
        """One row per combination of the other labels."""
        cells = [np.flatnonzero(_select(frame, self.dim, (label,))) for label in (self.larger, self.smaller)]
        n = cells[0].size
        weights = np.repeat(np.array([1, -1]), n)
        B = sp.csr_array((weights, (np.tile(np.arange(n), 2), np.concatenate(cells))), shape=(n, frame.size))
        return B, np.zeros(n, dtype=np.int64), [f"{self} at {frame.cell(int(k))}" for k in cells[0]]

    def __str__(self) -> str:
        return f"{self.larger} >= {self.smaller}"


@dataclass(frozen=True)
class LinearBound(Statement):
    """Any integer combinations of cells with a lower limit each."""

    kind: ClassVar[str] = "linear-bound"
    names: tuple[str, ...]
    triplets: tuple[tuple[int, int, int], ...]
    width: int
    limits: tuple[int, ...]
    labels: tuple[str | int, ...] | None = None

    def inequalities(self, frame: Frame) -> Bounds:
        """Return the rows and limits as given."""
        B = _from_triplets(frame, self.names, self.triplets, self.width, self.labels)
        return B, np.array(self.limits, dtype=np.int64), list(self.names)

    def __str__(self) -> str:
        shown = ", ".join(f"{n} >= {limit}" for n, limit in zip(self.names[:4], self.limits[:4], strict=True))
        return shown + (", ..." if len(self.names) > 4 else "")


def _no_rows(frame: Frame) -> sp.csr_array:
    return sp.csr_array((0, frame.size), dtype=np.int64)


def _indicator(codes: np.ndarray, rows: int) -> sp.csr_array:
    cells = np.arange(codes.size)
    return sp.csr_array((np.ones(codes.size, dtype=np.int64), (codes, cells)), shape=(rows, codes.size))


def _select(frame: Frame, coordinate: str, labels: tuple[str | int, ...]) -> np.ndarray:
    found = frame.broadcast(coordinate)
    unknown = [label for label in labels if not np.any(found == label)]
    if unknown:
        raise LabelError(f"{coordinate!r} has no label {unknown[0]!r}")
    return np.isin(found, np.array(labels, dtype=found.dtype))


def _chosen(frame: Frame, where: tuple[tuple[str, tuple[str | int, ...]], ...]) -> Rows:
    mask = np.ones(frame.size, dtype=bool)
    for coordinate, labels in where:
        mask &= _select(frame, coordinate, labels)
    cells = np.flatnonzero(mask)
    if not cells.size:
        raise LabelError(f"no cell has {_where(where)}")
    A = sp.csr_array(
        (np.ones(cells.size, dtype=np.int64), (np.arange(cells.size), cells)), shape=(cells.size, frame.size)
    )
    return A, [frame.cell(int(k)) for k in cells]


def _where(where: tuple[tuple[str, tuple[str | int, ...]], ...]) -> str:
    return " and ".join(f"{name} = {' or '.join(map(str, labels))}" for name, labels in where)


def _from_triplets(
    frame: Frame,
    names: tuple[str, ...],
    triplets: tuple[tuple[int, int, int], ...],
    width: int,
    labels: tuple[str | int, ...] | None,
) -> sp.csr_array:
    if width != frame.size:
        raise InvariantError(f"the matrix with row {names[0]!r} has {width} columns, the table has {frame.size} cells")
    if labels is not None and list(labels) != list(frame.coords[frame.dims[0]][1]):
        raise LabelError(
            f"the columns of the matrix with row {names[0]!r} are not the labels of {frame.dims[0]!r}, in order"
        )
    rows, columns, weights = np.array(triplets, dtype=np.int64).reshape(-1, 3).T
    return sp.csr_array((weights, (rows, columns)), shape=(len(names), width))


def _plain(value: Any) -> Any:
    """Tuples as lists, however deep: what JSON gives back."""
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(entry) for entry in value) if isinstance(value, list) else value


def freeze_selector(where: Mapping[str, Any]) -> tuple[tuple[str, tuple[str | int, ...]], ...]:
    """Turn ``{"county": "Adams", "sex": ["F", "M"]}`` into hashable pairs."""
    if not isinstance(where, Mapping) or not where:
        raise LabelError("choose cells by a mapping of coordinate to labels, such as {'county': ['Adams']}")
    return tuple(
        (
            name,
            (labels,) if isinstance(labels, str | int | np.integer) else tuple(_native(label) for label in labels),
        )
        for name, labels in where.items()
    )


def _native(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
