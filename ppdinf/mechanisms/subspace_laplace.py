"""Laplace noise on the null space of public sums, projected or extended.

Projected: P e with independent Laplace noise e of scale Delta_1(W) / epsilon, projected onto N (Corollary 3.8).
Extended: Q w with independent Laplace coordinates w of scale Delta_1(Q'W) / epsilon in an orthonormal basis Q of N
(Corollary 3.9, which prints A(x) + Q w in the place of Q w). The extended law depends on the basis, which is that of
`ppdinf.lattice.null_space`. Mean squared error over all cells: 2 m scale^2 with m = dim N, for either scale.

J. Gao, R. Gong, F.-Y. Yu, "Subspace differential privacy", AAAI 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse

from ppdinf.errors import ModelError
from ppdinf.invariants import Public, System
from ppdinf.mechanisms.real_noise import NARROWEST, RealNoise, laplace_reach
from ppdinf.mechanisms.subspace import Reals, SubspaceMechanism, require_choice
from ppdinf.privacy.sensitivity import sensitivity
from ppdinf.samplers.noise_norm import NoiseNorm

if TYPE_CHECKING:
    from ppdinf.lattice.null_space import NullSpace
    from ppdinf.samplers.tape import Tape

__all__ = ["SubspaceLaplace"]


@dataclass(frozen=True)
class SubspaceLaplace(SubspaceMechanism):
    """Laplace noise among all real z with ``A z = 0``; pure guarantee.

    Parameters
    ----------
    public : Public
        What is published exactly: sums of the cells, or of the answers where a query is given.
    epsilon : int, float, str or Fraction
        Privacy loss between neighbours.
    method : {"projected", "extended"}
        Laplace noise of all answers, projected; or Laplace coordinates in a basis of the null space. Unlike
        Gaussian noise, the second can be wider: for cells under one total, by a factor near 2.4.
    query, neighbours
        As for `SubspaceGaussian`.

    Raises
    ------
    InvariantError, PrivacyError
        `public` is no public information; a parameter is out of range or unknown.

    Notes
    -----
    Noise of real numbers in double precision, as `SubspaceGaussian`. The density of projected noise is known
    in closed form where public sums split the cells into groups; elsewhere `logp` refuses. Inference needs none: it
    draws what the projection removed along with the parameters.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> mechanism = ppd.SubspaceLaplace(ppd.invariants.total(), epsilon="0.192")
    >>> noisy = mechanism.simulate([30, 4, 12], draws=2, rng=1)
    >>> noisy.sum("dim_0").values.round(9)
    array([46., 46.])
    """

    kind: ClassVar[str] = "subspace-laplace"
    method: str

    def __init__(
        self,
        public: Public,
        epsilon: int | float | str | Fraction,
        method: str = "projected",
        *,
        query: Any = None,
        neighbours: str = "replaced",
    ) -> None:
        self._set(public, epsilon, None, query, neighbours)
        require_choice("method", method, ["projected", "extended"])
        object.__setattr__(self, "method", method)

    def scale(self, system: System) -> float:
        """Find the scale of the Laplace coordinates, of all answers or of those of the basis."""
        from ppdinf.lattice.null_space import null_space

        return self._scale(null_space(system.structure))

    def _scale(self, space: NullSpace) -> float:
        d = space.fixed.shape[0]
        query = sparse.csc_array(sparse.eye_array(d) if self.query is None else np.array(self.query, dtype=float))
        if self.method == "extended":
            if not space.dimension:
                return 0.0
            query = space.basis.T @ query
        return sensitivity(query, p=1, neighbours=self.neighbours) / float(self.epsilon)  # type: ignore[arg-type]

    def law(self, system: System) -> RealNoise:
        """Laplace noise, projected onto the null space or within it."""
        from ppdinf.lattice.null_space import null_space
        from ppdinf.samplers.continuous import laplaces

        space = null_space(system.structure)
        scale, d, m = self._scale(space), space.fixed.shape[0], space.dimension

        def projected(draws: int, tape: Tape) -> Reals:
            return scale * space.project(laplaces(tape, draws, d))

        def projected_density(z: Reals) -> float:
            return _projected_log_density(space, z / scale) if scale else 0.0

        def extended(draws: int, tape: Tape) -> Reals:
            return scale * (laplaces(tape, draws, m) @ space.basis.T) if m else np.zeros((draws, d))

        width = max(scale, NARROWEST)
        reach = laplace_reach(width, d)
        reason = f"Laplace noise of {d} answers on the {m} dimensions that public sums leave free"
        if self.method == "extended":
            norm = NoiseNorm(sparse.csc_array(space.basis.T / width), 1)
            return RealNoise(extended, norm.log_density, "basis", reason, reach, m, norm)
        # t is measured such that exp(-|t|_1) falls no faster than exp(-|z + shifts @ t|_1 / scale)
        shifts = space.fixed * (width * math.sqrt(d - m)) if m < d else None
        norm = NoiseNorm(sparse.eye_array(d, format="csc") / width, 1)
        return RealNoise(projected, projected_density, "projection", reason, reach, m, norm, shifts)

    def to_dict(self) -> dict[str, Any]:
        """Kind and parameters, rationals as text."""
        return super().to_dict() | {"method": self.method}


def _projected_log_density(space: NullSpace, z: Reals) -> float:
    """Log density of projected noise of scale 1: integrate exp(-|z + t|_1) over shifts t that the sums remove."""
    structure = space.structure
    free = ~structure.determined
    if (structure.sum_ranks > 1).any() or (free & (structure.class_sizes > 1)).any():
        raise _no_closed_form()
    if (np.diff(structure.lattice.class_basis.indptr) > 1).any():
        raise _no_closed_form()
    alone = free[structure.classes]
    order = np.argsort(structure.classes[~alone], kind="stable")
    groups = np.split(z[~alone][order], np.cumsum(structure.class_sizes[structure.determined])[:-1])
    return -float(np.abs(z[alone]).sum()) + sum(_log_shift_integral(group) for group in groups)


def _log_shift_integral(z: Reals) -> float:
    """Log of the integral of exp(-sum_i |z_i + t|) over t, in closed form between the points -z_i.

    With t from low to high, the sum is linear between consecutive points; a piece of length w between
    values a and b of the sum has the integral w exp(-a) (1 - exp(a - b)) / (b - a), in the logarithm without overflow.
    """
    from scipy.special import exprel, logsumexp

    n = z.size
    if not n:
        return 0.0
    points = np.sort(-z)
    slopes = 2.0 * np.arange(n + 1) - n
    widths = np.diff(points)
    total = np.abs(points[0] - points).sum()
    heights = total + np.concatenate([[0.0], np.cumsum(slopes[1:-1] * widths)])
    low = np.minimum(heights[:-1], heights[1:])
    with np.errstate(divide="ignore"):
        pieces = np.log(widths) - low + np.log(exprel(-np.abs(np.diff(heights))))
    ends = -heights[[0, -1]] - np.log(n)
    return float(logsumexp(np.concatenate([pieces, ends])))


def _no_closed_form() -> ModelError:
    return ModelError(
        "projected Laplace noise under crossing sums has no density in closed form: use SubspaceGaussian or "
        "method='extended', or infer with PartiallyPrivate, which needs none"
    )
