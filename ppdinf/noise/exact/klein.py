r"""Sequential proposals for Gaussian laws on a lattice, and their exact acceptance probability.

Write z = sum_i x_i b_i with Gram-Schmidt vectors of squared lengths g_i, so that |z|^2 = sum_i g_i (x_i + c_i)^2 with
c_i = sum_{j > i} mu_ij x_j, and v_i = v / g_i. Klein's sampler draws x_m, ..., x_1 in turn, x_i from the discrete
Gaussian of variance v_i around -c_i. A vector is accepted with probability

    exp(sum_i g_i (x_i + c_i)^2 / 2v - |z|^2 / 2v)  prod_i rho_{v_i}(Z + c_i) / rho_{v_i}(Z).

Rounded g, mu and c affect only the proposal, because g is shortened by a factor 1 - `slack` that exceeds all rounding
errors. Proofs and references: docs/mathematics/lattice_gaussian.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from scipy import sparse

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Integers, Reals
from ppdinf.errors import PrivacyError
from ppdinf.noise.exact.theta import enclose_mass, log_ratio
from ppdinf.noise.primitives.enclosures import decide_bernoulli
from ppdinf.noise.primitives.stream import ROW, BitStream, Words

UNIT = 2.0**-53
FAR = 2.0**51  # centers are exact: a number of this size minus its nearest integer is a double
WIDEST = 2.0**80  # largest variance of one coordinate: at least 20 bits of a word choose the block
ERROR = 2.0**-38  # bound on the relative error of a probability above 2^-60 in `_draw_coordinates`
KEPT, OPEN, WIDE = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Klein:
    """A basis with its orthogonal parts; the constructor is `ppdinf.noise.exact.gram_schmidt.klein`."""

    basis: sparse.csr_array
    squares: Reals
    starts: Integers
    columns: Integers
    factors: Reals
    slack: float

    def propose(self, variances: Sequence[Fraction], stream: BitStream) -> "Proposals":
        """Draw one vector for each variance v by Klein's sampler."""
        size, m = len(variances), self.squares.size
        rounded = np.array([float(v) for v in variances])
        x, centers = np.zeros((size, m), dtype=np.int64), np.zeros((size, m))
        state = (rounded, x, centers, self.squares, self.starts, self.columns, self.factors)
        position = 0
        while position < size * m:
            pairs = stream(2 * min(size * m - position, ROW)).reshape(-1, 2)
            used = 0
            while used < len(pairs):
                position, used, status = _draw_coordinates(pairs, used, position, *state)
                if status == WIDE:
                    raise PrivacyError("the noise is wider than 2^40; choose a larger epsilon or a smaller sigma")
                if status == OPEN:
                    draw, i = position // m, m - 1 - position % m
                    k = self._settled(pairs[used], variances[draw], rounded[draw], i, float(centers[draw, i]), stream)
                    used += 1
                    if k is not None:
                        x[draw, i] = k - round(float(np.rint(centers[draw, i])))
                        position += 1
        return Proposals(self, variances, rounded, x, centers, np.ascontiguousarray((self.basis @ x.T).T))

    def _settled(
        self, pair: Words, variance: Fraction, rounded: float, i: int, center: float, stream: BitStream
    ) -> int | None:
        """Decide one proposal in ball arithmetic: return k if it is accepted."""
        word = int(pair[0])
        exact = variance / Fraction(self.squares[i])
        j = int(_halvings(rounded / self.squares[i]))
        blocks, tail_bits = 0, word >> (1 + j)
        if tail_bits == 0:
            blocks = 63 - j
            while (tail_bits := int(stream(1)[0])) == 0:
                blocks += 64
        blocks += (tail_bits & -tail_bits).bit_length() - 1
        k = blocks << j | word >> 1 & (1 << j) - 1
        k = -1 - k if word & 1 else k
        y = k + Fraction(center) - Fraction(float(np.rint(center)))

        def keep() -> arb:
            turn, s, v = arb(2).log(), 1 << j, ball(exact)
            return (blocks * turn - ball(y**2) / (2 * v) - v * (turn / s) ** 2 / 2 - turn / (2 * s)).exp()

        return k if decide_bernoulli(pair[1], keep, stream) else None


@dataclass(frozen=True, eq=False)
class Proposals:
    """Vectors drawn by Klein's sampler, and their acceptance probabilities."""

    klein: Klein
    variances: Sequence[Fraction]
    rounded: Reals
    x: Integers
    centers: Reals
    z: Integers

    def log_keep(self) -> tuple[Reals, Reals]:
        """Return the log acceptance probability of each vector, and a bound on its rounding error."""
        return log_acceptance(self.x, self.centers, self.rounded, self.klein.squares, self.z)

    def enclose_keep(self, draw: int) -> arb:
        """Enclose the acceptance probability of one vector at Arb's working precision."""
        variance = self.variances[draw]
        exponent = Fraction(-sum(value * value for value in self.z[draw].tolist()))
        ratio = arb(1)
        coordinates = zip(self.x[draw].tolist(), self.centers[draw].tolist(), self.klein.squares.tolist(), strict=True)
        for x, center, square in coordinates:
            y, g = x + Fraction(center), Fraction(square)
            exponent += g * y * y
            v, f = ball(variance / g), ball(y - round(y))
            ratio *= enclose_mass(f, v) / enclose_mass(arb(0), v)
        return ball(exponent / (2 * variance)).exp() * ratio


@jit
def _halvings(variance: float) -> int:
    """Return the exponent j of the block length 2^j: sigma / 2^j is between 1.02 and 2.04, or j = 0."""
    return max(0, math.frexp(math.sqrt(variance) / 2.04)[1])


@jit
def _draw_coordinates(
    pairs: Words,
    used: int,
    position: int,
    variances: Reals,
    x: Integers,
    centers: Reals,
    squares: Reals,
    starts: Integers,
    columns: Integers,
    factors: Reals,
) -> tuple[int, int, int]:
    """Draw coordinates from `position` on, each by pairs of words; stop at an undecided pair."""
    m, turn = squares.size, math.log(2.0)
    while used < len(pairs):
        draw, i = position // m, m - 1 - position % m
        center = 0.0
        for entry in range(starts[i], starts[i + 1]):
            center += factors[entry] * x[draw, columns[entry]]
        v = variances[draw] / squares[i]
        if not (abs(center) < FAR and v < WIDEST):
            return position, used, WIDE
        centers[draw, i] = center
        # blocks of 2^j integers with geometric numbers dominate the Gaussian around -c_i
        nearest = np.rint(center)
        j = _halvings(v)
        block = float(1 << j)
        envelope = 0.5 * v * (turn / block) ** 2 + 0.5 * turn / block
        while used < len(pairs):
            word, coin = pairs[used, 0], pairs[used, 1]
            tail_bits = word >> np.uint64(1 + j)
            if tail_bits == 0:
                return position, used, OPEN
            # the proposal: trailing zeros of the word give the block, the low bits give sign and position
            blocks = 0
            while tail_bits & np.uint64(1) == 0:
                tail_bits >>= np.uint64(1)
                blocks += 1
            k = (blocks << j) | np.int64((word >> np.uint64(1)) & np.uint64((1 << j) - 1))
            k = -1 - k if word & np.uint64(1) else k
            # accept k with the ratio of the Gaussian to its envelope
            y = k + (center - nearest)
            p = math.exp(blocks * turn - 0.5 * y * y / v - envelope)
            u = coin * 2.0**-64
            margin = (p + u) * ERROR + 2.0**-60
            if u < p - margin:
                used += 1
                x[draw, i] = k - np.int64(nearest)
                position += 1
                break
            if u <= p + margin:
                return position, used, OPEN
            used += 1
    return position, used, KEPT


@jit
def log_acceptance(x: Integers, centers: Reals, variances: Reals, squares: Reals, z: Integers) -> tuple[Reals, Reals]:
    """Return the log acceptance probability of each vector, and a bound on its rounding error."""
    size, m = x.shape
    logs, error = np.empty(size), np.empty(size)
    for draw in range(size):
        total, carried, ratio, doubt = 0.0, 0.0, 0.0, 8.0
        for i in range(m):
            y = x[draw, i] + centers[draw, i]
            term = squares[i] * y * y - carried  # Kahan summation: rounding does not grow with m
            after = total + term
            carried = (after - total) - term
            total = after
            v = variances[draw] / squares[i]
            if v < 4.0:
                change = log_ratio(y - np.rint(y), v)
                ratio += change
                doubt += 16.0 - 16.0 * change - ratio
        norm = 0.0
        carried = 0.0
        for cell in range(z.shape[1]):
            term = float(z[draw, cell]) ** 2 - carried
            after = norm + term
            carried = (after - norm) - term
            norm = after
        logs[draw] = 0.5 * (total - norm) / variances[draw] + ratio
        error[draw] = UNIT * (16.0 * total / variances[draw] + doubt)
    return logs, error
