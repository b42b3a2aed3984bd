"""Exclusive use of a session file, by a lock file next to it and by a lock of the session file itself.

The lock file works on every system and before the session file exists, but it can be deleted while it is held. So
on POSIX systems the session file is locked, too. Other systems do not delete files that are open.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from ppdinf._internal.atomic_files import require_place, unwritable
from ppdinf.errors import SessionError

try:
    import fcntl
except ImportError:  # no POSIX system
    fcntl = None  # type: ignore[assignment]

PATIENCE = 60.0  # seconds; the lock is held while a line is written, not while noise is drawn
PAUSE = 0.02  # seconds between attempts


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a session file against all other processes and threads; the system releases the lock if a process dies."""
    require_place(path)  # otherwise a folder would be made for the lock
    end = time.monotonic() + PATIENCE
    lock = FileLock(f"{os.path.realpath(path)}.lock", timeout=PATIENCE)
    try:
        with unwritable(f"{path.name}.lock"):
            lock.acquire()
    except Timeout:
        raise _in_use(path) from None
    try:
        handle = None if fcntl is None else _hold(path, end)
        try:
            yield
        finally:
            if handle is not None:
                os.close(handle)  # releases the lock
    finally:
        lock.release()


def _hold(path: Path, end: float) -> int | None:
    """Lock the file that has this name, if there is one; return its handle."""
    while True:
        with unwritable(path.name):
            handle = _opened(path)
        if handle is None:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except (BlockingIOError, FileNotFoundError):
            pass  # held by another process, or removed since it was opened
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        if time.monotonic() > end:
            raise _in_use(path)
        time.sleep(PAUSE)


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDWR)
    except PermissionError:
        return os.open(path, os.O_RDONLY)
    except (FileNotFoundError, IsADirectoryError):
        return None


def _in_use(path: Path) -> SessionError:
    return SessionError(f"{path.name} has been in use by another process for {PATIENCE:g} s: try again")
