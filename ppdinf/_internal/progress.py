"""Progress of long computations: a bar on a terminal or in a notebook, otherwise a line at most every 10 seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import Progress

__all__ = ["progress", "shows_bars", "tracked"]

EVERY = 10.0  # seconds between two lines


def shows_bars() -> bool:
    """Return whether the standard output can show a progress bar."""
    console = Console()
    return console.is_terminal or console.is_jupyter


@contextmanager
def progress(description: str, total: int, *, disable: bool = False) -> Iterator[Callable[[int], None]]:
    """Show the progress of `total` steps.

    Parameters
    ----------
    description : str
        Without markup.
    total : int
    disable : bool
        Whether to show nothing.

    Yields
    ------
    callable
        ``advance(n)`` counts n more steps as done; it can be called from several threads. Off a terminal, it prints
        the share of steps done and the time left, 10 seconds after the first call at the earliest. The time before the
        first call, for example compilation, does not enter the estimate.

    Examples
    --------
    >>> with progress("Sampling", 100) as advance:
    ...     advance(100)
    """
    if disable:
        yield lambda n: None
    elif shows_bars():
        with Progress(transient=True) as bar:
            yield partial(bar.advance, bar.add_task(description, total=total))
    else:
        yield _Lines(description, total).advance


def tracked[Item](items: Iterator[Item], description: str, total: int, *, disable: bool = False) -> Iterator[Item]:
    """Iterate over `total` items and show the progress.

    Examples
    --------
    >>> list(tracked(iter("ab"), "Letters", 2))
    ['a', 'b']
    """
    with progress(description, total, disable=disable) as advance:
        for item in items:
            yield item
            advance(1)


class _Lines:
    """Lines with the share of steps done and the time left, at the rate since the first call of `advance`."""

    def __init__(self, description: str, total: int) -> None:
        self._description, self._total, self._done = description, total, 0
        self._first: tuple[float, int] | None = None  # time and number of steps done at the first call
        self._printed = 0.0
        self._lock = threading.Lock()

    def advance(self, n: int) -> None:
        """Count steps, and print a line if one is due."""
        with self._lock:
            self._done += n
            now = time.monotonic()
            if self._first is None:
                self._first, self._printed = (now, self._done), now
                return
            if now - self._printed < EVERY or self._done >= self._total:
                return
            self._printed = now
            started, before = self._first
            left = (now - started) * (self._total - self._done) / (self._done - before)
            print(f"{self._description}: {self._done / self._total:.0%}, about {_spoken(left)} left", flush=True)


def _spoken(seconds: float) -> str:
    """Format a duration with one unit.

    Examples
    --------
    >>> _spoken(41.7), _spoken(400), _spoken(9000)
    ('42 s', '7 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
