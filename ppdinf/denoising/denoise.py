"""`denoise`: the posterior of a table given everything published about it, without a user-written model."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.progress import progress
from ppdinf.denoising.count_windows import published_windows
from ppdinf.denoising.denoised import Denoised
from ppdinf.denoising.learned_prior import FixedPrior, LearnedPrior
from ppdinf.denoising.table_forest import TableForest
from ppdinf.denoising.table_gibbs import TableGibbs
from ppdinf.distributions.observation.observed_measurements import ObservedMeasurements
from ppdinf.errors import ModelError
from ppdinf.fiber.nested_sums.nested_sums import OutOfReachError
from ppdinf.measurements import Measurements
from ppdinf.releases import Release

__all__ = ["denoise"]

TABLE = "table"  # name of the table in a draw, alongside the parameters "level", "shape" and those of factors

type Reals = NDArray[np.float64]
type Draw = dict[str, NDArray[np.int64] | float | Reals]


class Tables(Protocol):
    """Sampler of tables given their prior."""

    start: NDArray[np.int64]
    plan: str
    largest: int  # largest count with a listed log weight in the prior

    def chain(self, rng: np.random.Generator) -> TableChain:
        """Start a chain of tables."""


class TableChain(Protocol):
    """Chain of tables."""

    table: NDArray[np.int64]

    def advance(self, prior: LearnedPrior | FixedPrior, *, tune: bool) -> None:
        """Update the table and the prior until the next draw; step lengths adapt only while tuning."""


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

    Every draw satisfies everything exact. Counts are non-negative. The default prior is negative binomial with a
    level, effects of the labels of each dimension and further coordinate, and a sparsity. Its parameters are learned
    from the published measurements.

    Parameters
    ----------
    data : Measurements, Release or list of Release
    draws : int, default 1000
        Stored draws of each chain.
    tune : int, optional
        Draws before the stored draws, which are discarded; by default half of `draws`.
    chains : int, default 2
        Chains run in threads.
    prior : {"learned", "flat"}
        "flat" gives all non-negative counts the same weight. It serves comparisons only: where most cells are 0, its
        intervals have far less than the nominal coverage.
    rng : int or numpy.random.Generator, optional
    progressbar : bool, default True
        Where the standard output is not a terminal, a line at most every 10 seconds instead of a bar.

    Returns
    -------
    Denoised
        ``draws``, ``summary(...)``, sums by label, and convergence diagnostics.

    Raises
    ------
    ModelError
        A count is unbounded by everything published (the message names the cell), or windows exceed the memory.
    InvariantError
        No table satisfies everything public.

    See Also
    --------
    ppdinf.Denoised, ppdinf.denoise_parts, ppdinf.Measurements, ppdinf.PartiallyPrivate, ppdinf.identified_bounds

    Notes
    -----
    If any two noisy or exact sums are nested or disjoint, tables are drawn exactly given their prior (about 2 us per
    cell). Otherwise they are sampled by Markov chain: a sweep of a county of 2,016 cells with 11 overlapping queries
    takes about 8 ms, and a draw has four sweeps. After Ctrl-C, the draws that all chains have are returned.

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
    windows = published_windows(observed)
    sums = observed.in_forest(windows.lower, windows.counts.shape[1])
    tables: Tables = TableGibbs(observed, windows) if sums is None else TableForest(sums, windows)
    tune = draws // 2 if tune is None else tune
    stop = threading.Event()
    generators = np.random.default_rng(rng).spawn(chains)
    with (
        progress("Denoising", chains * (tune + draws), disable=not progressbar) as advance,
        ThreadPoolExecutor(min(chains, os.cpu_count() or 1)) as pool,
    ):
        futures: list[Future[list[Draw]]] = []
        try:
            for generator in generators:
                futures.append(pool.submit(_chain, data, tables, draws, tune, prior, stop, generator, advance))
            results = [future.result() for future in futures]
        except OutOfReachError as error:
            raise observed.contradiction(error) from error
        except KeyboardInterrupt:
            stop.set()
            results = [future.result() for future in futures]
    shortest = min(map(len, results), default=0)
    if not shortest or len(results) < chains:
        raise KeyboardInterrupt
    names = results[0][0]
    values = {name: np.array([[draw[name] for draw in chain[:shortest]] for chain in results]) for name in names}
    return Denoised(data, values.pop(TABLE), values, tables.plan)


def _chain(
    data: Measurements,
    tables: Tables,
    draws: int,
    tune: int,
    prior: str,
    stop: threading.Event,
    rng: np.random.Generator,
    advance: Callable[[int], None],
) -> list[Draw]:
    """Draw one chain of tables and parameters of their prior."""
    own: LearnedPrior | FixedPrior = FixedPrior(np.zeros(tables.largest + 1), np.zeros(data.frame.size))
    if prior == "learned":
        own = LearnedPrior(data.frame, ~data.public.empty, tables.start, tables.largest)
    drawn: list[Draw] = []
    chain = tables.chain(rng)
    for k in range(tune + draws):
        if stop.is_set():
            break
        chain.advance(own, tune=k < tune)
        if k >= tune:
            drawn.append({TABLE: chain.table} | own.parameters)
        advance(1)
    return drawn
