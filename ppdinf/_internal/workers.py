"""Independent tasks in this process, in many processes, or on a Dask cluster, with the same results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING

import joblib
import numpy as np

from ppdinf._internal.progress import tracked
from ppdinf.errors import WorkersError

if TYPE_CHECKING:
    from distributed import Client

type Workers = int | Client | None
"""None: this process. A number of processes. A client of a Dask cluster."""


def run[Task, Result](
    function: Callable[[Task], Result], tasks: Iterable[Task], workers: Workers = None
) -> Iterator[Result]:
    """Return an iterator over ``function(task)`` in the order of the tasks."""
    if workers is None:
        return map(function, tasks)
    if isinstance(workers, int | np.integer) and not isinstance(workers, bool) and workers >= 1:
        jobs = (joblib.delayed(function)(task) for task in tasks)
        return joblib.Parallel(int(workers), backend="loky", return_as="generator")(jobs)
    return _on_cluster(function, tasks, _connected(workers))


def run_parts[Task, Result](
    description: str,
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    workers: Workers = None,
    *,
    progressbar: bool = True,
) -> list[Result]:
    """Run one pass over independent parts and show its progress; return the results in the order of the tasks."""
    every = list(tasks)
    return list(tracked(run(function, every, workers), description, len(every), disable=not progressbar))


def _connected(workers: object) -> Client:
    """Return a client that can run tasks."""
    distributed = sys.modules.get("distributed")  # imported by everyone who has a client
    if distributed is None or not isinstance(workers, distributed.Client):
        raise WorkersError(
            f"workers must be a number of processes >= 1, a distributed.Client, or None, found {workers!r:.60}"
        )
    if workers.asynchronous or workers.status != "running":
        raise WorkersError(f"workers must be a connected client without asynchronous=True, found {workers.status!r}")
    return workers


def _on_cluster[Task, Result](
    function: Callable[[Task], Result], tasks: Iterable[Task], client: Client
) -> Iterator[Result]:
    """Yield results of a cluster; results that were read, and all if the iterator is closed, are released there."""
    futures = client.map(function, list(tasks), pure=False)[::-1]
    while futures:
        try:
            result = futures.pop().result()
        except CancelledError as error:
            raise WorkersError(
                f"the cluster or its client was closed before {len(futures) + 1} tasks were done: connect a client and "
                "run again"
            ) from error
        yield result
