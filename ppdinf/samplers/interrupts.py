"""Stop PyMC's own samplers between two draws, so that Ctrl-C keeps what was drawn.

Python hands Ctrl-C to a program at its next line of Python. Where that line belongs to numba, which runs some to wrap
up the result of compiled code, what comes out is a `SystemError` ("returned a result with an exception set") instead of
the `KeyboardInterrupt` that PyMC waits for, and every draw is lost. The longer a density takes, the surer that is. Here
the signal is noted when it comes, and the interrupt raised from PyMC's callback after the draw that was under way.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["between_draws"]


@contextmanager
def between_draws() -> Iterator[Callable[..., None]]:
    """Give a callback for `pm.sample` that stops it after a draw, once Ctrl-C was pressed.

    Yields
    ------
    callable
        For ``pm.sample(callback=...)`` of PyMC's own samplers; nutpie takes none, and keeps its draws by itself.

    Notes
    -----
    Python lets signals be handled in the main thread alone: elsewhere nothing changes. A second Ctrl-C interrupts at
    once, as one before the first draw does when no draw follows.

    Examples
    --------
    >>> import pymc as pm
    >>> with between_draws() as callback, pm.Model():
    ...     x = pm.Normal("x")
    ...     idata = pm.sample(10, tune=10, chains=1, callback=callback, nuts_sampler="pymc", progressbar=False,
    ...                       quiet=True, compute_convergence_checks=False)
    """
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
