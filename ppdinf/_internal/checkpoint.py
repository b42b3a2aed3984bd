"""Long work kept in a folder while it is under way: what is begun again goes on from there, to the same result.

A chain keeps finished draws, in files of arrays that are never touched again, and its *state*, in one file that is
replaced: all that the draws to come depend on. The state names the files that it follows, by their digests, and takes
its name when they are on the disk; a kill at any moment leaves the state before or the one after. What was changed or
damaged is done again, so that nothing kept can make a result another one.

States hold objects, and are pickled. Read back, they may name classes of this package, states of PyMC's steps and
arrays, and nothing else that could be called.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import shutil
import time
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ppdinf import __version__
from ppdinf._internal.atomic_files import make_folder, write_whole
from ppdinf._internal.types import Array
from ppdinf.errors import WriteError

__all__ = ["KeptChain", "forget", "kept_folder"]

EVERY = 5.0
"""Seconds between two times that a chain is kept: what a kill can cost."""

type Draw = Mapping[str, ArrayLike]

_PLAIN = {
    ("builtins", "set"),
    ("collections", "OrderedDict"),
    ("collections", "deque"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy.random._pickle", "__generator_ctor"),
    ("numpy.random._pickle", "__bit_generator_ctor"),
    ("numpy.random._pcg64", "PCG64"),
    ("numpy.random.bit_generator", "SeedSequence"),
    ("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"),
    ("pymc.util", "RandomGeneratorState"),
}


def kept_folder(keep: str | PathLike[str], source: bytes, **about: object) -> Path:
    """Name the folder of one piece of work, so that none goes on from the draws of another.

    Parameters
    ----------
    keep : str or path
        Folder that it is in.
    source : bytes
        What the work is about.
    **about
        Everything else that decides what comes out, as plain data.
    """
    text = json.dumps(about | {"ppdinf": __version__, "numpy": np.__version__}, sort_keys=True)
    return Path(keep, hashlib.sha256(source + text.encode()).hexdigest()[:16])


def forget(folder: Path) -> None:
    """Remove kept work, once its result is written."""
    shutil.rmtree(folder, ignore_errors=True)


class KeptChain:
    """Draws of one chain, and where it stands.

    Parameters
    ----------
    folder : path
        Made here, where it is missing.
    name : str
        Of the chain.
    shared : object, optional
        What states refer to and hold no copy of.

    Raises
    ------
    WriteError
        The folder cannot be made.

    Notes
    -----
    Where there is no room any more, the work goes on, and is not kept from there on.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     chain = KeptChain(Path(folder), "0")
    ...     chain.add({"x": 3})
    ...     chain.keep({"next": 4})
    ...     KeptChain(Path(folder), "0").load()
    ([{'x': np.int64(3)}], {'next': 4})
    """

    def __init__(self, folder: Path, name: str, shared: object = None) -> None:
        self._folder: Path | None = folder / name
        self._shared = shared
        self._parts: list[str] = []
        self._fresh: list[Draw] = []
        self._kept_at = time.monotonic()
        make_folder(self._folder)

    def load(self) -> tuple[list[dict[str, Any]], Any] | None:
        """Return the draws that are kept and the state that follows them; None where there are none, or not whole."""
        folder = self._folder
        try:
            if folder is None:
                return None
            data = (folder / "state").read_bytes()
            head, state = data[:64].decode("ascii"), data[64:]
            if hashlib.sha256(state).hexdigest() != head:
                return None
            parts, found = _Reader(io.BytesIO(state), self._shared).load()
            draws: list[dict[str, Any]] = []
            for number, digest in enumerate(parts):
                part = (folder / f"{number}.npz").read_bytes()
                if hashlib.sha256(part).hexdigest() != digest:
                    return None
                with np.load(io.BytesIO(part), allow_pickle=False) as arrays:
                    columns = {name: arrays[name] for name in arrays.files}
                draws += [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, pickle.UnpicklingError):
            return None  # changed or damaged
        self._parts = list(parts)
        return draws, found

    def add(self, draw: Draw) -> None:
        """Take a finished draw: names and arrays, the same in every draw."""
        if self._folder is not None:
            self._fresh.append(draw)

    @property
    def due(self) -> bool:
        """Whether it is time to keep the chain."""
        return self._folder is not None and time.monotonic() - self._kept_at >= EVERY

    def keep(self, state: object) -> None:
        """Write the draws since the last time, then the state that follows them."""
        if self._folder is None:
            return
        try:
            if self._fresh:
                data = io.BytesIO()
                columns: dict[str, Array] = {
                    name: np.stack([np.asarray(draw[name]) for draw in self._fresh]) for name in self._fresh[0]
                }
                np.savez_compressed(data, **columns)  # type: ignore[arg-type]
                write_whole(self._folder / f"{len(self._parts)}.npz", data.getvalue())
                self._parts.append(hashlib.sha256(data.getvalue()).hexdigest())
            written = io.BytesIO()
            _Writer(written, self._shared).dump((self._parts, state))
            digest = hashlib.sha256(written.getvalue()).hexdigest()
            write_whole(self._folder / "state", digest.encode("ascii") + written.getvalue())
        except WriteError:
            self._folder = None
        self._fresh, self._kept_at = [], time.monotonic()


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, shared: object) -> None:
        super().__init__(file, protocol=5)
        self._shared = shared

    def persistent_id(self, thing: object) -> str | None:
        return "shared" if thing is not None and thing is self._shared else None


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: object) -> None:
        super().__init__(file)
        self._shared = shared

    def persistent_load(self, pid: object) -> object:
        return self._shared

    def find_class(self, module: str, name: str) -> Callable[..., object]:
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        if "." not in name and module.split(".")[0] in ("ppdinf", "pymc"):
            found = super().find_class(module, name)
            own = isinstance(found, type) and found.__module__ == module
            if own and (module.startswith("ppdinf.") or hasattr(found, "__dataclass_fields__")):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is nothing that a state is made of")
