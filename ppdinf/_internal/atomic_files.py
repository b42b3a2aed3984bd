"""Files that are written as a whole or not at all, whatever happens meanwhile.

The data go to another name in the same folder and to the disk, and take their name in one step: whoever opens it, after
a crash or a kill too, finds what was there before or what is there now. A kill can leave a hidden file
``.*.unfinished`` beside, which nothing reads.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from ppdinf.errors import WriteError

__all__ = ["flush_folder", "make_folder", "require_place", "unwritable", "write_whole"]


def write_whole(
    path: str | PathLike[str], data: bytes | str, *, overwrite: bool = True, mode: int | None = None
) -> None:
    r"""Write a file as a whole or not at all.

    Parameters
    ----------
    path : str or path
        A link is followed where it is overwritten, and what it leads to keeps its permissions.
    data : bytes or str
        Text is written as UTF-8, its lines as they are.
    overwrite : bool, default True
        Replace a file that is there already.
    mode : int, optional
        Permissions, from before the first byte on; otherwise those of what is replaced, or as the system has them.

    Raises
    ------
    FileExistsError
        There is something of that name, and `overwrite` is False; of several processes that write it at once, one
        succeeds.
    WriteError
        The folder is missing or may not be written, the disk is full, or the name is not that of a file. What was there
        before is still there, and nothing else.

    Notes
    -----
    Where a file system knows no hard links, a kill while a new file gets its name can leave an empty one.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder, "a.csv"), "n\n3\n")
    ...     Path(folder, "a.csv").read_bytes()
    b'n\n3\n'
    """
    goal = Path(os.path.realpath(path)) if overwrite else Path(path)
    with unwritable(Path(path).name):
        found = _mode_of(goal) if overwrite else None
        mode = found if mode is None else mode
        unfinished = goal.parent / f".{secrets.token_hex(8)}.unfinished"  # short: names can be as long as folders allow
        try:
            _fill(unfinished, data.encode("utf-8") if isinstance(data, str) else data, mode)
            if overwrite:
                unfinished.replace(goal)
            else:
                _name(unfinished, goal)
        finally:
            unfinished.unlink(missing_ok=True)
        flush_folder(goal.parent)


def require_place(path: str | PathLike[str]) -> None:
    """Refuse, before any work, a file that could not be written when it is done.

    Raises
    ------
    WriteError
        Its folder is missing, or may not be written.
    """
    folder = Path(path).absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise WriteError(
            errno.ENOENT, f"{Path(path).name} cannot be written: make its folder, and see that you may write there"
        )


def make_folder(path: str | PathLike[str]) -> None:
    """Make a folder, and those above it, where they are missing.

    Raises
    ------
    WriteError
        Something else has that name, or the system refuses.
    """
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise WriteError(
            error.errno, f"the folder {path.name} could not be made: {why[:1].lower()}{why[1:]}"
        ) from error


@contextlib.contextmanager
def unwritable(name: str) -> Iterator[None]:
    """Say in one kind of error that a file cannot be written, whatever the system's reason; not that it exists."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise WriteError(
            error.errno, f"{name} could not be written, and nothing of it is left: {why[:1].lower()}{why[1:]}"
        ) from error


def flush_folder(folder: Path) -> None:
    """See that the names in a folder are on the disk, where the system has a way to ask for that."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _mode_of(goal: Path) -> int | None:
    """Permissions of a file that is to be replaced; whatever may not be replaced is refused."""
    try:
        found = goal.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found):
        raise OSError(None, "there is something of that name that is no file")
    if not os.access(goal, os.W_OK):
        raise PermissionError(None, "the file there is write-protected")
    return stat.S_IMODE(found)


def _fill(path: Path, data: bytes, mode: int | None) -> None:
    with path.open("xb") as file:
        if mode is not None:
            path.chmod(mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _name(unfinished: Path, goal: Path) -> None:
    """Give a file its name unless there is one of that name, in one step."""
    if os.name == "nt":
        unfinished.rename(goal)  # which refuses names that exist
        return
    try:
        os.link(unfinished, goal)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: take the name first, then fill it
        goal.open("xb").close()
        try:
            unfinished.replace(goal)
        except BaseException:
            goal.unlink()
            raise
