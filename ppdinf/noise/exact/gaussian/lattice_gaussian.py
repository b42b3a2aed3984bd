"""Exact discrete Gaussian noise on any lattice.

P(z) is proportional to exp(-|z|^2 / (2 sigma^2)) on {z : A z = 0}. Klein's sequential sampler proposes vectors, which
are accepted with a probability that makes the law exact (`ppdinf.noise.exact.gaussian.klein`). Rounding errors cannot
change any decision.

References
----------
Z. Brakerski, A. Langlois, C. Peikert, O. Regev, D. Stehle, "Classical hardness of learning with errors",
STOC 2013, Lemma 2.3.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ppdinf.errors import InvariantError
from ppdinf.lattice.structure.blocks import Structure
from ppdinf.laws import DiscreteGaussian, Law
from ppdinf.noise.exact.gaussian.gram_schmidt import klein as klein_of
from ppdinf.noise.exact.gaussian.klein import Klein
from ppdinf.noise.primitives.bernoulli import draw_bernoulli
from ppdinf.noise.primitives.integers import positive_fraction
from ppdinf.noise.primitives.sampler_offer import Answer, Declined, Offer, is_one_block
from ppdinf.noise.primitives.stream import BitStream, seeded_stream

BATCH = 2**21  # coordinates per batch
PILOT = 2**8  # proposals of the pilot run that estimates the acceptance rate
LEAST = 0.1  # joint acceptance rate below which blocks are drawn one by one
HOPELESS = 1e-5  # acceptance rate below which a block is declined


def offer(structure: Structure, law: Law, cells: NDArray[np.int64]) -> Answer:
    """Offer to draw cells together if the acceptance rate is high enough."""
    if not isinstance(law, DiscreteGaussian):
        return None
    try:
        basis = klein_of(*structure.restricted(cells))
    except InvariantError as error:
        return Declined(partial(str, error))
    least = HOPELESS if is_one_block(structure, cells) else LEAST
    acceptance = gaussian_acceptance(basis, law.variance)
    if acceptance < least:

        def narrow() -> str:
            workable = widened(float(law.sigma), lambda sigma: gaussian_acceptance(basis, Fraction(sigma) ** 2) / least)
            return too_narrow(acceptance, f"sigma = {workable:.2g}")

        return Declined(narrow, acceptance / least)

    def draw(size: int, stream: BitStream) -> NDArray[np.int64]:
        return draw_gaussian(basis, law.variance, stream, size=size)

    return Offer("Klein", cells, lambda: draw, acceptance)


def widened(scale: float, near: Callable[[float], float]) -> float:
    """Return the factor, at least 1, by which the noise must be widened to be accepted; accurate to a few percent."""
    low = high = scale
    while near(high) < 1:
        low, high = high, 2 * high
    for _ in range(4):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if near(middle) < 1 else (low, middle)
    return 1.05 * high  # robust to rounding to two digits


def too_narrow(acceptance: float, workable: str) -> str:
    """Return a clause with the acceptance rate and the smallest noise that can be drawn."""
    return (
        "the noise is narrow compared with the vectors of this lattice: the acceptance rate is about "
        f"{acceptance:.0e}; noise from about {workable} can be drawn"
    )


def draw_gaussian(klein: Klein, sigma_squared: Fraction, stream: BitStream, *, size: int = 1) -> NDArray[np.int64]:
    """Draw from the discrete Gaussian on a lattice exactly."""
    sigma_squared = positive_fraction("sigma_squared", sigma_squared)
    d, m = klein.basis.shape
    noise = np.zeros((size, d), dtype=np.int64)
    waiting, rows = np.arange(size if m else 0), max(1, BATCH // max(m, 1))
    while waiting.size:
        now = waiting[:rows]
        proposals = klein.propose([sigma_squared] * now.size, stream)
        kept = draw_bernoulli(*proposals.log_keep(), proposals.enclose_keep, stream)
        noise[now[kept]] = proposals.z[kept]
        waiting = np.concatenate([now[~kept], waiting[rows:]])
    return noise


def gaussian_acceptance(klein: Klein, sigma_squared: Fraction) -> float:
    """Estimate the acceptance rate of `draw_gaussian` from a few hundred seeded proposals."""
    size = max(8, min(PILOT, BATCH // max(klein.squares.size, 1)))
    proposals = klein.propose([positive_fraction("sigma_squared", sigma_squared)] * size, seeded_stream(0))
    return float(np.exp(proposals.log_keep()[0]).mean())
