"""Progress of long computations: a bar on a terminal or in a notebook, otherwise a line at most every 10 seconds.

Both state the time left at the rate of the last minute, but not before 20 steps and 2 % of all steps are timed.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

COMPILING = "compiling, slower at the first run"
EVERY = 10.0  # seconds between two lines
SHOWN = 5.0  # seconds between two estimates at a bar
RECENT = 60.0  # seconds whose rate is extrapolated
MEASURED = 1.0  # seconds of timed steps before the first estimate
STEPS, SHARE = 20, 0.2  # timed steps before the first estimate, or this share of fewer than 100 steps
CHECKED = 1.0  # seconds between two checks during a long step
_SHOWN = threading.Lock()  # held while a progress is shown


type Advance = Callable[[int], None]
"""Report a number of completed steps."""


@contextmanager
def progress(description: str, total: int, *, disable: bool = False, before: str = "") -> Iterator[Advance]:
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
def _shown(description: str, total: int, before: str) -> Iterator[Advance]:
    pace, console = _Pace(total, before), Console()
    if console.is_terminal or console.is_jupyter:
        with Progress(TextColumn("{task.description}"), BarColumn(24), _Words(pace), transient=True) as bar:
            task = bar.add_task(description, total=total)

            def advance(n: int) -> None:
                pace.advance(n)
                bar.advance(task, n)

            yield advance
        return
    lines, ended = _Lines(description, pace), threading.Event()
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


class _Pace:
    """The share of steps done, and the time left at the rate of the last minute."""

    def __init__(self, total: int, before: str) -> None:
        self.total, self.before, self.done = total, before, 0
        self.begun = time.monotonic()
        self._first: int | None = None  # steps done at the first call of `advance`, up to which nothing is timed
        self._marks: deque[tuple[float, int]] = deque()  # times and steps done, about one a second
        self._lock = threading.Lock()  # several threads count steps

    def advance(self, n: int) -> None:
        """Count steps."""
        now = time.monotonic()
        with self._lock:
            self.done += n
            if not self._marks or now - self._marks[-1][0] >= MEASURED:
                self._marks.append((now, self.done))
            while len(self._marks) > 1 and now - self._marks[1][0] >= RECENT:
                self._marks.popleft()
            if self._first is None:
                self._first = self.done

    @property
    def left(self) -> float | None:
        """Seconds left, if enough steps are timed: early steps may be much slower than others."""
        if self._first is None:
            return None
        started, before = self._marks[0]
        timed = time.monotonic() - started
        steps = self.done - before
        enough = max(0.02 * self.total, min(STEPS, SHARE * self.total))
        if not steps or self.done - self._first < enough:
            return None
        return timed * (self.total - self.done) / steps

    def words(self) -> str:
        """Return the stage before the first step, or the share of steps done and the time left."""
        spent, left = _spoken(time.monotonic() - self.begun), self.left
        if self.before and self._first is None:
            return f"{self.before}, {spent}"
        share = f"{self.done / self.total:.0%}"
        return f"{share} after {spent}" if left is None else f"{share}, about {_spoken(left)} left"


class _Words(ProgressColumn):
    """The words of a pace at a bar, renewed every 5 seconds."""

    def __init__(self, pace: _Pace) -> None:
        super().__init__()
        self._pace, self._renewed, self._timed, self._text = pace, -SHOWN, False, Text()

    def render(self, task: Task) -> Text:
        """Return the words."""
        now, timed = time.monotonic(), self._pace.left is not None
        if now - self._renewed >= SHOWN or timed != self._timed:  # the first estimate is shown at once
            self._renewed, self._timed, self._text = now, timed, Text(self._pace.words())
        return self._text


class _Lines:
    """Lines with the words of a pace."""

    def __init__(self, description: str, pace: _Pace) -> None:
        self._description, self._pace = description, pace
        self._printed = pace.begun
        self._started: float | None = None  # time of the first call of `advance`
        self._estimated = False
        self._lock = threading.Lock()

    def advance(self, n: int) -> None:
        """Count steps, and print a line if one is due."""
        with self._lock:
            self._pace.advance(n)
            if self._started is None:
                self._started = self._printed = time.monotonic()
            else:
                self._print_if_due()

    def repeat(self, ended: threading.Event) -> None:
        """Print the lines that are due during long steps, until `ended` is set."""
        while not ended.wait(CHECKED):
            with self._lock:
                self._print_if_due()

    def _print_if_due(self) -> None:
        now, left = time.monotonic(), self._pace.left
        timed = now - (self._started or now)
        first_estimate = left is not None and left >= EVERY and timed >= MEASURED and not self._estimated
        if self._pace.done >= self._pace.total or (now - self._printed < EVERY and not first_estimate):
            return
        self._printed, self._estimated = now, left is not None
        print(f"{self._description}: {self._pace.words()}", flush=True)


def _spoken(seconds: float) -> str:
    """Format a duration with one unit."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
