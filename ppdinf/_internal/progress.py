"""Progress of long computations: a bar on a terminal or in a notebook, otherwise a line at most every 10 seconds."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import Progress

EVERY = 10.0  # seconds between two lines
MEASURED = 1.0  # seconds of timed steps before the first estimate
STEPS, SHARE = 20, 0.2  # timed steps before the first estimate, or this share of fewer than 100 steps
CHECKED = 1.0  # seconds between two checks during a long step
_SHOWN = threading.Lock()  # held while a progress is shown


def shows_bars() -> bool:
    """Return whether the standard output can show a progress bar."""
    console = Console()
    return console.is_terminal or console.is_jupyter


@contextmanager
def progress(
    description: str, total: int, *, disable: bool = False, before: str = ""
) -> Iterator[Callable[[int], None]]:
    """Show the progress of `total` steps, unless another progress is shown or the process is a worker."""
    if disable or multiprocessing.parent_process() is not None or not _SHOWN.acquire(blocking=False):
        yield lambda n: None
        return
    try:
        with _shown(description, total, before) as advance:
            yield advance
    finally:
        _SHOWN.release()


@contextmanager
def _shown(description: str, total: int, before: str) -> Iterator[Callable[[int], None]]:
    if shows_bars():
        with Progress(transient=True) as bar:
            yield partial(bar.advance, bar.add_task(description, total=total))
    else:
        lines, ended = _Lines(description, total, before), threading.Event()
        thread = threading.Thread(target=lines.repeat, args=(ended,), daemon=True)
        thread.start()
        try:
            yield lines.advance
        finally:
            ended.set()
            thread.join()


def tracked[Item](items: Iterator[Item], description: str, total: int, *, disable: bool = False) -> Iterator[Item]:
    """Iterate over `total` items and show the progress."""
    with progress(description, total, disable=disable) as advance:
        for item in items:
            yield item
            advance(1)


class _Lines:
    """Lines with the share of steps done and the time left, at the rate since the first call of `advance`."""

    def __init__(self, description: str, total: int, before: str = "") -> None:
        self._description, self._total, self._done, self._before = description, total, 0, before
        self._begun = self._printed = time.monotonic()
        self._first: tuple[float, int] | None = None  # time and number of steps done at the first call
        self._estimated = False
        self._lock = threading.Lock()

    def advance(self, n: int) -> None:
        """Count steps, and print a line if one is due."""
        with self._lock:
            self._done += n
            if self._first is None:
                self._printed = time.monotonic()
                self._first = self._printed, self._done
            else:
                self._print_if_due()

    def repeat(self, ended: threading.Event) -> None:
        """Print the lines that are due during long steps, until `ended` is set."""
        while not ended.wait(CHECKED):
            with self._lock:
                self._print_if_due()

    def _print_if_due(self) -> None:
        now = time.monotonic()
        started, before = self._first or (now, self._done)
        timed, steps = now - started, self._done - before
        enough = max(0.02 * self._total, min(STEPS, SHARE * self._total))  # early steps may be much slower than others
        left = timed * (self._total - self._done) / steps if steps >= enough else None
        first_estimate = left is not None and left >= EVERY and timed >= MEASURED and not self._estimated
        if self._done >= self._total or (now - self._printed < EVERY and not first_estimate):
            return
        self._printed, self._estimated = now, left is not None
        share = f"{self._done / self._total:.0%}"
        spent = _spoken(now - self._begun)
        if self._before and self._first is None:
            words = f"{self._before}, {spent}"
        else:
            words = f"{share} after {spent}" if left is None else f"{share}, about {_spoken(left)} left"
        print(f"{self._description}: {words}", flush=True)


def _spoken(seconds: float) -> str:
    """Format a duration with one unit."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
