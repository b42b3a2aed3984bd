r"""Gaussian noise on a lattice with the guarantee of real-valued Gaussian noise.

Let w be Gaussian with variance (1 - t) v in every direction of the lattice, and round it to a lattice point by
Gaussian rounding with variance t v around it. The result is discrete Gaussian with variance v, up to a factor: the mass
of the rounding, which depends on the position of w in its cell of the lattice (C. Peikert, "An efficient and parallel
Gaussian sampler for lattices", CRYPTO 2010). On a basis whose orthogonal parts have squared length at most g, this
factor is within a product over all coordinates of 1 +- 4 exp(-2 pi^2 t v / g); at t v = 3 g each deviation is 1e-25.
Around answers that differ by a lattice vector, rounding is the same function of the noisy answers, so it is
post-processing of noise with variance (1 - t) v. Therefore noise that is wider by 1 / (1 - t) than the calibration for
real numbers requires has the same guarantee, for every delta, and between tables at every distance.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ppdinf.errors import PrivacyError
from ppdinf.mechanisms.real.real_noise import Grid, grid_below

HIDDEN = 3.0  # variance of the rounding in squared lengths of orthogonal parts
SLACK = 1e-9  # relative to sigma: exceeds rounding errors in calibrations and the deviation at HIDDEN


def gaussian_on_grid(
    sigma: float, square: float, grid: Grid, largest: Fraction = Fraction(1)
) -> tuple[Fraction, Fraction]:
    """Widen Gaussian noise for a lattice, and choose its grid if it is "auto"."""
    length = math.sqrt(square)
    step = min(largest, grid_below(sigma / length)) if not isinstance(grid, Fraction) else grid
    share = HIDDEN * (length * float(step) / sigma) ** 2
    if share > 0.5:
        coarsest = Fraction(2) ** math.floor(math.log2(sigma / length * math.sqrt(0.5 / HIDDEN)))
        raise PrivacyError(f"a grid of {step} is too coarse for this noise: choose a grid of at most {coarsest}")
    return step, Fraction(sigma * (1 + SLACK) / math.sqrt(1 - share)) / step
