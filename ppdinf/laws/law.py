"""Base classes of laws of integer noise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from flint import arb, ctx
from numpy.typing import ArrayLike

from ppdinf._internal.rationals import ball
from ppdinf._internal.values import NamedInFiles, Symbolic, as_texts, of_texts
from ppdinf.errors import PrivacyError
from ppdinf.laws.law_array import PerEntry

NEGLIGIBLE = -40.0  # log weight that is negligible in a sum of all weights
DEVIATIONS = 12.0  # standard deviations beyond which a sum of noise is negligible
CIRCLE = 2**23  # largest number of values of a sum of noise; takes a second
LARGEST = 2**20  # largest number of tabulated weights of one cell; takes several seconds


class Law(ABC):
    """A law of integer vectors, stated by weights; the weight is largest at 0, where it is 1.

    Attributes
    ----------
    name : str
        Name in release files.
    title : str
        Short name of the law on lattices, for messages.
    is_mixture : bool
        Whether the cells are independent only given a common scale.

    See Also
    --------
    ppdinf.laws.IntegerLaw, ppdinf.laws.LawArray

    Examples
    --------
    >>> import ppdinf as ppd
    >>> law = ppd.laws.DiscreteGaussian(variance=4)
    >>> isinstance(law, ppd.laws.Law), law.name, law.is_mixture
    (True, 'discrete-gaussian', False)
    """

    name: ClassVar[str]
    title: ClassVar[str]
    is_mixture: ClassVar[bool] = False

    @property
    def kernel_id(self) -> tuple[int, float]:
        """Identifier and scale of the law in `ppdinf.laws.additive_law`, for Markov chains.

        Raises
        ------
        PrivacyError
            The mass depends on more than |z|_1 or |z|_2.
        """
        raise PrivacyError(f"Markov chains on lattices do not support {self.name} noise")

    @abstractmethod
    def log_mass(self, z: ArrayLike) -> float:
        """Return the log mass of a vector, up to a constant."""

    @abstractmethod
    def support_radius(self, cells: int, tail_probability: float) -> int:
        """Return a bound on ``|z|`` over `cells` cells of a lattice, with tail probability `tail_probability`."""

    @abstractmethod
    def widest_half_width(self, cells: int, tail_probability: float) -> int:
        """Return a bound like `support_radius` that holds under every further condition that zero noise satisfies.

        Zero noise has weight 1. The probability of a set of vectors is therefore at most the sum of its weights.
        """


class IntegerLaw(PerEntry, NamedInFiles, Law, by="name"):
    """Independent integer noise for each cell: a symmetric law whose mass decreases with the absolute value.

    Files name a law and state its parameters. A reader calls the class with this ``name``, which must be imported, with
    all other items of `to_dict` as keywords. Releases with a law that this does not rebuild cannot be saved.

    See Also
    --------
    ppdinf.laws.Law, ppdinf.laws.AdditiveNoise

    Examples
    --------
    >>> import ppdinf as ppd
    >>> law = ppd.laws.DoubleGeometric("1/4")
    >>> isinstance(law, ppd.laws.IntegerLaw), law.to_dict()
    (True, {'name': 'double-geometric', 'epsilon': '1/4'})
    """

    @abstractmethod
    def log_weight(self, z: Symbolic) -> Symbolic:
        """Return the log weight of each integer, 0 at 0, elementwise; NumPy or PyTensor."""

    @abstractmethod
    def weight(self, size: int) -> arb:
        """Enclose the weight of an absolute value."""

    @abstractmethod
    def largest_ratio(self, size: int) -> arb:
        """Enclose the largest ratio ``weight(k + period) / weight(k)`` over all k from `size` on."""

    @property
    def period(self) -> int:
        """Number of steps over which the weight strictly decreases."""
        return 1

    @property
    def log_quadratic(self) -> tuple[float, float] | None:
        """Rate r and curvature b if the log weight of k is ``-(r |k| + b k^2 / 2)``; None otherwise."""
        return None

    @property
    def epsilon_per_unit(self) -> Fraction | None:
        """Upper bound on the change of the log weight from one integer to the next; None if it is unbounded."""
        return None

    @property
    def rho_per_square(self) -> Fraction | None:
        """ZCDP loss per unit of squared distance; None if it is not known."""
        return None

    def to_dict(self) -> dict[str, str]:
        """Return the name and the parameters as text; the default is for dataclasses."""
        return {"name": self.name} | as_texts(self)

    @staticmethod
    def from_dict(data: object) -> IntegerLaw:
        """Rebuild a law from `to_dict`.

        Raises
        ------
        PrivacyError
            This version does not support the law, or the parameters are not parameters of the law.
        """
        kind = IntegerLaw._named_in(data)
        if kind is None or not isinstance(data, dict):
            name = data.get("name") if isinstance(data, dict) else None
            raise PrivacyError(f"this version of ppdinf does not know noise with the name {name!r:.60}")
        parameters = {key: value for key, value in data.items() if key != "name"}
        return of_texts(kind, parameters, f"{kind.name} noise")

    def log_mass(self, z: ArrayLike) -> float:
        """Return the log mass of a vector: the sum over its cells."""
        return float(np.sum(self.log_weight(np.asarray(z, dtype=np.int64))))

    def support_radius(self, cells: int, tail_probability: float) -> int:
        """Return a bound on ``|z|`` over `cells` cells of a lattice, with tail probability `tail_probability`."""
        return self.widest_half_width(cells, tail_probability)

    def widest_half_width(self, cells: int, tail_probability: float) -> int:
        """Return a bound from the sums of weights, valid under every further condition that zero noise satisfies."""
        return self.tail_start(math.log(tail_probability / cells) - (cells - 1) * self.log_total)

    def tail_start(self, log_rare: float) -> int:
        """Return a bound on the absolute value beyond which the weights sum to at most ``exp(log_rare)``."""
        k = 1
        while not self.log_tail(k) <= log_rare:  # nan where weights end
            k = k + 1 + k // 16
        return k

    @lru_cache(maxsize=16)  # noqa: B019  (laws are values: equal ones share an entry)
    def window(
        self, bits: int, precision: int, farthest: float = math.inf, tilt: Fraction = Fraction(0)
    ) -> tuple[list[arb], arb]:
        """Tabulate the weights of 0, 1, ..., up to `farthest`; the omitted weights sum to at most 2^-bits.

        Weights of k are multiplied by ``exp(tilt k)``. The products must decrease, or end at `farthest`. The omitted
        weights are counted twice because the law has the same weights below 0.


        Raises
        ------
        PrivacyError
            The table would have more than a million weights.
        """
        assert ctx.prec == precision, "weights are enclosed at Arb's working precision"
        if farthest > LARGEST and self.tail_start(-bits * math.log(2)) > LARGEST:
            raise PrivacyError(
                f"{self.name} noise of this scale covers more than {LARGEST:,} counts of a cell, too many to list: "
                "use more epsilon, tighter bounds, or GeneralizedLaplace, which does not require releases within bounds"
            )
        rise = ball(tilt)
        weights, negligible = [self.weight(0)], arb(2) ** -bits
        while True:
            size = len(weights)
            if size > farthest:
                return weights, arb(0)
            ahead = [self.weight(size + k) * (rise * (size + k)).exp() for k in range(self.period)]
            ratio = self.largest_ratio(size) * (rise * self.period).exp()
            tail = arb("inf")
            if ratio < 1:
                tail = 2 * sum(ahead, start=arb(0)) / (1 - ratio)
            elif not tilt and size > 1:  # weights whose ratio increases to 1
                tail = arb(math.exp(self.log_tail(size - 1)) * (1 + 1e-9))
            if tail < negligible:
                return weights, tail.upper()
            weights.append(ahead[0])

    @cached_property
    def log_total(self) -> float:
        """Log of the sum of all weights: an upper bound, which is exact in double precision if the tail is negligible.

        The tail begins at a relative weight of ``exp(-40)``, or at a million.
        """
        far = min(self.tail_start(NEGLIGIBLE), LARGEST)
        near = np.exp(self.log_weight(np.arange(1.0, far + 1))).sum()
        return math.log1p(2 * float(near) + math.exp(self.log_tail(far)))

    @cached_property
    def noise_variance(self) -> float:
        """Variance of the noise of one cell; laws wider than a million are summed on a coarser grid."""
        far = self.tail_start(2 * NEGLIGIBLE)
        size = np.arange(0.0, far + 1.0, -(-far // LARGEST))
        weight = np.exp(self.log_weight(size))
        return float(2 * (weight @ size**2) / (2 * weight.sum() - 1))

    def log_total_of_sum(self, cells: int) -> float | None:
        """Return the log of the total weight of all noise of `cells` cells with the sum 0; None if it is too wide.

        The characteristic function of a cell is computed on a circle of integers. The probability that the sum of the
        noise leaves the circle is negligible.
        """
        far = self.tail_start(2 * NEGLIGIBLE)
        if far > CIRCLE:
            return None
        weights = np.exp(self.log_weight(np.arange(far + 1.0)))
        total = 2 * weights.sum() - 1
        spread = math.sqrt(2 * (weights @ np.arange(far + 1.0) ** 2) / total)
        size = 2 ** math.ceil(math.log2(2 * far + 1 + DEVIATIONS * spread * math.sqrt(cells)))
        if size > CIRCLE:
            return None
        circle = np.zeros(size)
        circle[: far + 1] = weights / total
        circle[-far:] = circle[far:0:-1]
        transform = np.fft.rfft(circle).real
        twice = np.full(transform.size, 2.0)  # the values of the other half of the circle
        twice[[0, -1]] = 1.0
        return float(math.log((twice @ transform**cells) / size) + cells * math.log(total))

    def log_tail(self, size: int) -> float:
        """Return an upper bound on the log of the sum of the weights of absolute values above `size`."""
        upper = float(self.log_weight(size + 1)) + math.log(2 * self.period)
        if upper == -math.inf:
            return upper  # weights decrease, so that all further weights are 0
        return upper - math.log(-math.expm1(float(self.largest_ratio(size + 1).log().upper())))
