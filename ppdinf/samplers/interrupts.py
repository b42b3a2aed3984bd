"""Stop PyMC's samplers between two draws, so that Ctrl-C keeps the finished draws.

Python delivers Ctrl-C at the next Python bytecode. Numba runs Python bytecode to wrap the result of compiled code. An
interrupt there is raised as a `SystemError` ("returned a result with an exception set") instead of the
`KeyboardInterrupt` that PyMC handles, and every draw is lost. The probability increases with the time per density.
This module records the signal on arrival and raises the interrupt from PyMC's callback after the current draw.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def between_draws() -> Iterator[Callable[..., None]]:
    """Yield a callback for `pm.sample` that stops it after the current draw once Ctrl-C was pressed."""
    pressed = threading.Event()

    def note(number: int, frame: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    def callback(*args: object, **kwargs: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, note) if main else None
    try:
        yield callback
    finally:
        if main:
            signal.signal(signal.SIGINT, before)
