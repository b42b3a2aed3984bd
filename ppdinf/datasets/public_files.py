"""Public tables that are too large for the package: files in the folder that the variable PPDINF_DATA names."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "PPDINF_DATA"


def public_folder() -> Path | None:
    """Return the folder that PPDINF_DATA names, or None if it is unset or empty."""
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    folder = Path(name)
    if not folder.is_dir():
        raise FileNotFoundError(f"{VARIABLE} names {name!r}, not a folder: correct the path, or unset {VARIABLE}")
    return folder


def public_file(name: str) -> Path | None:
    """Return the path of a file in the folder that PPDINF_DATA names, or None if the variable is unset.

    Parameters
    ----------
    name : str

    Raises
    ------
    FileNotFoundError
        The folder, or the file in it, does not exist.

    See Also
    --------
    ppdinf.datasets.read_table

    Examples
    --------
    >>> from ppdinf.datasets import public_file
    >>> file = public_file("county_population_2010.csv")
    >>> file is None or file.exists()
    True
    """
    folder = public_folder()
    if folder is None:
        return None
    if not (folder / name).is_file():
        raise FileNotFoundError(f"the folder {VARIABLE}={folder} has no file {name!r}: add it, or unset {VARIABLE}")
    return folder / name
