"""Exact uniform, gamma and beta variables whose binary digits are drawn when they are needed.

References
----------
D. Knuth, A. Yao, "The complexity of nonuniform random number generation", in Algorithms and Complexity (Academic
Press, 1976). D. Kundu, R. Gupta, "A convenient way of generating gamma random variables using generalized exponential
distribution", Computational Statistics and Data Analysis 51(6), 2007.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Integers, Reals
from ppdinf.noise.primitives.enclosures import decide_bernoulli
from ppdinf.noise.primitives.stream import BitStream, Words

EDGE = 2.0**-26  # words closer to 0 or 1 are left to ball arithmetic
DOUBT = 2.0**-34  # bound on the error of the acceptance probability
REJECTED, KEPT, OPEN = 0, 1, 2


class LazyReals:
    """A sequence of independent uniform real numbers from a stream."""

    def __init__(self, stream: BitStream) -> None:
        self._stream = stream
        self._taken: list[Words] = []
        self._starts: list[int] = []
        self._longer: dict[int, tuple[int, int]] = {}
        self.size = 0

    def take(self, n: int) -> Words:
        """Start n further numbers and return their first 64 digits."""
        words = self._stream(n)
        self._taken.append(words)
        self._starts.append(self.size)
        self.size += n
        return words

    def enclose(self, index: int) -> arb:
        """Enclose a number and its distance from 1 to Arb's working precision, in relative terms."""
        digits, bits = self._longer.get(index) or (self._first(index), 64)
        # number of digits after the leading zeros or ones
        while min(digits, 2**bits - 1 - digits).bit_length() < ctx.prec:
            digits, bits = digits << 64 | int(self._stream(1)[0]), bits + 64
        self._longer[index] = digits, bits
        # at the precision of the digits
        with ctx.workprec(bits + 64):
            unit = arb(2) ** -bits
            return (digits * unit).union((digits + 1) * unit)

    def _first(self, index: int) -> int:
        part = int(np.searchsorted(self._starts, index, side="right")) - 1
        return int(self._taken[part][index - self._starts[part]])


type Drawn = tuple[Reals, Integers]


def gammas(shape: Fraction, size: int, reals: LazyReals, stream: BitStream) -> Drawn:
    """Draw gamma variables of scale 1."""
    values, places, done = np.empty(size), np.empty(size, dtype=np.int64), 0

    def keep(t: arb) -> arb:
        return ((-(-t).expm1() / t).log() * ball(1 - shape)).exp()

    while done < size:
        start = reals.size
        words = reals.take(size - done + (size - done) // 32 + 4)
        digits = stream(-(-words.size // 4)).view(np.uint16)[: words.size]  # the first 16 bits decide most draws
        proposed = np.empty(words.size)
        verdicts = np.empty(words.size, dtype=np.int8)
        _gamma_each(words, digits, float(shape), proposed, verdicts)
        late = np.flatnonzero(verdicts == OPEN)
        bits = np.zeros(words.size, dtype=np.uint64)
        bits[late] = digits[late].astype(np.uint64) << np.uint64(48) | stream(late.size) >> np.uint64(16)
        _gamma_late(late, bits, float(shape), proposed, verdicts)
        for i in np.flatnonzero(verdicts == OPEN).tolist():
            number = partial(reals.enclose, start + i)
            verdicts[i], proposed[i] = _decided(bits[i], number, shape, keep, stream)
        kept = np.flatnonzero(verdicts == KEPT)[: size - done]
        values[done : done + kept.size], places[done : done + kept.size] = proposed[kept], start + kept
        done += kept.size
    return values, places


def betas(a: Reals, exact: list[Fraction], b: Fraction, reals: LazyReals, stream: BitStream) -> Drawn:
    """Draw a beta variable of shapes a and b for each a."""
    values, places = np.empty(a.size), np.empty(a.size, dtype=np.int64)
    waiting = np.arange(a.size)
    while waiting.size:
        start, mine = reals.size, waiting
        words = reals.take(mine.size)
        bits = stream(words.size)
        proposed = np.empty(words.size)
        verdicts = np.empty(words.size, dtype=np.int8)
        _beta_each(words, bits, a[mine], float(b), proposed, verdicts)
        for i in np.flatnonzero(verdicts == OPEN).tolist():
            number, keep = partial(reals.enclose, start + i), partial(_keep_beta, exact[mine[i]], b)
            verdicts[i], proposed[i] = _decided(bits[i], number, b, keep, stream)
        kept = verdicts == KEPT
        values[mine[kept]], places[mine[kept]] = proposed[kept], start + np.flatnonzero(kept)
        waiting = mine[~kept]
    return values, places


def enclose_gamma(shape: Fraction, y: arb) -> arb:
    """Enclose the gamma candidate for the uniform number y, or minus the logarithm, times a, of the beta candidate."""
    with ctx.workprec(ctx.prec + y.bits()):
        log_p = y.log() / ball(shape)
        return -(-log_p.exp()).log1p() if log_p < -1 else -(-log_p.expm1()).log()


def _keep_beta(a: Fraction, b: Fraction, x: arb) -> arb:
    ratio = (-x).expm1() / (ball(max(Fraction(1), a)) * (-x / ball(a)).expm1())
    return (ratio.log() * ball(1 - b)).exp()


def _decided(
    bits: np.uint64, number: Callable[[], arb], shape: Fraction, keep: Callable[[arb], arb], stream: BitStream
) -> tuple[int, float]:
    """Decide in ball arithmetic a draw that double precision leaves undecided; return the verdict and the variable."""

    def variable() -> arb:
        return enclose_gamma(shape, number())

    kept = decide_bernoulli(bits, lambda: keep(variable()), stream)
    with ctx.workprec(192):
        return KEPT if kept else REJECTED, float(variable())


@jit
def _generalised_exponential(word: np.uint64, shape: float) -> float:
    """Return -log(1 - y^(1/shape)); nan near the ends."""
    y = (float(word) + 0.5) * 2.0**-64
    x = (float(~word) + 0.5) * 2.0**-64
    if y < EDGE or x < EDGE:
        return math.nan
    if y < 0.5:
        return -math.log1p(-math.exp(math.log(y) / shape))
    return -math.log(-math.expm1(math.log1p(-x) / shape))


@jit
def _verdict(bit: np.uint64, p: float) -> int:
    u = float(bit) * 2.0**-64
    return KEPT if u < p - DOUBT else REJECTED if u > p + DOUBT else OPEN


@jit
def _gamma_each(
    words: Words, digits: NDArray[np.uint16], shape: float, values: Reals, verdicts: NDArray[np.int8]
) -> None:
    """Propose variables, and accept or reject those that the first 16 bits decide."""
    half = 0.5 * (1.0 - shape)
    for i in range(words.size):
        t = _generalised_exponential(words[i], shape)
        values[i] = t
        # ((1 - exp(-t)) / t)^rest >= exp(-rest t / 2) >= 1 - rest t / 2; false for nan
        verdicts[i] = KEPT if (digits[i] + 1.0) * 2.0**-16 < 1.0 - half * t - DOUBT else OPEN


@jit
def _gamma_late(late: Integers, bits: Words, shape: float, values: Reals, verdicts: NDArray[np.int8]) -> None:
    for i in late:
        t = values[i]
        if not math.isnan(t):
            verdicts[i] = _verdict(bits[i], math.exp((1.0 - shape) * math.log(-math.expm1(-t) / t)))


@jit
def _beta_each(words: Words, bits: Words, a: Reals, b: float, values: Reals, verdicts: NDArray[np.int8]) -> None:
    for i in range(words.size):
        x = _generalised_exponential(words[i], b)
        values[i] = x
        if math.isnan(x):
            verdicts[i] = OPEN
            continue
        ratio = math.expm1(-x) / (max(1.0, a[i]) * math.expm1(-x / a[i]))
        verdicts[i] = _verdict(bits[i], math.exp((1.0 - b) * math.log(ratio)))
