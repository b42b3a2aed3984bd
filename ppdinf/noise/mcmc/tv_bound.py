"""Chains in parallel threads, and total variation bounds from the meeting times of coupled chains.

Two chains, the first L steps ahead, meet at step tau. Then TV(q_t, q) <= E max(0, ceil((tau - L - t) / L)).

References
----------
N. Biswas, P. E. Jacob, P. Vanetti, "Estimating convergence of Markov chains with L-lag couplings", NeurIPS 2019,
Theorem 2.5. C. J. Clopper, E. S. Pearson, "The use of confidence or fiducial limits", Biometrika 26(4), 1934.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy import stats

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Integers, Reals
from ppdinf.errors import PrivacyError

ENOUGH = 30
"""Number of pairs from which a normal approximation is used."""


type Meeting = Callable[[int, int, Generator], int]
"""``meeting(lag, limit, rng)`` returns the meeting time, at most `limit`, or -1 if the chains have not met."""


def in_threads[Result](
    work: Callable[[Generator], Result], size: int, *, rng: int | Generator, threads: int | None = None
) -> list[Result]:
    """Call ``work(generator)`` `size` times, each with a separate generator spawned from `rng` (SPEC 7)."""
    generators = np.random.default_rng(rng).spawn(size)
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        return list(pool.map(work, generators))


def chains_in_threads(
    run: Callable[[Generator], tuple[Integers, float]], chains: int, *, rng: int | Generator, threads: int | None = None
) -> tuple[Integers, Reals]:
    """Run chains that return states, shape (draws, d), and the fraction of accepted proposals."""
    states, accepted = zip(*in_threads(run, chains, rng=rng, threads=threads), strict=True)
    return np.stack(states), np.array(accepted)


class NoiseChain(ABC):
    """A Markov chain of noise, with a coupling of two of its chains."""

    def draw(
        self,
        draws: int,
        *,
        thin: int = 1,
        burn: int = 0,
        chains: int = 1,
        rng: int | np.random.Generator,
        threads: int | None = None,
    ) -> tuple[Integers, Reals]:
        """Run independent chains; these draws are for research and are never a release.

        Returns
        -------
        noise : ndarray of int64, shape (chains, draws, d)
            States after `burn` steps, one of every `thin`.
        accepted : ndarray of float64, shape (chains,)
            Share of accepted proposals.

        Raises
        ------
        PrivacyError
            `draws`, `thin` or `chains` is below 1, or `burn` is negative.
        """
        if min(draws, thin, chains) < 1 or burn < 0:
            numbers = f"{draws}, {thin}, {chains} and {burn}"
            raise PrivacyError(f"draws, thin and chains must be at least 1 and burn at least 0, found {numbers}")
        return chains_in_threads(lambda g: self._run(draws, thin, burn, g), chains, rng=rng, threads=threads)

    @abstractmethod
    def _run(self, draws: int, thin: int, burn: int, rng: Generator) -> tuple[Integers, float]: ...

    @abstractmethod
    def meeting(self, lag: int, limit: int, rng: Generator) -> int:
        """Return the step of the first of two coupled chains at which they meet, or -1 after `limit` steps.

        The first chain is `lag` steps ahead. Chains that have met stay together. Pass this method to
        `ppdinf.diagnostics.tv_bound`.
        """


@dataclass(frozen=True, eq=False)
class TVBound:
    """Meeting times of R pairs of chains, and the bounds that they give on the distance from the target.

    Attributes
    ----------
    lag : int
        Steps by which the first chain of a pair is ahead.
    meetings : ndarray of int64, shape (R,)
        Step of the first chain at which the pair met; -1 for pairs that had not met after `limit` steps.
    limit : int
        Number of steps after which a pair was stopped.
    confidence : float
        Level of the one-sided upper limits.

    See Also
    --------
    ppdinf.diagnostics.tv_bound

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.diagnostics import TVBound
    >>> print(TVBound(lag=1, meetings=np.array([4, 3, 5] * 100), limit=10))
    300 pairs of chains with lag 1 met, the last 4 steps after the lag: total variation at most 0.0099 by then
    (95% upper limit)
    """

    lag: int
    meetings: Integers
    limit: int
    confidence: float = 0.95

    @property
    def unmet(self) -> int:
        """Number of pairs that had not met; if it is positive, the bound is 1."""
        return int((self.meetings < 0).sum())

    def excess(self, steps: ArrayLike) -> Reals:
        """Return N_t of each pair (last axis) at each number of steps t; inf for pairs that have not met."""
        left = self.meetings - self.lag - np.asarray(steps)[..., None]
        counts = np.maximum(0.0, np.ceil(left / self.lag))
        return np.where(self.meetings < 0, np.inf, counts)

    def estimate(self, steps: ArrayLike) -> Reals:
        """Estimate the bound on TV(q_t, q) after each number of steps, at most 1."""
        return np.minimum(1.0, self.excess(steps).mean(axis=-1))

    def upper(self, steps: ArrayLike) -> Reals:
        """Upper confidence limit of the bound after each number of steps, at most 1."""
        if self.unmet:
            return np.ones(np.shape(steps))
        excess, R, z = self.excess(steps), self.meetings.size, stats.norm.ppf(self.confidence)
        mean = excess.mean(axis=-1) + z * excess.std(axis=-1) / math.sqrt(R)
        late = np.sort(self.meetings)[-min(ENOUGH, R)] - self.lag - 1  # a time at which ENOUGH pairs had not met
        last = self.excess(late)
        last = last[last > 0]
        length = last.mean() + z * last.std() / math.sqrt(last.size) if last.size else 1.0
        apart = (excess > 0).sum(axis=-1)
        tail_probability = stats.beta.ppf(self.confidence, apart + 1, np.maximum(R - apart, 1)) * length
        return np.minimum(1.0, np.where(apart >= min(ENOUGH, R), mean, tail_probability))

    def steps(self, tv: float) -> int | None:
        """Return the smallest number of steps whose upper limit is at most `tv`, or None.

        Examples
        --------
        >>> import numpy as np
        >>> from ppdinf.diagnostics import TVBound
        >>> TVBound(1, np.array([4, 3, 5] * 100), limit=10).steps(0.02)
        4
        >>> TVBound(1, np.array([4, 3, 5]), limit=10).steps(0.02) is None
        True
        """
        last = int(self.meetings.max(initial=0)) - self.lag
        if self.unmet or self.upper(last) > tv:
            return None
        return bisect_left(range(last), True, key=lambda t: bool(self.upper(t) <= tv))  # the limit decreases in t

    def delta(self, epsilon: Parameter, distance: int, steps: int) -> float:
        """Return delta', the privacy cost of t steps instead of the exact law, for tables at a given distance.

        Parameters
        ----------
        epsilon : int, float, str or Fraction
            Privacy loss per unit of distance.
        distance : int
            Distance ``|x - x'|`` of the two tables.
        steps : int

        Returns
        -------
        float
            ``1 + exp(epsilon |x - x'|)`` times the upper limit, at most 1.
        """
        return min(1.0, (1.0 + math.exp(float(as_fraction(epsilon, "epsilon")) * distance)) * float(self.upper(steps)))

    def __str__(self) -> str:
        R = self.meetings.size
        if self.unmet:
            return (
                f"{self.unmet:,} of {R:,} pairs of chains had not met after {self.limit:,} steps (lag {self.lag:,}): "
                "no bound on the distance from the target follows; raise `limit`"
            )
        last = int(self.meetings.max()) - self.lag
        return (
            f"{R:,} pairs of chains with lag {self.lag:,} met, the last {last:,} steps after the lag: "
            f"total variation at most {float(self.upper(last)):.2g} by then ({self.confidence:.0%} upper limit)"
        )


def tv_bound(
    meeting: Callable[[int, int, Generator], int],
    *,
    pairs: int = 200,
    lag: int | None = None,
    limit: int = 10**6,
    confidence: float = 0.95,
    rng: int | Generator,
    threads: int | None = None,
) -> TVBound:
    """Couple independent pairs of chains until they meet.

    Parameters
    ----------
    meeting : callable
        A function of lag, limit and generator that returns a meeting time, or -1, such as
        `ppdinf.noise.LatticeMetropolis.meeting`.
    pairs : int
        Number R of pairs.
    lag : int, optional
        The lag L. By default the 0.95 quantile of the meeting times of a pilot run of at most 64 pairs with lag 1. The
        bound at the start is then near 1, and a longer lag would not reduce it much.
    limit : int
        Number of steps after which a pair is stopped.
    confidence : float
        Level of the one-sided upper limits.
    rng : int or numpy.random.Generator
        Seed or generator; one generator is spawned per pair.
    threads : int, optional
        Number of threads; it does not affect the result.

    Raises
    ------
    PrivacyError
        `pairs` is below 1, `lag` is not in [1, limit), or `confidence` is not in (0, 1).

    See Also
    --------
    ppdinf.diagnostics.TVBound, ppdinf.noise.LatticeMetropolis, ppdinf.noise.IndependenceMetropolis

    Examples
    --------
    >>> import ppdinf as ppd
    >>> chain = ppd.noise.IndependenceMetropolis([[1, 1, 1]], ppd.laws.DoubleGeometric(1), rate=1)
    >>> bound = ppd.diagnostics.tv_bound(chain.meeting, pairs=500, rng=1)
    >>> bound.unmet, bound.steps(0.02) <= 20
    (0, True)
    """
    if pairs < 1 or not 0 < confidence < 1:
        raise PrivacyError(f"pairs must be at least 1 and confidence in (0, 1), found {pairs} and {confidence}")
    if lag is not None and not 1 <= lag < limit:
        raise PrivacyError(f"lag must be at least 1 and below limit = {limit}, found {lag}")
    pilot, main = np.random.default_rng(rng).spawn(2)
    if lag is None:
        times = in_threads(lambda g: meeting(1, limit, g), min(pairs, 64), rng=pilot, threads=threads)
        met = np.array([time for time in times if time > 0])
        lag = max(1, math.ceil(np.quantile(met - 1, 0.95))) if met.size else 1
    chosen = min(lag, limit - 1)
    meetings = in_threads(lambda g: meeting(chosen, limit, g), pairs, rng=main, threads=threads)
    return TVBound(chosen, np.array(meetings, dtype=np.int64), limit, confidence)
