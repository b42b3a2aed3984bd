"""Independent random tasks in parallel threads, with results that do not depend on the number of threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray


def in_threads[Result](
    work: Callable[[np.random.Generator], Result],
    size: int,
    *,
    rng: int | np.random.Generator,
    threads: int | None = None,
) -> list[Result]:
    """Call ``work(generator)`` `size` times, each with a separate generator spawned from `rng` (SPEC 7)."""
    generators = np.random.default_rng(rng).spawn(size)
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        return list(pool.map(work, generators))


def chains_in_threads(
    run: Callable[[np.random.Generator], tuple[NDArray[np.int64], float]],
    chains: int,
    *,
    rng: int | np.random.Generator,
    threads: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Run chains that return states, shape (draws, d), and the fraction of accepted proposals."""
    states, accepted = zip(*in_threads(run, chains, rng=rng, threads=threads), strict=True)
    return np.stack(states), np.array(accepted)
