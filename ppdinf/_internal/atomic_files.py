"""Files that are written completely or not at all.

The data are written to a temporary name in the same folder and flushed to the disk; then the file is renamed in one
step. After a crash or a kill, a reader finds either the previous or the new content. A kill can leave a hidden file
``.*.unfinished`` in the folder, which nothing reads.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from ppdinf._internal.values import FilePath
from ppdinf.errors import PpdinfError, WriteError


def as_path(path: FilePath, error: type[PpdinfError] = WriteError) -> Path:
    """Require a path that the system can have: text or a path object, without null characters and surrogates."""
    try:
        found = Path(path)
        if b"\0" not in os.fsencode(found):
            return found
    except TypeError:
        raise error(f"a path must be text or pathlib.Path, found {type(path).__name__}") from None
    except UnicodeEncodeError:
        pass
    raise error(f"{str(path)!a} is not a path: remove null and surrogate characters")


def write_atomically(path: FilePath, data: bytes | str, *, overwrite: bool = True, mode: int | None = None) -> None:
    r"""Write a file completely or not at all."""
    path = as_path(path)
    goal = Path(os.path.realpath(path)) if overwrite else path
    with unwritable(path.name):
        existing = _mode_of(goal) if overwrite else None
        mode = existing if mode is None else mode
        unfinished = goal.parent / f".{secrets.token_hex(8)}.unfinished"  # short: file names have a length limit
        try:
            _fill(unfinished, data.encode("utf-8") if isinstance(data, str) else data, mode)
            if overwrite:
                unfinished.replace(goal)
            else:
                _name(unfinished, goal)
        finally:
            unfinished.unlink(missing_ok=True)
        flush_folder(goal.parent)


def require_place(path: FilePath) -> None:
    """Refuse, before any work, a file that cannot be written afterwards."""
    folder = as_path(path).absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise WriteError(
            errno.ENOENT, f"{Path(path).name} cannot be written: make its folder, and check that you may write there"
        )


def require_replaceable(*paths: FilePath | None) -> None:
    """Refuse, before any work, files that `write_atomically` could not write or replace afterwards."""
    for path in (given for given in paths if given is not None):
        goal = Path(os.path.realpath(as_path(path)))
        require_place(goal)
        with unwritable(goal.name):
            _mode_of(goal)


def make_folder(path: FilePath) -> None:
    """Make a folder and its missing parents."""
    path = as_path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _write_error(error, f"the folder {path.name} could not be made") from error


def _write_error(error: OSError, what: str) -> WriteError:
    why = error.strerror or type(error).__name__
    return WriteError(error.errno, f"{what}: {why[:1].lower()}{why[1:]}")


@contextlib.contextmanager
def unwritable(name: str) -> Iterator[None]:
    """Convert all system errors about an unwritable file to one type, except for existing files."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise _write_error(error, f"{name} could not be written, and no part of it remains") from error


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, if the system supports this."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _mode_of(goal: Path) -> int | None:
    """Return the permissions of a file that is replaced; refuse files that must not be replaced."""
    try:
        file_mode = goal.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(file_mode):
        raise OSError(None, "the name exists and is not a file")
    if not os.access(goal, os.W_OK):
        raise PermissionError(None, "the file there is write-protected")
    return stat.S_IMODE(file_mode)


def _fill(path: Path, data: bytes, mode: int | None) -> None:
    with path.open("xb") as file:
        if mode is not None:
            path.chmod(mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _name(unfinished: Path, goal: Path) -> None:
    """Rename a file in one step, unless the new name exists."""
    if os.name == "nt":
        unfinished.rename(goal)  # raises if the name exists
        return
    try:
        os.link(unfinished, goal)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: create the name first, then fill it
        goal.open("xb").close()
        try:
            unfinished.replace(goal)
        except BaseException:
            goal.unlink()
            raise
