"""What a law of whole-numbered noise states."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from flint import arb, ctx
from numpy.typing import ArrayLike

from ppdinf._internal.frozen import NamedInFiles, made
from ppdinf._internal.rationals import ball
from ppdinf._internal.types import Json, Symbolic
from ppdinf.errors import PrivacyError
from ppdinf.laws.law_array import law_array

__all__ = ["IntegerLaw", "Law"]

NEAR = 2**10  # weights that are summed one by one
LARGEST = 2**20  # weights that are tabulated for one cell: some seconds


class Law(ABC):
    """A law of vectors of whole numbers, largest at 0, where its weight is 1; stated up to its normaliser.

    Attributes
    ----------
    name : str
        In release files.
    title : str
        The law in a few words, on lattices.
    is_mixture : bool
        Whether the cells are independent only given a common scale.
    is_of_norm : bool
        Whether the mass follows from |z|_1 or |z|_2 alone, as samplers for whole lattices need it.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    is_mixture: ClassVar[bool] = False
    is_of_norm: ClassVar[bool] = False

    @property
    def kernel_id(self) -> tuple[int, float]:
        """Number and scale of the law in `ppdinf.laws.chain_kernels`, where it `is_of_norm`."""
        raise PrivacyError(f"samplers for whole lattices do not know {self.name} noise")

    @abstractmethod
    def log_mass(self, z: ArrayLike) -> float:
        """Logarithm of the mass at a vector, up to a constant."""

    @abstractmethod
    def support_radius(self, cells: int, tail_probability: float) -> int:
        """Bound on ``|z|`` over `cells` cells of a lattice, exceeded with at most the probability `rare`."""

    @abstractmethod
    def widest_half_width(self, cells: int, tail_probability: float) -> int:
        """Bound as `support_radius` under any further condition that zero noise meets.

        Zero noise has the weight 1, so that no set of vectors is more probable than the sum of its weights.
        """


class IntegerLaw(NamedInFiles, Law, by="name"):
    """Independent whole numbers, one for each cell: a symmetric law whose mass falls with the absolute value."""

    def __new__(cls, *args: ArrayLike, **kwargs: ArrayLike) -> Any:
        """Make a law, or where a parameter is an array, a law for each of its entries."""
        if any(np.ndim(value) for value in (*args, *kwargs.values())):
            return law_array(cls, args, kwargs)
        return super().__new__(cls)

    @abstractmethod
    def log_weight(self, z: Symbolic) -> Symbolic:
        """Logarithm of the weight of each integer, 0 at 0, elementwise; NumPy or PyTensor."""

    @abstractmethod
    def weight(self, size: int) -> arb:
        """Enclose the weight of an absolute value."""

    @abstractmethod
    def largest_ratio(self, size: int) -> arb:
        """Enclose the largest ratio ``weight(k + period) / weight(k)`` over all k from `size` on."""

    @property
    def period(self) -> int:
        """Steps over which the weight surely falls."""
        return 1

    @property
    def log_quadratic(self) -> tuple[float, float] | None:
        """Rate r and bend b where the log weight of k is ``-(r |k| + b k^2 / 2)``; None where it has no such form."""
        return None

    @property
    def epsilon_per_unit(self) -> Fraction | None:
        """Most by which the log weight changes from one integer to the next; None where there is no end."""
        return None

    @property
    def rho_per_square(self) -> Fraction | None:
        """ZCDP loss per unit of squared distance; None where that is not known."""
        return None

    @abstractmethod
    def to_dict(self) -> dict[str, str]:
        """Name and parameters, rationals as text."""

    @staticmethod
    def from_dict(data: object) -> IntegerLaw:
        """Rebuild a law from `to_dict`.

        Raises
        ------
        PrivacyError
            A law that this version does not know, or other parameters than it has.
        """
        found = IntegerLaw._named_in(data)
        if found is None or not isinstance(data, dict):
            name = data.get("name") if isinstance(data, dict) else None
            raise PrivacyError(f"this version of ppdinf does not know noise of the name {name!r:.60}")
        return found._of_texts({key: value for key, value in data.items() if key != "name"})

    @classmethod
    def _of_texts(cls, parameters: Json) -> IntegerLaw:
        law: IntegerLaw = made(cls, parameters, f"{cls.name} noise")
        return law

    def log_mass(self, z: ArrayLike) -> float:
        """Logarithm of the mass at a vector: the sum over its cells."""
        return float(np.sum(self.log_weight(np.asarray(z, dtype=np.int64))))

    def support_radius(self, cells: int, tail_probability: float) -> int:
        """Bound on ``|z|`` over `cells` cells of a lattice, exceeded with at most the probability `rare`."""
        return self.widest_half_width(cells, tail_probability)

    def widest_half_width(self, cells: int, tail_probability: float) -> int:
        """Return `support_radius` under any further condition that zero noise meets, from the weights of the others."""
        return self.tail_start(math.log(tail_probability / cells) - (cells - 1) * self.log_total)

    def tail_start(self, log_rare: float) -> int:
        """Bound on the absolute value beyond which weights add up to ``exp(log_rare)`` at most, 0 having weight 1."""
        k = 1
        while self.log_tail(k) > log_rare:
            k = k + 1 + k // 16
        return k

    @lru_cache(maxsize=16)  # noqa: B019  (laws are values: equal ones share an entry)
    def window(
        self, bits: int, precision: int, farthest: float = math.inf, tilt: Fraction = Fraction(0)
    ) -> tuple[list[arb], arb]:
        """Tabulate weights of 0, 1, ..., up to `farthest`, and bound the sum of what is left out by 2^-bits or less.

        Weights of k are multiplied by ``exp(tilt k)``; they must fall nevertheless, or end at `farthest`. What is left
        out is counted twice, for a law that has the same weights below 0.

        Raises
        ------
        PrivacyError
            They would be more than a million.
        """
        assert ctx.prec == precision, "weights are enclosed at Arb's working precision"
        if farthest > LARGEST and self.tail_start(-bits * math.log(2)) > LARGEST:
            raise PrivacyError(
                f"{self.name} noise this wide reaches over more than {LARGEST:,} counts of a cell, too many to list: "
                "use more epsilon, tighter bounds, or GeneralizedLaplace, whose releases need not obey bounds"
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
            elif not tilt and size > 1:  # weights that fall ever more slowly
                tail = arb(math.exp(self.log_tail(size - 1)) * (1 + 1e-9))
            if tail < negligible:
                return weights, tail.upper()
            weights.append(ahead[0])

    @property
    def log_total(self) -> float:
        """Bound on the logarithm of the sum of all weights, that of 0 being 1."""
        near = sum(math.exp(float(self.log_weight(k))) for k in range(1, NEAR))
        return math.log1p(2 * near + math.exp(self.log_tail(NEAR - 1)))

    def log_tail(self, size: int) -> float:
        """Bound on the logarithm of the sum of all weights of absolute values above a size."""
        most = float(self.log_weight(size + 1)) + math.log(2 * self.period)
        return most - math.log(-math.expm1(float(self.largest_ratio(size + 1).log().upper())))
