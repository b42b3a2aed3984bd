"""`denoise`: the posterior of a table given everything published about it."""

from __future__ import annotations

import math
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np
from numpy.random import Generator

from ppdinf._internal.progress import COMPILING, Advance, progress
from ppdinf._internal.values import Array, Integers
from ppdinf._internal.workers import Workers, run
from ppdinf.denoising.contradictory_numbers import require_possible_numbers
from ppdinf.denoising.count_windows import CountWindows, Ends, published_windows
from ppdinf.denoising.denoised import Denoised
from ppdinf.denoising.learned_prior import SWEEPS, FixedPrior, LearnedPrior, update_parameters
from ppdinf.denoising.table_gibbs import TableGibbs
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.errors import ModelError
from ppdinf.fiber.nested_sums.nested_sums import Evaluated, NestedSums, OutOfReachError
from ppdinf.measurements import Measurements
from ppdinf.releases import Release

type AnyPrior = LearnedPrior | FixedPrior
type Tables = TableForest | TableGibbs


class TableForest:
    """Sampler of tables whose sums are nested or disjoint."""

    plan = "drawn exactly given the prior: any two sums, noisy or exact, are nested or disjoint"

    def __init__(self, sums: NestedSums, windows: CountWindows) -> None:
        self.sums, self.counts, self.log_noise = sums, windows.counts, windows.log_noise
        self.largest = windows.largest
        likeliest = windows.log_noise.argmax(axis=1)
        self.start = windows.counts[np.arange(likeliest.size), likeliest]

    def chain(self, rng: Generator) -> Draws:
        """Start a chain of tables."""
        return Draws(self, rng)


LARGE = 200  # cells from which on tables are drawn in pairs: the second one takes a tenth of the time of the first
BATCH, ROOM = 16, 2**20  # tables drawn together under a fixed prior, and the largest number of their cells


class Draws:
    """Independent tables, each drawn given the current prior."""

    def __init__(self, forest: TableForest, rng: Generator) -> None:
        self._forest, self._rng, self.table = forest, rng, forest.start
        self._evaluated: Evaluated | None = None
        self._waiting: list[Integers] = []

    def advance(self, prior: AnyPrior, *, tune: bool) -> None:
        """Set the next table given its prior, then update a learned prior; steps adapt only while tuning."""
        cells = self.table.size
        if isinstance(prior, FixedPrior):
            self._next(prior, max(1, min(BATCH, ROOM // cells)))
            return
        pairs = cells >= LARGE
        for _ in range(1 if pairs else SWEEPS):
            self._next(prior, 2 if pairs else 1)
            if not self._waiting:  # no table given the old parameters is left
                for _ in range(2 * SWEEPS if pairs else 1):
                    update_parameters(prior.arrays, self.table, tune, self._rng)

    def _next(self, prior: AnyPrior, together: int) -> None:
        """Set the next of some tables that are drawn together."""
        if not self._waiting:
            if self._evaluated is None or isinstance(prior, LearnedPrior):
                log_h, slope = prior.log_weights()
                weights = (self._forest.log_noise + log_h[self._forest.counts]).ravel()
                self._evaluated = self._forest.sums.evaluate(weights, slope)
            self._waiting = list(self._evaluated.draw(together, self._rng))
        self.table = self._waiting.pop()


TABLE = "table"  # name of the table in a draw, alongside the parameters "level", "shape" and those of factors
SMALL = 2**30  # counts below it are stored as int32, in which the sum and the difference of any two of them fit

type Stored = dict[str, Array]
"""The table and the parameters of the prior by name, shape (chains, draws, ...)."""


def denoise(
    data: Measurements | Release | list[Release],
    draws: int = 1000,
    *,
    tune: int | None = None,
    chains: int = 2,
    prior: str = "learned",
    rng: int | np.random.Generator | None = None,
    progressbar: bool = True,
    workers: Workers = None,
) -> Denoised:
    """Draw the posterior of a table of counts given everything published about it.

    Every draw satisfies everything exact. Counts are non-negative. The default prior is negative binomial with a
    level, effects of the labels of dimensions and further coordinates, and a sparsity. Its parameters are learned from
    the published measurements.

    Parameters
    ----------
    data : Measurements, Release or list of Release
    draws : int, default 1000
        Stored draws of each chain.
    tune : int, optional
        Draws before the stored draws, which are discarded; by default half of `draws`.
    chains : int, default 2
        Chains run in threads of this process, unless `workers` is given.
    prior : {"learned", "flat"}
        "flat" gives all non-negative counts the same weight. It serves comparisons only: where most cells are 0, its
        intervals have far less than the nominal coverage.
    rng : int or numpy.random.Generator, optional
    progressbar : bool, default True
        Where the standard output is not a terminal, a line at most every 10 seconds instead of a bar.
    workers : int or distributed.Client, optional
        A number of processes, or a client of a Dask cluster: every chain is one task. The draws are the same. Use it
        for more chains than one machine has cores. Progress then counts finished chains.

    Returns
    -------
    Denoised
        ``draws``, ``summary(...)``, sums by label, and convergence diagnostics.

    Raises
    ------
    ModelError
        A count is unbounded by everything published (the message names the cell), or windows or draws exceed the
        memory.
    InvariantError
        No table satisfies everything public. A number that is impossible for every table, such as a published -2
        without noise, is named.

    See Also
    --------
    ppdinf.Denoised, ppdinf.denoise_parts, ppdinf.Measurements, ppdinf.PartiallyPrivate, ppdinf.identified_bounds

    Notes
    -----
    If any two noisy or exact sums are nested or disjoint, tables are drawn exactly given their prior (about 2 us per
    cell). Otherwise they are sampled by Markov chain (docs/speed.md). After Ctrl-C, the draws that all chains have are
    returned; with `workers`, the finished chains. Dimensions with many labels have no effects, and the plan of the
    result names them. The prior is stated in docs/denoising.md.

    Draws are stored as int32 if every possible count is below 2**30, otherwise as int64. The sum of two cells cannot
    overflow; sums by statement, or by xarray and NumPy, are int64.

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
    require_possible_numbers(data)
    tune = draws // 2 if tune is None else tune
    generators = np.random.default_rng(rng).spawn(chains)
    task = partial(_sample, data, draws, tune, prior, chains)
    results: list[tuple[Stored, str, Ends]] = []
    if workers is None:
        results.append(task(generators, progressbar))
    else:
        with progress("Denoising", chains, disable=not progressbar) as advance:
            try:
                for result in run(task, ([generator] for generator in generators), workers):
                    results.append(result)
                    advance(1)
            except KeyboardInterrupt:
                if not results:
                    raise
    shortest = min(stored[TABLE].shape[1] for stored, *_ in results)  # Ctrl-C reaches processes of this machine, too
    parts = {name: [stored[name][:, :shortest] for stored, *_ in results] for name in results[0][0]}
    values = {name: rows[0] if len(rows) == 1 else np.concatenate(rows) for name, rows in parts.items()}  # no copy
    return Denoised(data, values.pop(TABLE), values, *results[0][1:])


def _sample(
    data: Measurements, draws: int, tune: int, prior: str, collected: int, rngs: list[Generator], bar: bool = False
) -> tuple[Stored, str, Ends]:
    """Draw one chain per generator in threads; return the draws that all chains have, the plan, and ends of windows."""
    observed, chains = ObservedMeasurements(data), len(rngs)
    windows = published_windows(observed)
    sums = observed.in_forest(windows.lower, windows.counts.shape[1])
    tables: Tables = TableGibbs(observed, windows) if sums is None else TableForest(sums, windows)
    priors = [_prior(prior, data, tables) for _ in range(chains)]
    stored = _allocate(priors[0], data.frame.size, windows.largest, chains, draws, collected)
    stop = threading.Event()
    with (
        progress("Denoising", chains * (tune + draws), disable=not bar, before=COMPILING) as advance,
        ThreadPoolExecutor(min(chains, os.cpu_count() or 1)) as pool,
    ):
        futures: list[Future[int]] = []
        try:
            for k, (chain_prior, chain_rng) in enumerate(zip(priors, rngs, strict=True)):
                place = {name: values[k] for name, values in stored.items()}
                futures.append(pool.submit(_chain, tables, chain_prior, tune, place, stop, chain_rng, advance))
            lengths = [future.result() for future in futures]
        except OutOfReachError as error:
            raise observed.contradiction(error) from error
        except KeyboardInterrupt:
            stop.set()
            lengths = [future.result() for future in futures]
    shortest = min(lengths, default=0)
    if not shortest or len(lengths) < chains:
        raise KeyboardInterrupt
    plan = tables.plan
    if isinstance(priors[0], LearnedPrior) and (names := priors[0].left_out):
        plan = f"{plan.removesuffix('.')}. The prior has no effects of {', '.join(names)}: the labels are too many."
    return {name: values[:, :shortest] for name, values in stored.items()}, plan, windows.ends


def _prior(prior: str, data: Measurements, tables: Tables) -> AnyPrior:
    if prior == "learned":
        return LearnedPrior(data.frame, ~data.public.empty, tables.start, tables.largest)
    return FixedPrior(np.zeros(tables.largest + 1), np.zeros(data.frame.size))


def _allocate(prior: AnyPrior, cells: int, largest: int, chains: int, draws: int, collected: int) -> Stored:
    """Allocate the draws of some chains, or refuse if those of all chains exceed the memory of the machine."""
    counts = np.dtype(np.int32 if largest < SMALL else np.int64)
    kinds = {TABLE: ((cells,), counts)}
    kinds |= {name: (np.shape(value), np.dtype(np.float64)) for name, value in prior.parameters.items()}
    needed = collected * draws * sum(math.prod(shape) * kind.itemsize for shape, kind in kinds.values())
    if needed > (memory := _memory()):
        raise ModelError(
            f"{collected} x {draws:,} draws of {cells:,} cells and the prior take {needed / 1e9:,.1f} GB, but the "
            f"machine has {memory / 1e9:,.1f} GB: store fewer draws, or write them to files by ppdinf.denoise_parts"
        )
    return {name: np.empty((chains, draws, *shape), dtype=kind) for name, (shape, kind) in kinds.items()}


def _memory() -> float:
    """Return the bytes of memory of the machine; infinity if the system does not state them."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def _chain(
    tables: Tables, prior: AnyPrior, tune: int, stored: Stored, stop: threading.Event, rng: Generator, advance: Advance
) -> int:
    """Draw one chain of tables and parameters of their prior into `stored`; return the number of its draws."""
    draws, chain = len(stored[TABLE]), tables.chain(rng)
    for k in range(-tune, draws):
        if stop.is_set():
            return max(k, 0)
        chain.advance(prior, tune=k < 0)
        if k >= 0:
            for name, value in ({TABLE: chain.table} | prior.parameters).items():
                stored[name][k] = value
        advance(1)
    return draws
