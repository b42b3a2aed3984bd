r"""Gaussian noise on a lattice that keeps what was calibrated for Gaussian noise of real numbers.

Let w be Gaussian with variance (1 - t) v along every direction of the lattice, and round it to a lattice point by
Gaussian rounding of variance t v around it. The result is the discrete Gaussian of variance v, but for the factor by
which the mass of the rounding depends on where in the lattice's cell w lies (C. Peikert, "An efficient and parallel
Gaussian sampler for lattices", CRYPTO 2010). On a basis with orthogonal parts of squared length at most g, that factor
is within a product over all coordinates of 1 +- 4 exp(-2 pi^2 t v / g): at t v = 3 g nobody sees it, 1e-25 for each.
Around answers that differ by a lattice vector, rounding is the same function of the noisy answers: what somebody
could tell of them from noise of variance (1 - t) v, no more can be told from the multiples of the grid. So noise that
is wider by 1 / (1 - t) than a calibration for real numbers asks for keeps its promise, for any delta, and
between tables any number of neighbours apart.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ppdinf.errors import PrivacyError
from ppdinf.mechanisms.real.real_noise import Grid, grid_below

__all__ = ["gaussian_on_grid"]

HIDDEN = 3.0  # variance of the rounding in squared lengths of orthogonal parts
SLACK = 1e-9  # of sigma: more than rounding in calibrations, and than what HIDDEN leaves to see


def gaussian_on_grid(
    sigma: float, square: float, grid: Grid, largest: Fraction = Fraction(1)
) -> tuple[Fraction, Fraction]:
    """Widen Gaussian noise for a lattice, and choose its grid where that is left open.

    Parameters
    ----------
    sigma : float
        Standard deviation that real numbers need.
    square : float
        Bound on the squared lengths of the orthogonal parts of the lattice's basis, before the grid.
    grid : Fraction or "auto"
    largest : Fraction
        Of grids to choose from.

    Returns
    -------
    grid : Fraction
    steps : Fraction
        Standard deviation in steps of the grid.

    Raises
    ------
    PrivacyError
        The grid is too coarse for noise that narrow.

    Examples
    --------
    >>> grid, steps = gaussian_on_grid(10.0, 2.0, "auto")
    >>> grid, 0 < float(steps * grid) / 10 - 1 < 1e-8
    (Fraction(1, 16384), True)
    """
    length = math.sqrt(square)
    step = min(largest, grid_below(sigma / length)) if not isinstance(grid, Fraction) else grid
    share = HIDDEN * (length * float(step) / sigma) ** 2
    if share > 0.5:
        raise PrivacyError(
            f"a grid of {step} is too coarse for noise with a standard deviation of {sigma:.4g}: choose a finer one"
        )
    return step, Fraction(sigma * (1 + SLACK) / math.sqrt(1 - share)) / step
