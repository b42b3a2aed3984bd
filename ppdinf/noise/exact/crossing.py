r"""l1 noise on a two-way table whose row and column sums are public: exact and independent draws.

On the integers exp(-eps |z|) is the integral over t > 0 of exp(-eps^2 t / 2) eps (2 pi t)^(-1/2) exp(-z^2 / 2t), so
scales t and noise z are drawn together, T = diag t:

1. scales from a product law over rows, kept with a probability that makes them right up to Y(T) below
   (`ppdinf.noise.exact.crossing_scales`),
2. only if wide cells, t >= tau, back the table (`ppdinf.noise.exact.crossing_backbone`),
3. noise by Klein's sampler on a tree of wide cells (`ppdinf.noise.exact.crossing_klein`), kept with probability
   y / bound, where y is the ratio of the law's weight to the proposal's,
4. kept with probability c(0) / c(z), since step 2 dropped scales.

*The bound.* y is at most prod_i theta3(v_i), theta3(v) = sum_k exp(-2 pi^2 k^2 v), over the variances of the integers
drawn; v_i >= 1 / (1/t_i + rho), rho = path / tau, and theta3 falls, so with ``1 + kappa = theta3(1 / (1/end + rho))``
and ``1 + excess(t) = theta3(1 / (1/t + rho)) / (1 + kappa)`` below end = min(tau, 3), 1 beyond, y <= (1 + kappa)^m
prod_e (1 + excess(t_e)). The product over cells is part of the law of step 1.

Everything is decided in floating point with room to spare, or else in ball arithmetic on scales whose digits are
drawn as needed. `docs/crossing.md` has the derivation.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ppdinf.lattice.structure import Structure
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.noise.bits.coins import toss
from ppdinf.noise.bits.integers import positive
from ppdinf.noise.bits.inversion import _precision
from ppdinf.noise.bits.tape import Tape, seeded_tape
from ppdinf.noise.exact.crossing_backbone import PATHS, kept_for_backbone, root_of
from ppdinf.noise.exact.crossing_klein import SLACK, Drawn, draw_given_scales
from ppdinf.noise.exact.crossing_scales import LOG_ERROR, RowScales, Scales, enclose_column_determinant
from ppdinf.noise.offer import Answer, Declined, Offer, is_one_block
from ppdinf.rationals import ball

__all__ = ["Crossing", "offer"]

LONGEST = 20.0  # seconds of a draw
PER_CELL = 2e-7  # seconds of an attempt
CELLS = 2**18  # cells of the attempts made at a time
END = Fraction(3)  # beyond it theta3 is 1 to 25 digits
WIDTHS = [Fraction(n, 20) for n in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20)]  # tau times epsilon^2
PILOT = 2**21  # cells of the pilot run that predicts the acceptance
PATTERNS = 64  # pilot patterns of wide cells
DRAWN = 32  # pilot draws of noise
COINS = 16  # tossed for each of them


def offer(structure: Structure, law: Law, cells: NDArray[np.int64]) -> Answer:
    """Offer to draw a block that is a two-way table, one cell a position, under both margins."""
    if not isinstance(law, DoubleGeometric) or not is_one_block(structure, cells):
        return None
    block = int(structure.blocks[cells[0]])
    found = [
        table
        for table in structure.tables
        if structure.blocks[structure.lattice.representatives[table.classes[0]]] == block
    ]
    if not found or len(found[0].shape) != 2 or found[0].cells != found[0].classes.size:
        return None
    table = found[0]
    mixture = _prepared(table.shape, law.epsilon)
    seconds = PER_CELL * cells.size / max(mixture.acceptance, 1e-300)
    if seconds > LONGEST:
        kept = f"a mixture over scales would keep about {mixture.acceptance:.0e} of its attempts"
        return Declined(lambda: kept, LONGEST / seconds)
    size = "a {} x {} table".format(*table.shape)
    return Offer(
        "scale mixture",
        structure.lattice.representatives[table.classes],
        lambda: mixture.draw,
        mixture.acceptance,
        f"of public sums that cross, {size} drawn in some {max(seconds, 1e-3):.1g} s",
    )


class Crossing:
    """The l1 Laplace law on r x c tables whose rows and columns sum to zero.

    Parameters
    ----------
    shape : tuple of int
        r and c, both at least 2; the longer side is drawn row by row.
    epsilon : Fraction or int
        Positive; the law is proportional to ``exp(-epsilon |z|_1)``.

    Raises
    ------
    PrivacyError
        If epsilon is not a positive rational.

    Examples
    --------
    >>> from ppdinf.noise.bits.tape import seeded_tape
    >>> Crossing((3, 4), Fraction(1, 4)).draw(2, seeded_tape(1)).reshape(2, 3, 4).sum(axis=1)
    array([[0, 0, 0, 0],
           [0, 0, 0, 0]])
    """

    def __init__(self, shape: tuple[int, int], epsilon: Fraction) -> None:
        self.epsilon = positive("epsilon", epsilon)
        self.shape = shape
        self.long = max(shape), min(shape)
        self.width, self.path, self.scales = self._tuned()
        self.m = (shape[0] - 1) * (shape[1] - 1)
        self.acceptance = self._predicted()

    def draw(self, size: int, tape: Tape) -> NDArray[np.int64]:
        """Return `size` independent draws, int64 of shape (size, r * c), in C order."""
        r, c = self.long
        noise = np.empty((size, r, c), dtype=np.int64)
        done = 0
        most = max(1, CELLS // (r * c))
        while done < size:
            wanted = (size - done) / max(self.acceptance, 1e-9)
            for z in self._attempts(min(most, math.ceil(1.1 * wanted) + 1), tape):
                noise[done] = z
                done += 1
                if done == size:
                    break
        if self.shape != self.long:
            noise = noise.transpose(0, 2, 1)
        return noise.reshape(size, r * c)

    def _attempts(self, number: int, tape: Tape) -> Iterator[NDArray[np.int64]]:
        """Yield what so many attempts bring."""
        scales = self.scales.draw(number, tape)
        kept = toss(scales.log_keep(), 2.0**-20, scales.enclose_keep, tape)
        for i in np.flatnonzero(kept).tolist():
            t = scales.values[i]
            wide = self._wide(scales, i)
            root = root_of(wide, self.path)
            if root is None:
                continue
            drawn = draw_given_scales(t, wide, root, tape)
            log_p = np.array([self.log_keep(drawn, t)])
            error = 2.0**-24 * (1.0 + float((drawn.z**2 / t).sum()))
            assert log_p[0] <= error, "the ratio exceeds its bound"
            if not toss(log_p, error, partial(self._enclosed, drawn, scales, i), tape)[0]:
                continue
            if kept_for_backbone(drawn.z, self.epsilon, self.width, self.path, tape):
                yield drawn.z

    def log_keep(self, drawn: Drawn, t: NDArray[np.float64]) -> float:
        """Log probability to keep noise given its scales."""
        bound = self.m * (self.scales.log_flat + SLACK) + float(self.scales.log_excess(t).sum())
        return float(drawn.log_ratio(t)) - 0.5 * self.m * math.log1p(-SLACK) - bound

    def _enclosed(self, drawn: Drawn, scales: Scales, i: int, _: int) -> arb:
        return self.enclose_keep(drawn, scales, i)

    def enclose_keep(self, drawn: Drawn, scales: Scales, i: int) -> arb:
        """Enclose the probability to keep noise given its scales."""
        t = scales.enclose(i)
        near = scales.values[i] < float(self.scales.end) * (1 + 4 * LOG_ERROR)
        sums = sum((sum(row, start=arb(0)).log() for row in t), start=arb(0))
        log_normaliser = sums + enclose_column_determinant(t).log()
        bound = self.m * (self.scales.enclose_log_flat() + ball(Fraction(SLACK)))
        for row, below in zip(t, near.tolist(), strict=True):
            log_normaliser -= sum((x.log() for x in row), start=arb(0))
            bound += sum((self.scales.enclose_log_excess(x) for x, n in zip(row, below, strict=True) if n), arb(0))
        return (drawn.enclose_ratio(t, log_normaliser) - bound).exp()

    def _wide(self, scales: Scales, i: int) -> NDArray[np.bool_]:
        """Tell which scales are at least the width."""
        t, width = scales.values[i], float(self.width)
        wide = t >= width
        for row, column in np.argwhere(np.abs(t - width) <= 2 * LOG_ERROR * width).tolist():
            bits = 64
            while True:
                with _precision(bits):
                    exact = scales.law.enclose_row(scales, i, row)[column]
                    if exact > ball(self.width) or exact < ball(self.width):
                        wide[row, column] = bool(exact > ball(self.width))
                        break
                bits *= 2
        return wide

    def _tuned(self) -> tuple[Fraction, int, RowScales]:
        """Choose the width and the length of paths: wide cells bound y well, but back fewer tables."""
        r, c = self.long
        rng, best, found = np.random.default_rng(0), -math.inf, []
        for width in (share / self.epsilon**2 for share in WIDTHS):
            narrow = math.erf(math.sqrt(float(self.epsilon**2 * width) / 2))
            patterns = rng.random((max(8, min(PATTERNS, CELLS // (r * c))), r, c)) >= narrow
            for path in PATHS:
                backed = np.mean([root_of(wide, path) is not None for wide in patterns])
                if not backed:
                    continue
                scales = RowScales(self.long, self.epsilon, min(width, END), path / width)
                log_share = math.log(backed) - (r - 1) * (c - 1) * scales.log_flat - r * c * scales.loss
                if log_share > best:
                    best, found = log_share, [(width, path, scales)]
        return found[0]

    def _predicted(self) -> float:
        """Predict the share of attempts that are kept, from seeded ones, weighted in place of tossed."""
        r, c = self.long
        tape = seeded_tape(0)
        scales = self.scales.draw(max(16, PILOT // (r * c)), tape)
        weights = np.exp(scales.log_keep())
        roots = [root_of(t >= float(self.width), self.path) for t in scales.values]
        weights *= np.array([root is not None for root in roots])
        if not weights.any():
            return 0.0
        chosen = np.random.default_rng(0).choice(weights.size, size=DRAWN, p=weights / weights.sum())
        kept = []
        for i in chosen.tolist():
            t, root = scales.values[i], roots[i]
            assert root is not None
            drawn = draw_given_scales(t, t >= float(self.width), root, tape)
            backed = [kept_for_backbone(drawn.z, self.epsilon, self.width, self.path, tape) for _ in range(COINS)]
            kept.append(math.exp(self.log_keep(drawn, t)) * np.mean(backed))
        return float(weights.mean() * np.mean(kept))


@lru_cache(maxsize=8)
def _prepared(shape: tuple[int, int], epsilon: Fraction) -> Crossing:
    return Crossing(shape, epsilon)
