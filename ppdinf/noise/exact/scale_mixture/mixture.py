"""The algorithm: l1 noise as a mixture of Gaussians with a scale for every cell."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from flint import arb
from scipy.special import erfc, erfcx

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.errors import PrivacyError
from ppdinf.noise.exact.scale_mixture.klein_given_scales import SLACK, Drawn
from ppdinf.noise.exact.scale_mixture.scales import LOG_ERROR
from ppdinf.noise.primitives.enclosures import draw_bernoulli, precision
from ppdinf.noise.primitives.integers import positive_fraction
from ppdinf.noise.primitives.lazy_reals import LazyReals
from ppdinf.noise.primitives.stream import BitStream, seeded_stream

if TYPE_CHECKING:
    from ppdinf.noise.exact.scale_mixture.lattice_laplace import LatticeSystem
    from ppdinf.noise.exact.scale_mixture.lattice_scales import LeverageScales
    from ppdinf.noise.exact.scale_mixture.two_way_laplace import RowScales, TwoWayTable

PATHS = (*(1 + Fraction(2, s) for s in (8, 4, 3, 2)), Fraction(3), Fraction(5))
ERROR = 2.0**-30  # bound on the error of the log probabilities below, above FAINT
FAINT = 1e-12
CELLS = 2**18  # cells per batch of attempts
WIDTHS = [Fraction(n, 20) for n in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20)]  # candidates of tau times epsilon^2
WIDEST = 2**34  # limit of the scale 1 / epsilon: 1/64 of the limit of Klein's sampler
PILOT = 2**21  # cells of the pilot run that predicts the acceptance rate
MOST_ATTEMPTS = 2**14  # upper limit of attempts of the pilot run
PATTERNS = 64  # patterns of wide cells of the pilot run
DRAWN = 32  # draws of noise of the pilot run
REPEATS = 16  # Bernoulli draws for each draw of noise
CHECKED = 256  # attempts of the pilot run whose wide cells are checked
HOPELESS = 2.0**36  # no pilot run if an estimate of the cells per draw is larger: a draw would take hours


def root_of(wide: Flags, path: Fraction | int) -> int | None:
    """Return the possible root with most wide cells; None if the table is not supported."""
    degrees = wide.sum(axis=1)
    if path <= 3:
        full = int((degrees == wide.shape[1]).sum())
        return int(np.argmax(degrees)) if full * (path - 1) >= 2 and degrees.all() else None
    if not wide.any(axis=0).all():
        return None
    found = _root(wide, np.argsort(degrees, kind="stable"))
    return None if found < 0 else found


def kept_for_spanning_tree(
    z: Integers, epsilon: Fraction, width: Fraction, supported: Callable[[Flags], bool], stream: BitStream
) -> bool:
    """Accept noise with probability c(0) / c(z); cells are wide from scale `width` on."""
    square = epsilon**2 * width / 2
    log_wide = np.full(z.size, math.log(math.erfc(math.sqrt(square))))
    while True:
        still = draw_bernoulli(log_wide, ERROR, lambda _: ball(square).sqrt().erfc(), stream).reshape(z.shape)
        if supported(still):
            return True
        narrow = ~still
        sizes = np.abs(z[narrow])
        narrow[narrow] = draw_bernoulli(
            *_log_stays_narrow(sizes, epsilon, width), partial(_stays_narrow, sizes, epsilon, width), stream
        )
        if supported(~narrow):
            return False


def _stays_narrow(sizes: Integers, epsilon: Fraction, width: Fraction, i: int) -> arb:
    """Enclose the probability that a cell is narrow for z, given that it is narrow for z = 0."""
    size = int(sizes[i])
    x = size / (2 * ball(width)).sqrt()
    y = (ball(epsilon**2 * width) / 2).sqrt()
    narrow = (x - y).erfc() - (2 * size * ball(epsilon)).exp() * (x + y).erfc()
    return narrow / (2 * y.erf())


def _log_stays_narrow(sizes: Integers, epsilon: Fraction, width: Fraction) -> tuple[Reals, Reals]:
    """Return the logs of the probabilities that `_stays_narrow` encloses, and bounds on their errors."""
    w, eps = float(width), float(epsilon)
    x, y = sizes / math.sqrt(2 * w), eps * math.sqrt(w / 2)
    # exp(2 eps size) = exp(4 x y); (x + y)^2 - 4 x y = (x - y)^2
    narrow = erfc(x - y) - np.exp(-((x - y) ** 2)) * erfcx(x + y)
    clear = narrow > FAINT
    logs = np.log(np.where(clear, narrow, FAINT)) - math.log(2 * math.erf(y))
    return logs, np.where(clear, 2.0**-50 / np.where(clear, narrow, 1.0) + ERROR, 0.5)


@jit
def _root(wide: Flags, order: Integers) -> int:
    """Return the first possible root by the number of wide cells, or -1; rows with fewest are checked first."""
    root: int
    for root in order[::-1]:
        tied = True
        for row in order:
            if not (wide[root] & wide[row]).any():
                tied = False
                break
        if tied:
            return root
    return -1


type ScaleLaw = "LeverageScales | RowScales"
"""A product law of scales that dominates the target law; `kept` returns the accepted sets of scales."""


@dataclass(frozen=True, eq=False)
class MixtureScales:
    """Sets of scales in floating point, and the real numbers that they approximate."""

    law: ScaleLaw
    values: Reals
    near: Flags  # cells that are drawn from their excess
    cells: Integers  # index of each cell's real number
    reals: LazyReals
    sums: Integers  # index of each sum's real number, if any

    def __getitem__(self, subset: Flags) -> "MixtureScales":
        """Return a subset of the sets."""
        values, near, cells = self.values[subset], self.near[subset], self.cells[subset]
        return MixtureScales(self.law, values, near, cells, self.reals, self.sums[subset])

    def concatenate_rows(self, others: "MixtureScales") -> "MixtureScales":
        """Concatenate rows that use the same real numbers."""
        pairs = ((getattr(self, name), getattr(others, name)) for name in ("values", "near", "cells", "sums"))
        values, near, cells, sums = (np.concatenate(pair, axis=1) for pair in pairs)
        return MixtureScales(self.law, values, near, cells, self.reals, sums)

    def log_keep(self) -> Reals:
        """Return the log acceptance probability of each set of scales, with error at most 2^-20."""
        return self.law.log_keep(self.values)

    def enclose(self, i: int) -> list[list[arb]]:
        """Enclose a set of scales at Arb's working precision."""
        return [self.law.enclose_row(self, i, row) for row in range(self.values.shape[1])]

    def enclose_keep(self, i: int) -> arb:
        """Enclose the acceptance probability of one set of scales."""
        return self.law.enclose_keep(self.enclose(i))


class ScaleMixture:
    """Exact sampler of the l1 Laplace law on a lattice."""

    def __init__(self, system: "LatticeSystem | TwoWayTable", epsilon: Fraction) -> None:
        self.epsilon = positive_fraction("epsilon", epsilon)
        if self.epsilon * WIDEST < 1:
            raise PrivacyError("the noise may exceed the limit of exact integers: choose a larger epsilon")
        self.system = system
        self.acceptance, self.checks = 0.0, math.inf
        if (best := self._tuned()) is not None:
            log_acceptance, self.width, self.path, self.scales = best
            estimate = math.exp(log_acceptance)
            if self.scales.first > HOPELESS * estimate:
                self.acceptance = estimate
            else:
                self._predict()

    def draw(self, size: int, stream: BitStream) -> Integers:
        """Return `size` independent draws, int64 of shape (size, cells), row by row."""
        r, c = self.system.shape
        noise = np.empty((size, r, c), dtype=np.int64)
        done = 0
        batch = max(1, CELLS // self.scales.first)
        while done < size:
            wanted = (size - done) / max(self.acceptance, 1e-9)
            for z in self._attempts(min(batch, math.ceil(1.1 * wanted) + 1), stream):
                noise[done] = z
                done += 1
                if done == size:
                    break
        return noise.reshape(size, r * c)

    def _attempts(self, number: int, stream: BitStream) -> Iterator[Integers]:
        """Yield the accepted noise of `number` attempts."""
        scales = self.scales.kept(number, stream)
        for i, (t, wide) in enumerate(zip(scales.values, self._wide(scales), strict=True)):
            support = self.system.support(wide, self.path)
            if support is None:
                continue
            drawn = self.system.noise(t, wide, support, stream)
            log_p = np.array([self.log_keep(drawn, t)])
            error = 2.0**-24 * (1.0 + drawn.square(t))
            assert log_p[0] <= error, "the ratio exceeds its bound"
            if not draw_bernoulli(log_p, error, partial(self.enclose_keep, drawn, scales, i), stream)[0]:
                continue
            if self._kept_for_spanning_tree(drawn.z, stream):
                yield drawn.z

    def _kept_for_spanning_tree(self, z: Integers, stream: BitStream) -> bool:
        return kept_for_spanning_tree(
            z, self.epsilon, self.width, lambda wide: self.system.support(wide, self.path) is not None, stream
        )

    def log_keep(self, drawn: Drawn, t: Reals) -> float:
        """Return the log acceptance probability of noise given its scales."""
        bound = self.system.m * (self.scales.excess.log_flat + SLACK) + float(self.scales.excess.log(t).sum())
        return float(drawn.log_ratio(t)) - 0.5 * self.system.m * math.log1p(-SLACK) - bound

    def enclose_keep(self, drawn: Drawn, scales: MixtureScales, i: int, _: int = 0) -> arb:
        """Enclose the acceptance probability of noise given its scales."""
        t = scales.enclose(i)
        near = scales.values[i] < float(self.scales.excess.end) * (1 + 4 * LOG_ERROR)
        bound = self.system.m * (self.scales.excess.enclose_flat() + ball(Fraction(SLACK)))
        for row, below in zip(t, near.tolist(), strict=True):
            bound += sum((self.scales.excess.enclose_log(x) for x, n in zip(row, below, strict=True) if n), arb(0))
        return (drawn.enclose_ratio(t, self.system.enclose_log_determinant(t)) - bound).exp()

    def _wide(self, scales: MixtureScales) -> Flags:
        """Return which scales are at least the width."""
        t, width = scales.values, float(self.width)
        wide: Flags = t >= width
        for i, row, column in np.argwhere(np.abs(t - width) <= 2 * LOG_ERROR * width).tolist():
            bits = 64
            while True:
                with precision(bits):
                    exact = scales.law.enclose_row(scales, i, row)[column]
                    if exact > ball(self.width) or exact < ball(self.width):
                        wide[i, row, column] = bool(exact > ball(self.width))
                        break
                bits *= 2
        return wide

    def _tuned(self) -> tuple[float, Fraction, Fraction, ScaleLaw] | None:
        """Estimate the largest log acceptance rate, and return its width and path length."""
        r, c = self.system.shape
        rng, best = np.random.default_rng(0), None
        for width in (share / self.epsilon**2 for share in WIDTHS):
            narrow = math.erf(math.sqrt(float(self.epsilon**2 * width) / 2))
            patterns = rng.random((max(8, min(PATTERNS, CELLS // (r * c))), r, c)) >= narrow
            for path in self.system.paths:
                supported = np.mean([self.system.support(wide, path) is not None for wide in patterns])
                if not supported:
                    continue
                scales = self.system.scales(self.epsilon, width, path)
                log_share = math.log(supported) - self.system.m * scales.excess.log_flat - scales.loss
                if best is None or log_share > best[0]:
                    best = log_share, width, path, scales
        return best

    def _predict(self) -> None:
        """Predict the acceptance rate from seeded attempts, weighted by their acceptance probabilities."""
        r, c = self.system.shape
        stream = seeded_stream(0)
        scales = self.scales.draw(min(max(16, PILOT // (r * c)), MOST_ATTEMPTS), stream)
        weights = np.exp(scales.log_keep())
        rng = np.random.default_rng(0)
        chosen = rng.choice(weights.size, size=CHECKED, p=weights / weights.sum())
        width = float(self.width)
        each = {i: self.system.support(scales.values[i] >= width, self.path) for i in np.unique(chosen).tolist()}
        supports = {i: support for i, support in each.items() if support is not None}
        supported = [i for i in chosen.tolist() if i in supports]
        if not supported:
            return
        kept = []
        for i in supported[:DRAWN]:
            t = scales.values[i]
            drawn = self.system.noise(t, t >= width, supports[i], stream)
            for_spanning_tree = [self._kept_for_spanning_tree(drawn.z, stream) for _ in range(REPEATS)]
            kept.append(math.exp(self.log_keep(drawn, t)) * np.mean(for_spanning_tree))
        share = len(supported) / chosen.size * np.mean(kept)
        self.acceptance = float(weights.mean() * share)
        self.checks = float(1 / max(share, 1e-300))
