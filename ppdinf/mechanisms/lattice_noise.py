"""Integer noise on the lattice that keeps all public sums: the generalized Laplace and Gaussian mechanisms."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import ClassVar

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Array, Integers, Json, assign, require_choice
from ppdinf.errors import InvariantError, ModelError, PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.lattice.shortest import nearest_steps, shortest_distance
from ppdinf.laws import LAPLACE, DiscreteGaussian, DoubleGeometric, IntegerLaw, L2Laplace
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.likelihood import Likelihood, MixingScale
from ppdinf.laws.synonyms import AcceptsSynonyms
from ppdinf.mechanisms.input_checks import require_public
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.noise.log_total import log_total
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.noise.sampler_plan import Plan, plan_sampler
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.lattice_gaussian import exact_sigma, lattice_delta, theorem14_sigma, zcdp_sigma
from ppdinf.privacy.unit_loss import SMALLEST
from ppdinf.privacy.zcdp import as_delta

RARE = 1e-12  # probability that any cell is outside the truncated support


class LatticeNoise(TableMechanism, metaclass=AcceptsSynonyms):
    """Integer noise on the lattice ``{z : A z = 0}``, with a law that does not depend on the table.

    The density of a release y is ``q(y - x)``. Its normalizer does not depend on x (translation invariance); inference
    uses this property.
    """

    is_translation_invariant: ClassVar[bool] = True

    @property
    @abstractmethod
    def law(self) -> IntegerLaw | L2Laplace:
        """Return the law of the noise."""

    def likelihood(self, system: System) -> Likelihood:
        """Return the likelihood given by the law of the noise ``y - x``."""
        cells = system.frame.size
        scale = MixingScale(cells) if self.law.is_mixture else None
        constant = partial(log_total, system.structure, self.law)
        return Likelihood(AdditiveLaw(self.law), self.law.support_radius(cells, RARE), scale, constant=constant)

    def on_part(self, public: Public) -> LatticeNoise:
        """Return the same noise under the public statements of a part, if its weights factor over the cells.

        Raises
        ------
        ModelError
            The noise is a scale mixture: all cells have a common scale.
        """
        if self.law.is_mixture:
            raise ModelError(
                "a part of a release with l2 noise is not a release: the noise of all cells has one common scale. Use "
                "release.table.sel(...) for the numbers"
            )
        return self._with_public(public)

    def _with_public(self, public: Public) -> LatticeNoise:
        """Return the mechanism with the same law and other public statements."""
        return replace(self, public=public)  # type: ignore[type-var]

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Choose a sampler from the structure of the public sums.

        Raises
        ------
        InvariantError
            The public sums cross too much for every exact sampler, for example both margins of a large table with l1
            noise.
        """
        return plan_sampler(system, self.law, allow_mcmc=allow_mcmc)

    def draw(self, system: System, cells: Integers, draws: int, stream: BitStream, plan: Plan | None = None) -> Array:
        """Draw releases of a table; int64 of shape (draws, d)."""
        plan = plan or self.plan_on(system)
        return cells + plan.noise_on(system.structure, self.law).draw(draws, stream)

    def log_weight(self, system: System, y: Integers, x: Integers) -> float:
        """Return the log density of the noise ``y - x`` without its normalizer, which is the same for every x."""
        return self.law.log_mass(y - x)

    @property
    def title(self) -> str:  # type: ignore[override]
        """Return a short description of the law."""
        return f"{self.law.title} on the lattice"


@dataclass(frozen=True)
class GeneralizedLaplace(LatticeNoise):
    """Integer Laplace noise that keeps all public sums exact.

    The noise z has mass proportional to ``exp(-epsilon * |z|)`` among all integer z with ``A z = 0``, where the
    rows of A are the public sums.

    Parameters
    ----------
    public : Public
        Statements that are published exactly.
    epsilon : int, float, str or Fraction
        Privacy loss per unit of distance between tables with the same public information. With ``norm="l1"``, moving
        one person to another cell is a distance of 2, hence a loss of ``2 * epsilon``. With ``norm="l2"`` it is a
        distance of ``sqrt(2)``, hence a loss of ``sqrt(2) * epsilon``.
    norm : {"l1", "l2"}
        Norm of the noise, and of the distances between tables.

    Raises
    ------
    PrivacyError
        epsilon is not a positive finite number, or the norm is unknown.

    See Also
    --------
    ppdinf.GeneralizedGaussian, ppdinf.Conditioned, ppdinf.SubspaceLaplace, ppdinf.plan

    Notes
    -----
    l1 noise has the distribution of independent double geometric noise conditioned on ``A z = 0``. Draws are exact: in
    O(d) operations if every cell is in at most one public sum after redundant sums are removed, otherwise by
    elimination, rejection, or a scale mixture (docs/crossing.md). Larger systems of crossing sums need a Markov chain,
    ``release(..., allow_mcmc=True)``. l2 noise is exact on every lattice. Limits of size are in docs/guarantees.md.

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4")
    >>> release = mechanism.release(np.array([30, 4, 12]))
    >>> int(release.table.sum())
    46
    """

    kind: ClassVar[str] = "generalized-laplace"
    public: Public
    epsilon: Fraction
    norm: str

    def __init__(self, public: Public, epsilon: Parameter, norm: str = "l1") -> None:
        require_public(public)
        require_choice("norm", norm, LAPLACE)
        assign(self, public=public, epsilon=as_fraction(epsilon, "epsilon"), norm=norm)

    @property
    def law(self) -> DoubleGeometric | L2Laplace:
        """Return the Laplace distribution in the chosen norm."""
        return LAPLACE[self.norm](self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        """Return pure integer subspace differential privacy (their Theorem 10)."""
        return Guarantee("integer-subspace", self.epsilon, metric=self.norm, **self.public.open)


CALIBRATIONS = ("zcdp", "exact", "theorem14")
DIGITS = 10  # of sigma, which is rounded up
SLACK = 1e-9  # relative to sigma, so that rounding on another machine never makes it too small


@dataclass(frozen=True)
class GeneralizedGaussian(LatticeNoise):
    """Integer Gaussian noise that keeps all public sums exact.

    The noise z has mass proportional to ``exp(-|z|_2**2 / (2 sigma**2))`` among all integer z with ``A z = 0``, where
    the rows of A are the public sums. For every calibration, the noise is zCDP with ``1 / (2 sigma**2)`` per unit of
    squared distance. Draws are exact (`ppdinf.noise.exact.lattice_gaussian`): 3 microseconds for 4 x 4 margins, 0.3 s
    for 3,143 x 51.

    Parameters
    ----------
    public : Public
        Statements that are published exactly.
    epsilon, delta : int, float, str or Fraction, optional
        (epsilon, delta) at l2 distance 1 between tables with the same public sums (calibrations "zcdp" and
        "theorem14"), or between nearest such tables ("exact"). One person in another cell is a distance
        of the square root of 2.
    rho : int, float, str or Fraction, optional
        zCDP loss per unit of squared l2 distance, instead of epsilon and delta.
    calibration : {"zcdp", "exact", "theorem14"}
        How sigma is computed from epsilon and delta. "zcdp": from ``rho = 1 / (2 sigma**2)``. "exact": the smallest
        sigma whose delta, summed over the lattice, suffices between nearest tables. "theorem14": as published; this
        sigma grows with the table.
    sigma : int, float, str or Fraction, optional
        Scale of the noise, in persons. If it is not given, it is computed: immediately for "zcdp", otherwise
        when the mechanism is applied to a table's public sums.

    Raises
    ------
    PrivacyError
        Missing or redundant parameters, a parameter out of range, an unknown calibration, or too small a sigma.

    See Also
    --------
    ppdinf.GeneralizedLaplace, ppdinf.SubspaceGaussian, ppdinf.privacy.to_approximate, ppdinf.plan

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> mechanism = ppd.GeneralizedGaussian(ppd.invariants.total(), rho="1/50")
    >>> float(mechanism.sigma), int(mechanism.release(np.array([30, 4, 12])).table.sum())
    (5.0, 46)
    """

    kind: ClassVar[str] = "generalized-gaussian"
    public: Public
    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None
    calibration: str
    sigma: Fraction | None

    def __init__(
        self,
        public: Public,
        epsilon: Parameter | None = None,
        delta: Parameter | None = None,
        *,
        rho: Parameter | None = None,
        calibration: str = "zcdp",
        sigma: Parameter | None = None,
    ) -> None:
        require_public(public)
        require_choice("calibration", calibration, CALIBRATIONS)
        if (epsilon is None) != (delta is None):
            raise PrivacyError("give both epsilon and delta, or rho, or sigma")
        if (epsilon is None) == (rho is None) and (rho is not None or sigma is None):
            raise PrivacyError("no privacy loss is given: give epsilon and delta, or rho, or sigma")
        if epsilon is None and calibration != "zcdp":
            raise PrivacyError(f"calibration={calibration!r} computes sigma from epsilon and delta: give both")
        assign(
            self,
            public=public,
            epsilon=None if epsilon is None else as_fraction(epsilon, "epsilon"),
            delta=None if delta is None else as_delta(delta),
            rho=None if rho is None else as_fraction(rho, "rho"),
            calibration=calibration,
            sigma=None if sigma is None else as_fraction(sigma, "sigma"),
        )
        if sigma is None and calibration == "zcdp":
            assign(self, sigma=self._zcdp_sigma())
        stated = calibration == "zcdp" and (rho, epsilon) != (None, None)
        if sigma is not None and stated and self.sigma < self._zcdp_sigma():  # type: ignore[operator]
            raise PrivacyError("sigma is too small for the given rho, or epsilon and delta: leave sigma out")

    def _zcdp_sigma(self) -> Fraction:
        if self.rho is None:
            assert self.epsilon is not None
            assert self.delta is not None
            return _rounded_up(zcdp_sigma(self.epsilon, self.delta))
        root = Fraction(math.isqrt((1 / (2 * self.rho)).numerator), 1) / math.isqrt((1 / (2 * self.rho)).denominator)
        return root if 2 * self.rho * root**2 == 1 else _rounded_up(math.sqrt(1 / (2 * self.rho)))

    def on(self, system: System) -> GeneralizedGaussian:
        """Compute sigma where the calibration depends on a table's public sums, or validate a given sigma.

        Raises
        ------
        PrivacyError
            The given sigma is too small.
        """
        if self.calibration == "zcdp":
            return self
        if not system.lattice.rank:
            return self if self.sigma else replace(self, sigma=Fraction(1))  # the noise is 0 for every sigma
        assert self.epsilon is not None
        assert self.delta is not None
        if self.calibration == "theorem14":
            smallest = _rounded_up(theorem14_sigma(system.structure, self.epsilon, self.delta))
            narrow = self.sigma is not None and float(self.sigma) < (1 - SLACK) * float(smallest)
        else:
            steps = nearest_steps(system.structure)
            smallest = self.sigma or max(
                _rounded_up((1 + SLACK) * exact_sigma(block, step, self.epsilon, self.delta)) for block, step in steps
            )
            narrow = any(
                lattice_delta(block, step, float(smallest), float(self.epsilon)) > self.delta for block, step in steps
            )
        if narrow:
            raise PrivacyError("sigma is too small for the given epsilon and delta: leave sigma out")
        return self if self.sigma else replace(self, sigma=smallest)

    def _with_public(self, public: Public) -> GeneralizedGaussian:
        """Return the noise under other public statements; its calibration to the complete table becomes zCDP."""
        given = self if self.calibration == "zcdp" else GeneralizedGaussian(self.public, sigma=self.sigma)
        return replace(given, public=public)

    @property
    def law(self) -> DiscreteGaussian:
        """Return the Gaussian with standard deviation sigma, before it is restricted to the lattice."""
        if self.sigma is None:
            raise InvariantError("sigma depends on the public sums of a table: use mechanism.on(public.on(table))")
        return DiscreteGaussian(self.sigma)

    @property
    def guarantee(self) -> Guarantee:
        """Return zCDP per unit of squared distance, or the guarantee of the calibration."""
        open_ = self.public.open
        if self.calibration == "zcdp":
            rho = self.rho or 1 / (2 * self.sigma**2)  # type: ignore[operator]
            return Guarantee("zcdp", rho=rho, metric="l2", **open_)
        zcdp = None if self.sigma is None else Guarantee("zcdp", rho=1 / (2 * self.sigma**2), metric="l2")
        open_ |= {"epsilon": self.epsilon, "delta": self.delta, "concentrated": zcdp}
        if self.calibration == "theorem14":
            return Guarantee("integer-subspace", metric="l2", **open_)
        # under public sums, smallest changes need not lead to every table that one record can cause
        return Guarantee("subspace", neighbours=SMALLEST, steps=0 if open_["unprotected"] else 2, **open_)

    def _guarantee_on(self, system: System, public: System, plan: Plan | None) -> Guarantee:
        """Add the length of the smallest change; if more is public than the noise keeps, fall back to zCDP."""
        guarantee = self.guarantee
        if guarantee.neighbours is None:
            return guarantee
        length, nearest = (shortest_distance(structure, "l2") or 0 for structure in (system.structure, public.free))
        if nearest > length:
            return Guarantee("zcdp", rho=1 / (2 * self.sigma**2), metric="l2", **self.public.open)  # type: ignore[operator]
        zcdp = guarantee.concentrated and replace(guarantee.concentrated, tied=length)
        steps = guarantee.steps
        if not system.A[:, ~system.structure.fixed].nnz:  # no sum: each record is added or removed
            steps = 2
        elif length**2 > 1.5 and guarantee.contributions == 1:  # a record is counted elsewhere, or nothing changes
            steps = 1
        return replace(
            guarantee,
            neighbours=f"{guarantee.neighbours}, an l2 distance of {length:.4g}",
            concentrated=zcdp,
            steps=steps,
        )

    def to_dict(self) -> Json:
        """Return the kind and parameters, with rational numbers as text."""
        return {"kind": self.kind, "calibration": self.calibration} | super().to_dict()


def _rounded_up(sigma: float) -> Fraction:
    digits = DIGITS - 1 - math.floor(math.log10(sigma))
    return Fraction(math.ceil(Fraction(sigma) * Fraction(10) ** digits)) / Fraction(10) ** digits
