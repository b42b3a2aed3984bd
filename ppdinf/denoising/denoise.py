"""`denoise`: the posterior of a table given everything published about it, without writing a model."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

from ppdinf.denoising.count_windows import count_windows
from ppdinf.denoising.denoised import Denoised
from ppdinf.denoising.learned_prior import LearnedPrior
from ppdinf.denoising.table_forest import TableForest
from ppdinf.denoising.table_walk import TableWalk
from ppdinf.distributions.observation.observed_measurements import ObservedMeasurements
from ppdinf.errors import ModelError
from ppdinf.fiber.nested_sums.nested_sums import OutOfReachError
from ppdinf.measurements import Measurements
from ppdinf.releases import Release

__all__ = ["denoise"]

TABLE = "table"  # its name among the parameters of a draw, which are "level", "shape" and those of factors
SWEEPS = 4  # of the table and its prior for each draw that is kept

type Reals = NDArray[np.float64]
type Draw = dict[str, NDArray[np.int64] | float | Reals]


class Tables(Protocol):
    """Tables given their prior, and chains of them."""

    start: NDArray[np.int64]
    plan: str

    def chain(self, rng: np.random.Generator) -> TableChain:
        """Start a chain of tables."""


class TableChain(Protocol):
    """A table that moves given log weights ``log_h[x] + slope[i] x`` of the prior."""

    table: NDArray[np.int64]

    def sweep(self, log_h: Reals, slope: Reals) -> None:
        """Move."""

    def move_with(self, prior: LearnedPrior | None, log_h: Reals, slope: Reals, *, tune: bool) -> None:
        """Move the table and the prior together; lengths of steps change while tuning alone."""


def denoise(
    data: Measurements | Release | list[Release],
    draws: int = 1000,
    *,
    tune: int | None = None,
    chains: int = 2,
    prior: str = "learned",
    rng: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> Denoised:
    """Draw the posterior of a table of counts given everything published about it.

    Every draw agrees with everything exact. No model has to be written: counts are 0 or more, and by default their
    prior is negative binomial, with a level, effects of the labels of each dimension and further coordinate, and a
    sparsity that it learns from what was published.

    Parameters
    ----------
    data : Measurements, Release or list of Release
    draws : int, default 1000
        Kept from each chain.
    tune : int, optional
        Draws before that are not kept; by default half as many as are.
    chains : int, default 2
        In threads.
    prior : {"learned", "flat"}
        "flat" gives all counts from 0 on the same weight. It is there to compare with: where most cells are 0 it
        covers far less than it says.
    rng : int or numpy.random.Generator, optional
    progressbar : bool, default True

    Returns
    -------
    Denoised
        ``draws``, ``summary(...)``, sums by label, and whether the chains agree.

    Raises
    ------
    ModelError
        Naming a cell whose count nothing published bounds; windows of counts that do not fit into memory.
    InvariantError
        No table agrees with everything public.

    Notes
    -----
    Where any two sums, noisy or exact, are nested or disjoint, tables are drawn exactly given their prior (some 2 us a
    cell); otherwise they walk: a county of 2,016 cells with eleven overlapping queries takes some 8 ms a sweep, of
    which a draw has four. Stopped by Ctrl-C, it keeps the draws that all chains have.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> inv = ppd.invariants
    >>> seen = ppd.Measurements(
    ...     {"county": ["A", "B", "C"]},
    ...     ppd.measured(inv.margin("county"), [12, -1, 31], ppd.laws.DoubleGeometric("1/4")),
    ...     public={inv.total(): 40},
    ... )
    >>> posterior = ppd.denoise(seen, draws=500, rng=1, progressbar=False)
    >>> set(posterior.sums(inv.total()).values.ravel().tolist())
    {40}
    """
    if isinstance(data, Release | list | tuple):
        data = Measurements.of_releases([data] if isinstance(data, Release) else data)
    if not isinstance(data, Measurements):
        raise ModelError(f"denoise takes Measurements or releases, found {type(data).__name__}")
    if prior not in ("learned", "flat"):
        raise ModelError(f"prior must be 'learned' or 'flat', found {prior!r}")
    if min(draws, chains) < 1 or (tune is not None and tune < 0):
        raise ModelError(f"draws and chains must be at least 1, found {draws} and {chains}")
    observed = ObservedMeasurements(data)
    windows = count_windows(observed)
    sums = observed.in_forest(windows.lower, windows.counts.shape[1])
    tables: Tables = TableWalk(observed, windows) if sums is None else TableForest(sums, windows)
    tune = draws // 2 if tune is None else tune
    stop = threading.Event()
    generators = np.random.default_rng(rng).spawn(chains)
    with Progress(disable=not progressbar) as progress:
        tasks = [progress.add_task(f"chain {k}", total=tune + draws) for k in range(chains)]
        with ThreadPoolExecutor(min(chains, os.cpu_count() or 1)) as pool:
            run = partial(_chain, data, tables, windows.most, draws, tune, prior, stop)
            futures: list[Future[list[Draw]]] = []
            try:
                for own, task in zip(generators, tasks, strict=True):
                    futures.append(pool.submit(run, own, partial(progress.advance, task)))
                found = [future.result() for future in futures]
            except OutOfReachError as error:
                raise observed.contradiction(error) from error
            except KeyboardInterrupt:
                stop.set()
                found = [future.result() for future in futures]
    shortest = min(map(len, found), default=0)
    if not shortest or len(found) < chains:
        raise KeyboardInterrupt
    whole = {name: np.array([[draw[name] for draw in own[:shortest]] for own in found]) for name in found[0][0]}
    return Denoised(data, whole.pop(TABLE), whole, tables.plan)


def _chain(
    data: Measurements,
    tables: Tables,
    most: int,
    draws: int,
    tune: int,
    prior: str,
    stop: threading.Event,
    rng: np.random.Generator,
    advance: Callable[[int], None],
) -> list[Draw]:
    """Draw one chain: tables, and parameters of their prior."""
    flat = np.zeros(most + 1), np.zeros(data.frame.size)
    kept: list[Draw] = []
    learned = LearnedPrior(data.frame, ~data.public.empty, tables.start) if prior == "learned" else None
    chain = tables.chain(rng)
    for k in range(tune + draws):
        if stop.is_set():
            break
        for _ in range(SWEEPS):
            chain.sweep(*(flat if learned is None else learned.log_weights(most)))
            if learned is not None:
                learned.update(chain.table, rng, tune=k < tune)
            chain.move_with(learned, *(flat if learned is None else learned.log_weights(most)), tune=k < tune)
        if k >= tune:
            kept.append({TABLE: chain.table} | ({} if learned is None else learned.parameters))
        advance(1)
    return kept
