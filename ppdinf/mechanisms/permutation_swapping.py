r"""Data swapping that keeps margins: selected records of each stratum exchange their values of some variables.

In a stratum of b records, each record is selected with probability p, again if exactly one is selected. The swapped
values of the k selected records are permuted by a uniform derangement. A permutation that moves k records therefore has
the probability w(k) = p^k (1 - p)^(b - k) / (D_k Z), with D_k derangements and Z = 1 - b p (1 - p)^(b - 1).

Likelihood: w(k) = sum over sets A of fixed records of v(|A|), by binomial inversion. Summed over the permutations that
fix A, with g_ij records of cell ij in A, row sums r and column sums c of the stratum,

    P(y | x) = sum_g v(sum g) prod_ij C(x_ij, g_ij) / (y_ij - g_ij)! prod_i (r_i - g_i.)! prod_j (c_j - g_.j)!

References
----------
J. Bailie, R. Gong, X.-L. Meng, "A refreshment stirred, not shaken: invariant-preserving deployments of differential
privacy for the U.S. decennial census", Harvard Data Science Review, special issue 6, 2026 (the permutation swapping
algorithm and its loss).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise
from typing import ClassVar

import numpy as np
from scipy.signal import convolve
from scipy.special import comb, gammaln, logsumexp, perm

from ppdinf._internal.rationals import as_fraction, ball
from ppdinf._internal.values import Array, Flags, Integers, Reals, assign, logarithms
from ppdinf.errors import InvariantError, ModelError, PrivacyError
from ppdinf.invariants import Public, System, margin
from ppdinf.laws.likelihood import Likelihood
from ppdinf.laws.preimage import CensoredNoise
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.mechanisms.transition import NO_SUMS
from ppdinf.noise.primitives.integers import bernoulli
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.tables.frame import Frame

LARGEST = 150  # records of a stratum whose factorials are doubles
SUMS = 3000  # possible sums of the kept records of a stratum, over which a likelihood sums
CANCELLED = 1e-6  # share of a sum that remains after its terms cancel; smaller shares have fewer than nine digits

type Dims = tuple[str, ...]
type Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class PermutationSwapping(TableMechanism):
    """Data swapping within strata: selected records exchange their values, so that two margins stay exact.

    Exact are the margins of the strata with the swapped and with the held dimensions. Every record is selected with
    probability `rate`, and the swapped labels of the selected records of a stratum are permuted so that no record keeps
    its own (which can have the same label). A selection of a single record is drawn again.

    Parameters
    ----------
    swapped, held : str or sequence of str
        Dimensions that are exchanged between records, such as the area, and those that stay.
    rate : int, float, str or Fraction
        Probability of the selection of a record, 0 < rate < 1.
    strata : str or sequence of str, optional
        Dimensions within which records are swapped. Together, the three name all dimensions of the table.
    public : Public, optional
        Covariates and the protected unit. The margins are added.

    Raises
    ------
    PrivacyError
        The rate is not between 0 and 1, or the dimensions are not distinct names.
    InvariantError
        `public` states other sums or bounds, which swapping does not keep; or, for a given table, its dimensions are
        not those stated. No stratum has two records.

    See Also
    --------
    ppdinf.GeneralizedLaplace, ppdinf.PartiallyPrivate

    Notes
    -----
    With the odds o = rate / (1 - rate) and b records in the largest stratum, each record that differs (an l1 distance
    of 2) has the loss ``ln(b + 1) - ln o``, or ``ln o`` if that is larger. Tables with the same margins differ in two
    records or more. The likelihood is exact for strata of up to 150 records in few cells; others are refused.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> table = ppd.as_table([[3, 0, 2], [1, 4, 1]], dims=("size", "area"))
    >>> mechanism = ppd.mechanisms.PermutationSwapping("area", "size", rate="1/2")
    >>> released = mechanism.release(table).table
    >>> released.sum("area").values, released.sum("size").values
    (array([5, 6]), array([4, 4, 3]))
    """

    kind: ClassVar[str] = "permutation-swapping"
    title = "records swapped within strata"
    swapped: Dims
    held: Dims
    rate: Fraction
    strata: Dims = ()
    public: Public = NO_SUMS

    def __post_init__(self) -> None:
        stated = {name: getattr(self, name) for name in ("swapped", "held", "strata")}
        roles = {name: (dims,) if isinstance(dims, str) else tuple(dims) for name, dims in stated.items()}
        swapped, held, strata = roles.values()
        if len({*swapped, *held, *strata}) < len(swapped + held + strata) or not (swapped and held):
            raise PrivacyError(
                "swapped, held and strata must be distinct dimensions, at least one swapped and one held"
            )
        p = as_fraction(self.rate, "rate")
        if p >= 1:
            raise PrivacyError(f"rate must be a probability with 0 < rate < 1, found {self.rate}")
        public = margin(*strata, *swapped) & margin(*strata, *held) & self.public
        if others := [s for s in public.statements[2:] if s.kind not in ("covariates", "labels", "unit")]:
            raise InvariantError(f"swapping does not keep {others[0]}: leave it out of public")
        assign(self, **roles, rate=p, public=public)

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Return the plan of the permutations."""
        if self._sizes(system).max(initial=0) < 2:
            raise InvariantError("no stratum has two records, so that nothing can be swapped: combine strata")
        return Plan("swapping", True, f"records of {len(self._sizes(system))} strata are selected and permuted")

    def draw(self, system: System, cells: Integers, draws: int, stream: BitStream, plan: Plan | None = None) -> Array:
        """Draw swapped tables, shape (draws, d)."""
        strata = self._strata(system.frame)
        released = np.array(np.broadcast_to(cells, (draws, cells.shape[-1])))
        for table in released:
            for stratum in strata:
                self._swap(table, stratum, stream)
        return released

    def _swap(self, table: Integers, stratum: Integers, stream: BitStream) -> None:
        """Swap records of a stratum in place."""
        cells = stratum.ravel()
        labels = stratum.shape[1]
        records = np.repeat(np.arange(cells.size), table[cells])
        swapped = records % labels
        records -= swapped
        chosen = np.flatnonzero(self._selected(records.size, stream))
        order = _derangement(chosen.size, stream)
        swapped[chosen] = swapped[chosen[order]]
        records += swapped
        table[cells] = np.bincount(records, minlength=cells.size)

    def _selected(self, size: int, stream: BitStream) -> Flags:
        """Select records independently, again if exactly one is selected."""
        while True:
            selected = bernoulli(lambda: ball(self.rate), size, stream)
            if selected.sum() != 1:
                return selected

    def likelihood_given(self, system: System, y: Array) -> Likelihood:
        """Return the probability of the swapped table y as a function of the complete table.

        Raises
        ------
        ModelError
            A stratum has too many records or cells.
        """
        strata = self._strata(system.frame)
        largest = int(self._sizes(system).max())
        sums = max(min(_number_of_sums(y[cells]), _number_of_sums(y[cells].T)) for cells in strata)
        if largest > LARGEST or sums > SUMS:
            raise ModelError(
                f"the likelihood of swapping has too many terms: {largest} records in a stratum (at most {LARGEST}), "
                f"{sums:,} sums of kept records (at most {SUMS:,}); use smaller strata"
            )
        none = np.zeros(y.size, dtype=bool)
        form = CensoredNoise(1.0, none, none)
        of_table = partial(self._log_probability, strata, y)
        return Likelihood(form, largest, of_table=of_table, is_of_release=True)

    def _log_probability(self, strata: Integers, y: Integers, x: Integers) -> float:
        return sum(log_probability(_rows(y[cells]), _rows(x[cells]), self.rate) for cells in strata)

    @property
    def guarantee(self) -> Guarantee:
        """Unknown without the largest stratum."""
        raise PrivacyError("the loss depends on the largest stratum, which is public: see release.guarantee")

    def _guarantee_on(self, system: System, public: System, plan: Plan | None) -> Guarantee:
        log_odds = math.log(self.rate / (1 - self.rate))
        loss = max(math.log(self._sizes(system).max() + 1) - log_odds, log_odds)
        epsilon = Fraction(math.ceil(loss / 2 * 10**9) + 1, 10**9)  # a record is an l1 distance of 2
        return Guarantee("integer-subspace", epsilon, metric="l1", **self.public.open)

    def _strata(self, frame: Frame) -> Integers:
        """Return the cells of each stratum, shape (strata, held, swapped)."""
        stated = (*self.strata, *self.held, *self.swapped)
        if set(stated) != set(frame.dims):
            raise InvariantError(f"swapped, held and strata must be all dimensions of the table, {frame.dims}")
        cells = np.arange(frame.size).reshape(frame.shape)
        cells = cells.transpose([frame.dims.index(dim) for dim in stated])
        swapped = math.prod(cells.shape[len(stated) - len(self.swapped) :])
        return cells.reshape(math.prod(cells.shape[: len(self.strata)]), -1, swapped)

    def _sizes(self, system: System) -> Integers:
        """Return the number of records of each stratum, which the margins determine."""
        strata, _, swapped = self._strata(system.frame).shape
        return np.sum(system.values[: strata * swapped].reshape(strata, swapped), axis=1)


def _derangement(size: int, stream: BitStream) -> Integers:
    """Draw a uniform permutation without fixed points, by rejection: about one in e is accepted."""
    while True:
        words = stream(size)
        order = np.argsort(words)
        if not (order == np.arange(size)).any() and np.unique(words).size == size:
            return order


def _rows(table: Integers) -> Rows:
    return tuple(map(tuple, table.tolist()))


def _number_of_sums(table: Integers) -> int:
    return math.prod((table.sum(axis=0) + 1).tolist())


@lru_cache(maxsize=1024)
def _inverted(size: int, rate: Fraction) -> tuple[Reals, Reals]:
    """Return log absolute values and signs of v(0), ..., v(size)."""
    deranged = [1, 0]
    for k in range(2, size + 1):
        deranged.append((k - 1) * sum(deranged[-2:]))
    q = 1 - rate
    kept = 1 - size * rate * q ** (size - 1)
    # no permutation moves one record: its weight w(1) is arbitrary
    w = [rate**k * q ** (size - k) / max(deranged[k], 1) for k in range(size + 1)]
    # v(g) is the g-th difference of the weights of permutations with 0, 1, ... fixed records
    v, differences = [], w[::-1]
    while differences:
        v.append(differences[0] / kept)
        differences = [b - a for a, b in pairwise(differences)]
    logs = [math.log(abs(a.numerator)) - math.log(a.denominator) if a else -math.inf for a in v]
    return np.array(logs), np.array([1.0 if a > 0 else -1.0 for a in v])


@lru_cache(maxsize=2**16)
def log_probability(released: Rows, confidential: Rows, rate: Fraction) -> float:
    """Return the log probability of the release of a stratum, given by its rows of cells, shape (held, swapped)."""
    x = np.array(confidential)
    y = np.array(released)
    if _number_of_sums(x) > _number_of_sums(x.T):
        x, y = x.T, y.T
    if x.sum() < 2:
        return 0.0 if (x == y).all() else -math.inf
    columns, rows = x.sum(axis=0), x.sum(axis=1)
    # sum over the kept records g, row by row, for all column sums of these records
    kept = np.ones([1] * columns.size)
    for i, total in enumerate(rows):
        counts = [np.arange(m + 1) for m in np.minimum(x[i], y[i])]
        ways = np.ones(())
        for n, m, g in zip(x[i], y[i], counts, strict=True):
            ways = np.multiply.outer(ways, comb(n, g) * perm(m, g))
        ways /= perm(total, sum(np.ix_(*counts)))
        kept = convolve(kept, ways, method="direct")
    counts = [np.arange(n) for n in kept.shape]
    sizes = sum(np.ix_(*counts))
    log_v, sign = _inverted(int(x.sum()), rate)
    rest = [np.log(perm(c, g)) for c, g in zip(columns, counts, strict=True)]
    terms = logarithms(kept) + log_v[sizes] - sum(np.ix_(*rest))
    log_sum, positive = logsumexp(terms, b=sign[sizes], return_sign=True)
    if positive <= 0 or log_sum < logsumexp(terms) + math.log(CANCELLED):
        raise ModelError("the terms of the likelihood of a swapped stratum cancel: use smaller strata")
    log_ways = gammaln(columns + 1).sum() + gammaln(rows + 1).sum()
    return float(log_sum + log_ways - gammaln(y + 1).sum())
