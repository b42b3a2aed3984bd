"""The K-norm gradient mechanism: publish an answer near the minimizer of an objective on records."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy.optimize import least_squares

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Json, Reals, assign, construct, numbers, require_choice
from ppdinf.errors import PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.mechanism import Mechanism, PreparedRelease
from ppdinf.mechanisms.input_checks import refuse_seed, require_draws
from ppdinf.mechanisms.objectives import Exact, Mean, Objective, Quantile
from ppdinf.mechanisms.real_noise import Grid, as_grid, grid_below, real_sampler
from ppdinf.mechanisms.regressions import LinearRegression, LogisticRegression
from ppdinf.noise.k_norm import K_NORMS
from ppdinf.noise.primitives.stream import BitStream, secure_stream, seeded_stream
from ppdinf.noise.random_lines import slice_lines
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.unit_loss import VALUE
from ppdinf.releases.release import Release, as_drawn


@dataclass(frozen=True, eq=False)
class GradientLaw:
    """Answers near the minimizer of an objective on records, within its ball."""

    objective: Objective
    records: Any
    norm: str
    rate: float

    def log_density(self, y: Reals) -> Reals:
        """Return the log density of answers without the normalizer, shape (n, d)."""
        size = np.linalg.norm(self.objective.gradient(self.records, y), K_NORMS[self.norm], axis=1)
        inside = np.linalg.norm(y, axis=1) <= self.objective.ball()
        return np.where(inside, -self.rate * size / self.objective.sensitivity(y, self.norm), -np.inf)

    def by_chain(self, basis: Reals, draws: int, stream: BitStream) -> Reals:
        """Draw answers in the span of orthonormal columns, each by a separate chain, shape (draws, d)."""
        m, radius = basis.shape[1], self.objective.ball()
        optimum = least_squares(
            lambda b: self.objective.gradient(self.records, (basis @ b)[None])[0], np.zeros(m), max_nfev=200
        )
        start = optimum.x * min(1.0, 0.99 * radius / max(np.linalg.norm(optimum.x), 1e-300))
        unit = self.objective.sensitivity((basis @ start)[None], self.norm)[0] / self.rate
        if K_NORMS[self.norm] != 2:
            unit *= m ** (-0.5 if self.norm == "l1" else 0.5)
        _, slopes, axes = np.linalg.svd(optimum.jac)
        widths = unit / np.maximum(slopes, unit * math.sqrt(m) / (2 * radius))
        ends = slice_lines(
            lambda b: self.log_density(b @ basis.T),
            np.tile(start, (draws, 1)),
            axes.T * widths,
            steps=lines_in(m),
            stream=stream,
            radius=radius,
        )
        return ends @ basis.T


def lines_in(dimensions: int) -> int:
    """Return the number of lines of a chain; nothing certifies that it is large enough."""
    return 50 * (dimensions + 1)


SAVED: dict[str, type[Objective]] = {
    kind.__name__: kind for kind in (Mean, Quantile, LinearRegression, LogisticRegression)
}
"""Objectives that release files can store."""

SLACK = Fraction(1, 10**10)
"""Share of epsilon that is reserved for records slightly beyond their bounds and for rounding of gradients."""


@dataclass(frozen=True, eq=False)
class KNormGradient(Mechanism):
    """Real-valued answers to means, quantiles, regressions and other minimization problems.

    A release holds the answer as a table with the single dimension ``answer``; no sum of the answer is public.

    Parameters
    ----------
    objective : Objective
        `Mean`, `Quantile`, `LinearRegression`, `LogisticRegression`, or any `Gradient`
        (`ppdinf.mechanisms.objectives`).
    epsilon : int, float, str or Fraction
        Bound on the privacy loss between two values of a record.
    norm : {"l2", "l1", "linf"}
        The norm K.
    delta_z : int, float, str or Fraction
        Largest number of records that a secret changes given the public information, at least 1: a secret is a record.
        1 for independent records, which is differential privacy for the replacement of one record.
    subspace : array_like, shape (d, k), optional
        Matrix whose columns span the answers that agree with the public information; stored unchanged.
    known : str, optional
        Description of the public information for the guarantee; required with a subspace.
    grid : power of two as int, float, str or Fraction, "auto" or None
        Grid of the answers, or for means of the sums that are divided by the number of records. By default it is
        computed from the objective, epsilon and the number of records. None means real numbers in double precision:
        for regressions, on subspaces, and for chains, where no sampler on a grid is known.

    Raises
    ------
    PrivacyError
        A parameter out of range, an unknown norm, the subspace {0}, a subspace without `known`, or an unusable grid.

    See Also
    --------
    ppdinf.mechanisms.Mean, ppdinf.mechanisms.Quantile, ppdinf.mechanisms.LinearRegression, ppdinf.KNorm

    Notes
    -----
    Exact draws, in which no floating-point number decides an outcome: means on R^d in every norm, and quantiles. Exact
    up to double precision: means in l2 on a subspace that contains the mean, and linear regressions whose noise is
    narrower than the ball. Everything else requires ``allow_mcmc=True``, for research only: nothing certifies the
    chain, and the guarantee allows a distance of 1 from the law (docs/guarantees.md).

    Without a grid, the guarantee is about real numbers, whose low-order bits can reveal the records (I. Mironov, "On
    significance of the least significant bits for differential privacy", CCS 2012). Coefficients in a ball are
    therefore truncated to 24 bits, and the guarantee states the remaining assumption. For means on R^d the normalizer
    does not depend on the records, and the loss is at most epsilon / 2, unless answers are bounded.

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> from ppdinf.mechanisms.objectives import Quantile
    >>> median = ppd.KNormGradient(Quantile(0.5, 0, 100), epsilon=1)
    >>> ages = np.arange(20, 80)
    >>> release = median.release(ages)
    >>> bool(0 <= release.table[0] <= 100), release.guarantee.loss_at_nearest
    (True, Fraction(1, 1))
    """

    kind: ClassVar[str] = "k-norm-gradient"
    is_integer: ClassVar[bool] = False
    public: Public
    objective: Objective
    epsilon: Fraction
    norm: str
    delta_z: Fraction
    subspace: Reals | None
    known: str | None
    grid: Grid

    def __init__(
        self,
        objective: Objective,
        epsilon: Parameter,
        *,
        norm: str = "l2",
        delta_z: Parameter = 1,
        subspace: ArrayLike | None = None,
        known: str | None = None,
        grid: Parameter | None = "auto",
    ) -> None:
        if not isinstance(objective, Objective):
            raise PrivacyError("the first argument must be an objective, for example ppdinf.mechanisms.Mean(bound=1)")
        require_choice("norm", norm, K_NORMS)
        if subspace is not None and (not isinstance(known, str) or not known.strip()):
            raise PrivacyError("a subspace is public information: describe it in known=")
        if subspace is not None:
            _orthonormal(subspace)  # raises for an empty span
        moved = as_fraction(delta_z, "delta_z")
        if moved < 1:
            raise PrivacyError(
                f"delta_z must be at least 1, found {delta_z!r:.60}: a secret is the value of a record, and one full "
                "record changes the gradient"
            )
        steps = as_grid(grid)
        if isinstance(steps, Fraction) and (subspace is not None or type(objective).grid is Objective.grid):
            raise PrivacyError("no sampler on a grid is known for this objective: leave grid out")
        assign(
            self,
            public=Public(),
            objective=objective,
            epsilon=as_fraction(epsilon, "epsilon"),
            norm=norm,
            delta_z=moved,
            subspace=None if subspace is None else numbers(subspace, "subspace"),
            known=known,
            grid=steps,
        )

    @property
    def guarantee(self) -> Guarantee:
        """Return Pufferfish privacy given the public information (their Theorem 10)."""
        return Guarantee(
            "pufferfish",
            self.epsilon,
            neighbours=VALUE,
            models=f"every model of the data in which that moves at most Delta = {self.delta_z} records",
            known=("how many records there are", self.objective.assumed(self.norm), *filter(None, (self.known,))),
        )

    def _guarantee_on(self, system: System, public: System, plan: Plan | None) -> Guarantee:
        """Add the information about the records that an exact plan reveals."""
        guarantee = self.guarantee
        always = self.objective.always_exact and self.subspace is None
        if plan is not None and plan.distance is None and not always:
            # other records would need a chain, so the plan reveals a property of these records
            guarantee = replace(guarantee, known=(*guarantee.known, "that no Markov chain is needed for the records"))
        return guarantee

    def _sampled(self, plan: Plan | None) -> str:
        return real_sampler(self.grid, plan)

    def to_dict(self) -> Json:
        """Return the kind and parameters, with rational numbers as text.

        Raises
        ------
        PrivacyError
            The objective is not defined in ppdinf: release files store no code.
        """
        name = type(self.objective).__name__
        if SAVED.get(name) is not type(self.objective):
            known = ", ".join(SAVED)
            raise PrivacyError(f"release files store the objectives {known} only: other objectives consist of code")
        objective = {"name": name} | {field: float(value) for field, value in vars(self.objective).items()}
        return super().to_dict() | {"objective": objective}

    @classmethod
    def _of_file(cls, public: Public, parameters: Json) -> Mechanism:
        fields = dict(parameters.get("objective", {}))
        name = fields.pop("name", None)
        if name not in SAVED:
            raise PrivacyError(f"this version of ppdinf does not know the objective {name!r}")
        objective = {"objective": construct(SAVED[name], fields, f"the objective {name!r}")}
        reals = {"grid": None}  # files state grids only
        return construct(cls, reals | parameters | objective, f"a mechanism of kind {cls.kind!r}")

    def log_density(self, y: ArrayLike, data: object) -> Reals:
        """Return the log density of publishing `y` without the normalizer.

        The normalizer depends on the data, except for means on R^d: likelihoods of data need it.

        Parameters
        ----------
        y : array_like, shape (..., d)
        data : records, as the objective requires

        Returns
        -------
        ndarray of float64, shape (...)
            ``-inf`` outside the ball; it is not checked whether `y` is in the subspace.
        """
        _, records = self._settled(data)
        answers = numbers(y, "y")
        d = self.objective.dimension(records)
        if answers.shape[-1:] != (d,):
            raise PrivacyError(f"y must have shape (..., {d}), found {answers.shape}")
        return self._given(records).log_density(answers.reshape(-1, d)).reshape(answers.shape[:-1])

    def sampler_plan(self, data: object, *, allow_mcmc: bool = False) -> Plan:
        """Describe how answers are drawn and why; refuse chains unless they are allowed.

        Parameters
        ----------
        data : object
            Records, as in `release`.
        allow_mcmc : bool
            As in `release`.
        """
        settled, records = self._settled(data)
        law = settled._law(records)
        if law is not None:
            return Plan("direct", settled.grid is not None, law[0])
        basis = self._basis(records)
        m = basis.shape[1]
        chain = Plan("slice", False, f"{lines_in(m)} lines in {m} dimensions, which nothing certifies", distance=1.0)
        if not allow_mcmc:
            raise PrivacyError(
                f"no exact sampler applies to these records; for research, allow the {chain} with allow_mcmc=True"
            )
        return chain

    def release(self, data: object, *, allow_mcmc: bool = False, **seed: object) -> Release:
        """Publish an answer, drawn from the operating system's secure source, without a seed.

        Parameters
        ----------
        data : records, as the objective requires
            Confidential.
        allow_mcmc : bool
            Fall back to a chain that nothing certifies; the guarantee then states this.

        Returns
        -------
        Release
            Its table is the answer, float64 of shape (d,).

        Raises
        ------
        PrivacyError
            Records are malformed or out of the stated bounds; further arguments are passed; no exact sampler applies.
        """
        refuse_seed(seed, "simulate(data, draws=..., rng=...)")
        return self.draft(data, allow_mcmc=allow_mcmc).draw()

    def draft(self, data: Any, *, allow_mcmc: bool = False) -> PreparedRelease:
        """Validate records and plan their release without drawing; parameters and errors as in `release`."""
        settled, records = self._settled(data)
        plan = settled.sampler_plan(data, allow_mcmc=allow_mcmc)
        blank = np.zeros(self.objective.dimension(records), dtype=np.int64)

        def draw() -> Release:
            drawn = settled._draw(records, 1, secure_stream())[0]
            return as_drawn(Release(xr.DataArray(drawn, dims="answer"), settled, plan=plan))

        return PreparedRelease(settled, settled.public.on(xr.DataArray(blank, dims="answer")), plan, draw)

    def simulate(self, data: object, *, draws: int, rng: int | np.random.Generator | None = None) -> Reals:
        """Draw many answers for research; never publish them.

        Parameters
        ----------
        data : records, as the objective requires
        draws : int
            At least 1. Where no exact sampler applies, each draw is from a separate, independent chain.
        rng : int or numpy.random.Generator, optional
            A generator is spawned, so that two calls with the same generator differ.

        Returns
        -------
        ndarray of float64, shape (draws, d)

        Raises
        ------
        PrivacyError
            As for `release`; or `draws` is not a positive integer.
        """
        draws = require_draws(draws)
        generator = rng.spawn(1)[0] if isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
        settled, records = self._settled(data)
        return settled._draw(records, draws, seeded_stream(generator))

    def intractable(self, system: System | None = None) -> str:
        """Return the message that refers to the `log_density` of records."""
        return (
            "the answer depends on records, not on the cells of a table, and the normalizer of its law depends on the "
            "records: use log_density(y, data) in a model of the records"
        )

    def _settled(self, data: object) -> tuple[KNormGradient, Any]:
        """Choose the grid for the number of records; return the records rounded as the objective requires."""
        records, settled = self.objective.records(data, self.norm), self
        if self.grid == "auto":
            settled = copy(self)
            grid = self.objective.grid(records, self.norm, self._rate) if self.subspace is None else None
            assign(settled, grid=grid)
        return settled, self.objective.on_grid(records, settled.grid)  # type: ignore[arg-type]

    def _law(self, records: object) -> Exact | None:
        grid = self.grid if isinstance(self.grid, Fraction) else None
        return self.objective.exact(records, self._basis(records), self.norm, self._rate, grid)

    def _draw(self, records: object, draws: int, stream: BitStream) -> Reals:
        law = self._law(records)
        by_chain = self._given(records).by_chain
        drawn = by_chain(self._basis(records), draws, stream) if law is None else law[1](draws, stream)
        radius = self.objective.ball()
        if self.grid is not None or self.subspace is not None or radius == math.inf:
            return drawn
        coarse = float(grid_below(radius, steps=2**24))
        return np.trunc(drawn / coarse) * coarse  # low-order digits that could reveal the records are removed

    @property
    def _rate(self) -> Fraction:
        return self.epsilon * (1 - SLACK) / (2 * self.delta_z)

    def _basis(self, records: object) -> Reals:
        d = self.objective.dimension(records)
        if self.subspace is None:
            return np.eye(d)
        if len(self.subspace) != d:
            raise PrivacyError(f"the subspace has vectors of length {len(self.subspace)}, answers have length {d}")
        return _orthonormal(self.subspace)

    def _given(self, records: object) -> GradientLaw:
        return GradientLaw(self.objective, records, self.norm, float(self._rate))


def _orthonormal(subspace: ArrayLike) -> Reals:
    """Return orthonormal columns that span the same space."""
    A = numbers(subspace, "subspace")
    if A.ndim != 2 or A.size == 0:
        raise PrivacyError("subspace must be a matrix, one column per spanning vector")
    left, sizes, _ = np.linalg.svd(A, full_matrices=False)
    rank = int((sizes > 1e-10 * sizes[0]).sum())
    if sizes[0] == 0:
        raise PrivacyError("the subspace contains only 0: give at least one non-zero column")
    return left[:, :rank]
