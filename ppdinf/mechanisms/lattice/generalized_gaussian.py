"""The generalized Gaussian mechanism: noise with mass proportional to exp(-|z|^2 / (2 sigma^2)) on the lattice.

Dharangutte, Gao, Gong and Yu, "Integer subspace differential privacy", Definition 13 and Theorem 14, calibrated
without the dimension of the lattice (`ppdinf.privacy.guarantees.lattice_noise_loss`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from ppdinf._internal.frozen import assign
from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.types import Json
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.lattice.points.shortest import nearest_steps, shortest_distance
from ppdinf.laws import DiscreteGaussian
from ppdinf.mechanisms.input_checks import require_public
from ppdinf.mechanisms.lattice.lattice_noise import LatticeNoise
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantees.conversion import as_delta
from ppdinf.privacy.guarantees.guarantee import Guarantee
from ppdinf.privacy.guarantees.lattice_noise_loss import exact_sigma, lattice_delta, theorem14_sigma, zcdp_sigma
from ppdinf.privacy.guarantees.unit_loss import SMALLEST

CALIBRATIONS = ("zcdp", "exact", "theorem14")
DIGITS = 10  # of sigma, which is rounded up
SLACK = 1e-9  # relative to sigma, so that rounding on another machine never makes it too small


@dataclass(frozen=True)
class GeneralizedGaussian(LatticeNoise):
    """Integer Gaussian noise that keeps all public sums exact.

    The noise z has mass proportional to ``exp(-|z|_2**2 / (2 sigma**2))`` among all integer z with ``A z = 0``, where
    the rows of A are the public sums.

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

    Notes
    -----
    For every calibration, the noise is zCDP with ``1 / (2 sigma**2)`` per unit of squared distance. Draws are
    exact (`ppdinf.noise.exact.gaussian.lattice_gaussian`): 3 microseconds for 4 x 4 margins, 0.3 s for 3,143 x 51.

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
        if calibration not in CALIBRATIONS:
            raise PrivacyError(f"calibration must be one of {CALIBRATIONS}, found {calibration!r}")
        if (epsilon is None) != (delta is None):
            raise PrivacyError("give both epsilon and delta, or rho, or sigma")
        if (epsilon is None) == (rho is None) and (rho is not None or sigma is None):
            raise PrivacyError("no privacy loss is given: give epsilon and delta, or rho, or sigma")
        if epsilon is None and calibration != "zcdp":
            raise PrivacyError(f"calibration={calibration!r} computes sigma from epsilon and delta: give both")
        given = {
            "public": public,
            "epsilon": None if epsilon is None else as_fraction(epsilon, "epsilon"),
            "delta": None if delta is None else as_delta(delta),
            "rho": None if rho is None else as_fraction(rho, "rho"),
            "calibration": calibration,
            "sigma": None if sigma is None else as_fraction(sigma, "sigma"),
        }
        assign(self, **given)
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
        given = {name: getattr(self, name) for name in ("epsilon", "delta", "rho", "sigma")}
        texts = {name: str(value) for name, value in given.items() if value is not None}
        return {"kind": self.kind, "calibration": self.calibration} | texts


def _rounded_up(sigma: float) -> Fraction:
    digits = DIGITS - 1 - math.floor(math.log10(sigma))
    return Fraction(math.ceil(Fraction(sigma) * Fraction(10) ** digits)) / Fraction(10) ** digits
