r"""l1 noise on a lattice as a mixture of Gaussians over a scale for every cell: exact and independent draws.

On the integers exp(-eps |z|) is the integral over t > 0 of exp(-eps^2 t / 2) eps (2 pi t)^(-1/2) exp(-z^2 / 2t), so
scales t and noise z are drawn together, T = diag t:

1. scales from a product law, kept with a probability that makes them right up to Y(T) below,
2. only if wide cells, t >= tau, *back* the lattice: they hold short vectors enough, and more wide cells back no less,
3. noise by Klein's sampler on a basis of such vectors, kept with probability y / bound, where y is the ratio of the
   law's weight to the proposal's,
4. kept with probability c(0) / c(z), since step 2 dropped scales (`ppdinf.noise.exact.scale_mixture.spanning_tree`).

*The bound.* y is at most prod_i theta3(v_i), theta3(v) = sum_k exp(-2 pi^2 k^2 v), over the variances of the integers
drawn; v_i >= 1 / (1/t_i + rho), rho = path / tau, and theta3 falls, so with ``1 + kappa = theta3(1 / (1/end + rho))``
and ``1 + excess(t) = theta3(1 / (1/t + rho)) / (1 + kappa)`` below an end <= min(tau, 3), 1 beyond,
y <= (1 + kappa)^m prod_e (1 + excess(t_e)). The product over cells is part of the law of step 1.

Everything is decided in floating point with room to spare, or else in ball arithmetic on scales whose digits are
drawn as needed. `docs/crossing.md` has the derivation. What differs from system to system is a `System`: two-way
tables (`ppdinf.noise.exact.scale_mixture.two_way_laplace`), or any lattice
(`ppdinf.noise.exact.scale_mixture.lattice_laplace`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ppdinf._internal.rationals import ball
from ppdinf.errors import PrivacyError
from ppdinf.noise.exact.scale_mixture.excess import LOG_ERROR, Excess
from ppdinf.noise.exact.scale_mixture.klein_given_scales import SLACK, Drawn
from ppdinf.noise.exact.scale_mixture.spanning_tree import kept_for_backbone
from ppdinf.noise.primitives.bernoulli import draw_bernoulli
from ppdinf.noise.primitives.enclosed_comparison import precision
from ppdinf.noise.primitives.integers import positive
from ppdinf.noise.primitives.lazy_reals import LazyReals
from ppdinf.noise.primitives.stream import BitStream, seeded_stream

__all__ = ["ScaleLaw", "ScaleMixture", "Scales", "System"]

CELLS = 2**18  # cells that attempts made at a time begin with
WIDTHS = [Fraction(n, 20) for n in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20)]  # tau times epsilon^2
WIDEST = 2**34  # times epsilon: 64 times as wide is what Klein's sampler can hold
PILOT = 2**21  # cells of the pilot run that predicts the acceptance
MOST = 2**14  # attempts in it
PATTERNS = 64  # pilot patterns of wide cells
DRAWN = 32  # pilot draws of noise
COINS = 16  # tossed for each of them
LOOKED_AT = 256  # pilot attempts whose wide cells are looked at


class ScaleLaw(Protocol):
    """A product law of scales that dominates the law wanted."""

    @property
    def excess(self) -> Excess:
        """The excess of a cell."""

    @property
    def loss(self) -> float:
        """Log of the share of attempts, about, that excesses cost."""

    @property
    def first(self) -> int:
        """Cells whose scales an attempt begins with."""

    def draw(self, size: int, stream: BitStream) -> "Scales":
        """Draw so many sets of scales."""

    def kept(self, size: int, stream: BitStream) -> "Scales":
        """Draw so many sets of scales, and return those that are kept."""

    def log_keep(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log probability to keep each set of scales, to 2^-20."""

    def enclose_row(self, scales: "Scales", i: int, row: int) -> list[arb]:
        """Enclose a row of a set of scales."""

    def enclose_keep(self, t: list[list[arb]]) -> arb:
        """Enclose the probability to keep a set of scales."""


class System(Protocol):
    """A lattice, its cells laid out in rows, and how its noise is drawn given scales."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and cells a row."""

    @property
    def m(self) -> int:
        """Rank of the lattice."""

    @property
    def paths(self) -> Sequence[Fraction]:
        """Lengths at which wide cells may back the lattice."""

    def scales(self, epsilon: Fraction, width: Fraction, path: Fraction) -> ScaleLaw:
        """Return the law that scales are drawn from."""

    def backing(self, wide: NDArray[np.bool_], path: Fraction) -> Any:
        """Return what wide cells of shape `shape` offer to draw noise on; None if they do not back the lattice."""

    def noise(self, t: NDArray[np.float64], wide: NDArray[np.bool_], backing: Any, stream: BitStream) -> Drawn:
        """Draw noise given scales."""

    def enclose_log_determinant(self, t: list[list[arb]]) -> arb:
        """Enclose log det(B' T^-1 B) for a basis B of the lattice."""


@dataclass(frozen=True, eq=False)
class Scales:
    """Sets of scales in floating point, and the real numbers they stand for.

    Attributes
    ----------
    values : ndarray of float64, shape (size, rows, cells a row)
        To a relative error of `LOG_ERROR`.
    """

    law: ScaleLaw
    values: NDArray[np.float64]
    near: NDArray[np.bool_]  # drawn by their excess
    cells: NDArray[np.int64]  # place of each cell's number
    reals: LazyReals
    sums: NDArray[np.int64]  # place of each sum's number, where it has one

    def __getitem__(self, some: NDArray[np.bool_]) -> "Scales":
        """Return some of the sets."""
        values, near, cells = self.values[some], self.near[some], self.cells[some]
        return Scales(self.law, values, near, cells, self.reals, self.sums[some])

    def beside(self, others: "Scales") -> "Scales":
        """Add further rows, of the same real numbers."""
        pairs = ((getattr(self, name), getattr(others, name)) for name in ("values", "near", "cells", "sums"))
        values, near, cells, sums = (np.concatenate(pair, axis=1) for pair in pairs)
        return Scales(self.law, values, near, cells, self.reals, sums)

    def log_keep(self) -> NDArray[np.float64]:
        """Log probability to keep each set of scales, to 2^-20."""
        return self.law.log_keep(self.values)

    def enclose(self, i: int) -> list[list[arb]]:
        """Enclose a set of scales at Arb's working precision."""
        return [self.law.enclose_row(self, i, row) for row in range(self.values.shape[1])]

    def enclose_keep(self, i: int) -> arb:
        """Enclose the probability to keep one set of scales."""
        return self.law.enclose_keep(self.enclose(i))


class ScaleMixture:
    """The l1 Laplace law on a lattice.

    Parameters
    ----------
    system : System
    epsilon : Fraction or int
        Positive; the law is proportional to ``exp(-epsilon |z|_1)``.

    Attributes
    ----------
    acceptance : float
        Share of attempts, about, that are kept.
    checks : float
        Attempts, about, for a draw whose wide cells are looked at.

    Raises
    ------
    PrivacyError
        If epsilon is not a positive rational, or so small that noise leaves the integers that floating point knows.
    """

    def __init__(self, system: System, epsilon: Fraction) -> None:
        self.epsilon = positive("epsilon", epsilon)
        if self.epsilon * WIDEST < 1:
            raise PrivacyError("the noise would be wider than whole numbers are kept exactly: choose a larger epsilon")
        self.system = system
        self.acceptance, self.checks = 0.0, math.inf
        if (found := self._tuned()) is not None:
            self.width, self.path, self.scales = found
            self._predict()

    def draw(self, size: int, stream: BitStream) -> NDArray[np.int64]:
        """Return `size` independent draws, int64 of shape (size, cells), row by row."""
        r, c = self.system.shape
        noise = np.empty((size, r, c), dtype=np.int64)
        done = 0
        most = max(1, CELLS // self.scales.first)
        while done < size:
            wanted = (size - done) / max(self.acceptance, 1e-9)
            for z in self._attempts(min(most, math.ceil(1.1 * wanted) + 1), stream):
                noise[done] = z
                done += 1
                if done == size:
                    break
        return noise.reshape(size, r * c)

    def _attempts(self, number: int, stream: BitStream) -> Iterator[NDArray[np.int64]]:
        """Yield what so many attempts bring."""
        scales = self.scales.kept(number, stream)
        for i, (t, wide) in enumerate(zip(scales.values, self._wide(scales), strict=True)):
            backing = self.system.backing(wide, self.path)
            if backing is None:
                continue
            drawn = self.system.noise(t, wide, backing, stream)
            log_p = np.array([self.log_keep(drawn, t)])
            error = 2.0**-24 * (1.0 + drawn.square(t))
            assert log_p[0] <= error, "the ratio exceeds its bound"
            if not draw_bernoulli(log_p, error, partial(self._enclosed, drawn, scales, i), stream)[0]:
                continue
            if self._kept_for_backbone(drawn.z, stream):
                yield drawn.z

    def _kept_for_backbone(self, z: NDArray[np.int64], stream: BitStream) -> bool:
        def backed(wide: NDArray[np.bool_]) -> bool:
            return self.system.backing(wide, self.path) is not None

        return kept_for_backbone(z, self.epsilon, self.width, backed, stream)

    def log_keep(self, drawn: Drawn, t: NDArray[np.float64]) -> float:
        """Log probability to keep noise given its scales."""
        bound = self.system.m * (self.scales.excess.log_flat + SLACK) + float(self.scales.excess.log(t).sum())
        return float(drawn.log_ratio(t)) - 0.5 * self.system.m * math.log1p(-SLACK) - bound

    def _enclosed(self, drawn: Drawn, scales: Scales, i: int, _: int) -> arb:
        return self.enclose_keep(drawn, scales, i)

    def enclose_keep(self, drawn: Drawn, scales: Scales, i: int) -> arb:
        """Enclose the probability to keep noise given its scales."""
        t = scales.enclose(i)
        near = scales.values[i] < float(self.scales.excess.end) * (1 + 4 * LOG_ERROR)
        bound = self.system.m * (self.scales.excess.enclose_flat() + ball(Fraction(SLACK)))
        for row, below in zip(t, near.tolist(), strict=True):
            bound += sum((self.scales.excess.enclose_log(x) for x, n in zip(row, below, strict=True) if n), arb(0))
        return (drawn.enclose_ratio(t, self.system.enclose_log_determinant(t)) - bound).exp()

    def _wide(self, scales: Scales) -> NDArray[np.bool_]:
        """Tell which scales are at least the width."""
        t, width = scales.values, float(self.width)
        wide: NDArray[np.bool_] = t >= width
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

    def _tuned(self) -> tuple[Fraction, Fraction, ScaleLaw] | None:
        """Choose the width and the length of paths: wide cells bound y well, but back fewer tables."""
        r, c = self.system.shape
        rng, best, found = np.random.default_rng(0), -math.inf, None
        for width in (share / self.epsilon**2 for share in WIDTHS):
            narrow = math.erf(math.sqrt(float(self.epsilon**2 * width) / 2))
            patterns = rng.random((max(8, min(PATTERNS, CELLS // (r * c))), r, c)) >= narrow
            for path in self.system.paths:
                backed = np.mean([self.system.backing(wide, path) is not None for wide in patterns])
                if not backed:
                    continue
                scales = self.system.scales(self.epsilon, width, path)
                log_share = math.log(backed) - self.system.m * scales.excess.log_flat - scales.loss
                if log_share > best:
                    best, found = log_share, (width, path, scales)
        return found

    def _predict(self) -> None:
        """Predict the share of attempts that are kept, from seeded ones, weighted in place of tossed."""
        r, c = self.system.shape
        stream = seeded_stream(0)
        scales = self.scales.draw(min(max(16, PILOT // (r * c)), MOST), stream)
        weights = np.exp(scales.log_keep())
        rng = np.random.default_rng(0)
        chosen = rng.choice(weights.size, size=LOOKED_AT, p=weights / weights.sum())
        width = float(self.width)
        found = {i: self.system.backing(scales.values[i] >= width, self.path) for i in np.unique(chosen).tolist()}
        backed = [i for i in chosen.tolist() if found[i] is not None]
        if not backed:
            return
        kept = []
        for i in backed[:DRAWN]:
            t = scales.values[i]
            drawn = self.system.noise(t, t >= width, found[i], stream)
            for_backbone = [self._kept_for_backbone(drawn.z, stream) for _ in range(COINS)]
            kept.append(math.exp(self.log_keep(drawn, t)) * np.mean(for_backbone))
        share = len(backed) / chosen.size * np.mean(kept)
        self.acceptance = float(weights.mean() * share)
        self.checks = float(1 / max(share, 1e-300))
