"""The COVID study's releases and posteriors on a local Dask cluster: one worker, two, and two of which one is killed.

    uv run --extra dask python benchmarks/cluster.py [months]

Counts are real if `PPDINF_DATA` has them, otherwise simulated. Each month has forty releases at both epsilons and their
posteriors, as in the full study. The three runs must give the same bits as one process. Times include the imports of a
worker (about 5 s). On a machine with other work, compare CPU seconds of the busiest worker: the others wait for it.
Dask sets MALLOC_TRIM_THRESHOLD_ in its workers, which makes the allocator return each large array to the system and
take it again: 0.7 million page faults and 20 % more CPU time in a posterior. It is unset here before the cluster
starts.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from contextlib import nullcontext

import numpy as np

from case_studies._shared.study import Study
from case_studies.covid import run as covid

REPLICATES, DRAWS = 40, 400
TRIM = "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_"


def studied(folder, months, workers=None):
    """Return releases and posteriors of the given months, and the time in seconds."""
    table, source = covid.load(None)
    cases, deaths, persons = table.cases.values, table.deaths.values, table.population.values
    study = Study("Cluster", folder, about="", settings={"seed": 1, "data": source})
    jobs = [(epsilon, t) for epsilon in covid.EPSILONS for t in range(3, 3 + months)]  # the longest first

    def both(t):
        return np.stack([cases[:, t], deaths[:, t]], axis=1)

    def releases(rng, k):
        epsilon, t = jobs[k]
        return covid.release(both(t), cases[:, t - 1], epsilon, REPLICATES, rng)[0]

    start = time.perf_counter()
    drawn = study.replicates(releases, len(jobs), name="releases", workers=workers)
    noisy = [tuple(found[method, "l1"] for method in ("counting", "post-processed")) for found in drawn]

    def infer(rng, k):
        epsilon, t = jobs[k]
        history = cases, deaths, persons
        return covid.posteriors.posterior(*noisy[k], both(t), history, t, epsilon, DRAWS, rng)

    found = study.replicates(infer, len(jobs), name="posteriors", workers=workers)
    return (drawn, found), time.perf_counter() - start


def on_cluster(months, workers, kill_after=None):
    """Run the study on a cluster, one process of which is killed after `kill_after` seconds.

    Return its results, seconds, and the largest CPU seconds of a worker.
    """
    import dask
    import distributed

    dask.config.set({TRIM: None})
    cluster = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client, tempfile.TemporaryDirectory() as folder:
        victim = next(iter(cluster.workers.values())).pid
        killer = threading.Timer(kill_after, os.kill, (victim, signal.SIGKILL)) if kill_after else nullcontext()
        if kill_after:
            killer.start()
        found, seconds = studied(folder, months, client)
        if kill_after:
            assert not killer.is_alive(), "the study ended before a worker was killed"
        return found, seconds, max(client.run(time.process_time).values())


def equal(found, alone):
    """Return whether two results are bitwise equal."""
    if isinstance(found, dict):
        return found.keys() == alone.keys() and all(equal(found[key], alone[key]) for key in found)
    if isinstance(found, (list, tuple)):
        return len(found) == len(alone) and all(map(equal, found, alone))
    return np.array_equal(found, alone)


def main(months=2):
    """Print the seconds of each run, and whether its results equal those of one process."""
    with tempfile.TemporaryDirectory() as folder:
        alone, seconds = studied(folder, months)
    print(f"one process: {seconds:.1f} s", flush=True)
    one = None
    for name, workers, killed in (("one worker", 1, False), ("two workers", 2, False), ("two, one killed", 2, True)):
        found, seconds, busiest = on_cluster(months, workers, one / 4 if killed else None)
        one = one or seconds
        same, faster = equal(found, alone), one / seconds
        print(
            f"{name}: {seconds:.1f} s, {faster:.2f} times as fast as one worker; {busiest:.1f} CPU s of the busiest "
            f"worker; same results: {same}",
            flush=True,
        )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
