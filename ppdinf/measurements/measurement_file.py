"""Files of measurements: a sealed archive of JSON and CSV, like release files.

``manifest.json`` contains the version, dimensions and coordinates, and the statements of exact and noisy sums.
``cells.csv`` has one row per cell with its labels. ``public.csv`` has one row per exact sum. ``measured-1.csv`` and
so on have one row per sum of a noisy statement: name, published value (empty if missing or below a threshold), name of
the law, and parameters of the law. A transition matrix is a separate part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ppdinf.measurements.measured import Measured
from ppdinf.releases import sealed
from ppdinf.releases.sealed import as_csv
from ppdinf.tables.frame import Frame

if TYPE_CHECKING:
    from ppdinf.measurements.measurements import Measurements

HOLDS, SCHEMA = "measurements", 1
FIELDS = {"holds", "schema", "dims", "coordinates", "public", "measured", "parts", "digest"}
CELLS, PUBLIC = "cells.csv", "public.csv"


def pack_measurements(data: Measurements) -> bytes:
    """Return the bytes of the file: identical for equal measurements on every machine."""
    frame = data.frame
    parts = {
        CELLS: as_csv(list(frame.coords), *(frame.broadcast(name).tolist() for name in frame.coords)),
        PUBLIC: as_csv(["sum", "value"], data.public.names, data.public.values.tolist()),
    }
    matrices: dict[bytes, str] = {}
    parts |= {name_of(number): _part(part, frame, matrices) for number, part in enumerate(data.stated)}
    manifest = {
        "holds": HOLDS,
        "schema": SCHEMA,
        **sealed.coordinates(frame),
        "public": data.public.public.to_dict(),
        "measured": [part.statement.to_dict() for part in data.stated],
    }
    return sealed.pack(manifest, parts | {name: matrix for matrix, name in matrices.items()})


def name_of(number: int) -> str:
    """Return the name of the part of a noisy statement, by its index."""
    return f"measured-{number + 1}.csv"


def _part(part: Measured, frame: Frame, matrices: dict[bytes, str]) -> bytes:
    """Return one row for every sum of a statement; add required matrices to `matrices`."""
    _, names, y, there, forms = part.rows(frame)
    values = np.full(y.size, "", dtype=object)
    for form, rows in forms:
        values[rows[there[rows]]] = form.written(y[rows[there[rows]]])
    forms = tuple(sorted(forms, key=lambda form: int(form[1].min())))  # in the order of a reader
    texts = []
    for form, _ in forms:
        fields = form.to_dict()
        for key, value in fields.items():
            if isinstance(value, np.ndarray):
                matrix = as_csv([str(k) for k in range(value.shape[1])], *value.T.tolist())
                fields[key] = matrices.setdefault(matrix, f"matrix-{len(matrices) + 1}.csv")
        texts.append(fields)
    parameters = dict.fromkeys(key for fields in texts for key in fields if key != "name")
    columns = {key: np.full(len(names), "", dtype=object) for key in ("name", *parameters)}
    for fields, (_, rows) in zip(texts, forms, strict=True):
        for key, value in fields.items():
            columns[key][rows] = value
    return as_csv(
        ["sum", "value", "law", *parameters], names, values.tolist(), *(column.tolist() for column in columns.values())
    )
