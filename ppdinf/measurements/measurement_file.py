"""Files of measurements: a sealed archive of JSON and CSV, as release files are.

``manifest.json`` holds the version, dimensions and coordinates, and as statements what is exact and what was measured;
``cells.csv`` has one row per cell, its labels; ``public.csv`` one per exact sum; ``measured-1.csv`` and so on one per
sum of a statement that was measured: its name, what was published (empty where nothing was, or where it stayed below a
threshold), the name of its law and the law's parameters. A matrix of probabilities is a part of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ppdinf.laws.thresholded import ABSENT
from ppdinf.measurements.measured import Measured
from ppdinf.releases import sealed
from ppdinf.releases.sealed import as_csv
from ppdinf.tables.frame import Frame

if TYPE_CHECKING:
    from ppdinf.measurements.measurements import Measurements

__all__ = ["packed"]

HOLDS, SCHEMA = "measurements", 1
FIELDS = {"holds", "schema", "dims", "coordinates", "public", "measured", "parts", "digest"}
CELLS, PUBLIC = "cells.csv", "public.csv"


def packed(data: Measurements) -> bytes:
    """Bytes of the file: the same for the same measurements, on every machine."""
    frame = data.frame
    parts = {
        CELLS: as_csv(list(frame.coords), *(frame.broadcast(name).tolist() for name in frame.coords)),
        PUBLIC: as_csv(["sum", "value"], data.public.names, data.public.values.tolist()),
    }
    matrices: dict[bytes, str] = {}
    for number, part in enumerate(data.stated):
        parts[name_of(number)] = _part(part, frame, matrices)
    manifest = {
        "holds": HOLDS,
        "schema": SCHEMA,
        **sealed.coordinates(frame),
        "public": data.public.public.to_dict(),
        "measured": [part.statement.to_dict() for part in data.stated],
    }
    return sealed.packed(manifest, parts | {name: matrix for matrix, name in matrices.items()})


def name_of(number: int) -> str:
    """Name of the part of a statement that was measured, by its place."""
    return f"measured-{number + 1}.csv"


def _part(part: Measured, frame: Frame, matrices: dict[bytes, str]) -> bytes:
    """One row for every sum of a statement; matrices that it needs are added to those there are."""
    _, names, y, there, forms = part.rows(frame)
    values = np.where(there & (y != ABSENT), y.astype(object), "").tolist()
    forms = tuple(sorted(forms, key=lambda form: int(form[1].min())))  # as a reader meets them
    texts = []
    for form, _ in forms:
        given = form.to_dict()
        for key, value in given.items():
            if isinstance(value, np.ndarray):
                matrix = as_csv([str(k) for k in range(value.shape[1])], *value.T.tolist())
                given[key] = matrices.setdefault(matrix, f"matrix-{len(matrices) + 1}.csv")
        texts.append(given)
    parameters = dict.fromkeys(key for given in texts for key in given if key != "name")
    columns = {key: np.full(len(names), "", dtype=object) for key in ("name", *parameters)}
    for given, (_, rows) in zip(texts, forms, strict=True):
        for key, value in given.items():
            columns[key][rows] = value
    return as_csv(
        ["sum", "value", "law", *parameters], names, values, *(column.tolist() for column in columns.values())
    )
