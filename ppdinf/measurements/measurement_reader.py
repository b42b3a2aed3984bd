"""Reading of measurement files, with verification of every byte."""

from __future__ import annotations

from os import PathLike

import numpy as np

from ppdinf._internal.values import Reals
from ppdinf.errors import ReleaseFileError
from ppdinf.invariants import Public
from ppdinf.invariants.public import bind
from ppdinf.laws.law_array import LawArray
from ppdinf.laws.observation_model import ObservationModel
from ppdinf.measurements.measured import Measured
from ppdinf.measurements.measurement_file import CELLS, FIELDS, HOLDS, PUBLIC, SCHEMA, name_of, pack_measurements
from ppdinf.measurements.measurements import Measurements
from ppdinf.releases import Release, read_release, sealed
from ppdinf.tables.frame import Frame
from ppdinf.tables.totals import all_labels


def read_measurements(path: str | PathLike[str]) -> Measurements:
    """Read a file that `Measurements.save` wrote, and verify every byte of it.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Measurements
        Includes measurements of releases; the guarantees of releases are only in their own files.

    Raises
    ------
    ReleaseFileError
        The file is not of measurements or of another version, its parts are missing, added, edited or truncated, or its
        numbers are contradictory.

    See Also
    --------
    ppdinf.Measurements, ppdinf.read_published

    Examples
    --------
    >>> import pathlib, tempfile, ppdinf as ppd
    >>> inv = ppd.invariants
    >>> counts = ppd.measured(inv.margin("area"), [31, -2], ppd.laws.DoubleGeometric("1/4"))
    >>> seen = ppd.Measurements({"area": ["A", "B"]}, counts, public={inv.total(): 30})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     seen.save(pathlib.Path(folder, "areas.ppd"))
    ...     again = ppd.read_measurements(pathlib.Path(folder, "areas.ppd"))
    >>> again.equals(seen)
    True
    """
    return sealed.read_verified(path, _read, pack_measurements)


def read_ppd(path: str | PathLike[str]) -> Measurements | Release:
    """Read a file of measurements, or of a release.

    Parameters
    ----------
    path : str or path
        A file that `Measurements.save` or `Release.save` wrote.

    Returns
    -------
    Measurements or Release
        What the file contains.

    Raises
    ------
    ReleaseFileError
        As for `read_measurements` and `ppdinf.read_release`.

    See Also
    --------
    ppdinf.read_measurements, ppdinf.read_release, ppdinf.read_published

    Examples
    --------
    >>> import pathlib, tempfile, ppdinf as ppd
    >>> from ppdinf.measurements import read_ppd
    >>> release = ppd.Release([3, -1, 4], ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.save(pathlib.Path(folder, "cases.ppd"))
    ...     read_ppd(pathlib.Path(folder, "cases.ppd")).table.values
    array([ 3, -1,  4])
    """
    return read_measurements(path) if sealed.has_field(path, "holds", HOLDS) else read_release(path)


def _read(data: bytes) -> Measurements:
    manifest, parts = sealed.unpack(data, _require)
    labels = sealed.read_labelled(parts[CELLS], manifest, CELLS, {})
    frame = Frame.of(labels)
    public = Public.from_dict(manifest["public"])
    values = sealed.columns_of(parts[PUBLIC], {"sum": object, "value": np.int64}, PUBLIC)["value"]
    system = bind(public, frame, np.zeros(frame.size, dtype=np.int64), values)
    statements = [Public.from_dict(statement) for statement in manifest["measured"]]
    measured = [_measured(statement, name_of(k), parts) for k, statement in enumerate(statements)]
    # totals among the labels were refused, or stated to be none, when the file was written
    return Measurements(labels, *measured, public=system, not_totals=list(all_labels(frame)))


def _require(manifest: object) -> None:
    """Refuse manifests of other files and of unknown versions."""
    if not isinstance(manifest, dict) or manifest.get("holds") != HOLDS:
        raise ReleaseFileError("the file contains no measurements: ppd.read_release reads releases")
    sealed.require_manifest(manifest, SCHEMA, FIELDS)


def _measured(statement: Public, name: str, parts: dict[str, bytes]) -> Measured:
    """Read one noisy statement with its values in the order of its sums."""
    columns = sealed.columns_of(parts[name], None, name)
    text = columns.pop("value")
    values = np.array([value or np.nan for value in text], dtype=object)
    del columns["sum"]  # verified when the file is packed again
    columns["name"] = columns.pop("law")
    laws: list[ObservationModel] = []
    number, known = np.full(values.size, -1), {}
    for row, row_parameters in enumerate(zip(*columns.values(), strict=True)):
        if row_parameters not in known:
            stated = {key: value for key, value in zip(columns, row_parameters, strict=True) if value}
            known[row_parameters] = len(laws) if stated else -1
            if stated:
                read = {key: _matrix(parts[value], value) if value in parts else value for key, value in stated.items()}
                laws.append(ObservationModel.from_dict(read))
        number[row] = known[row_parameters]
    if len(laws) == 1 and (number == 0).all():
        return Measured(statement, values, laws[0])
    return Measured(statement, values, LawArray(tuple(laws), number))


def _matrix(data: bytes, name: str) -> Reals:
    columns = sealed.columns_of(data, None, name)
    return np.column_stack([column.astype(np.float64) for column in columns.values()])
