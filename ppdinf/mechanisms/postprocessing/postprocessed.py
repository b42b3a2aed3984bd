"""Independent noise in every cell, then projection and rounding onto the tables that satisfy all public statements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from scipy import sparse

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Array, Integers, Reals, assign, require_choice
from ppdinf.errors import InvariantError, ModelError
from ppdinf.invariants import Public, System, covariates
from ppdinf.invariants.public import bind
from ppdinf.lattice.blocks import structure
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.lattice.solution import integer_solution
from ppdinf.laws.likelihood import Likelihood
from ppdinf.laws.preimage import ZERO, CensoredNoise, PreimageShift
from ppdinf.mechanism import PreparedRelease
from ppdinf.mechanisms.input_checks import refuse_seed, require_public, validate_input, warn_fixed
from ppdinf.mechanisms.lattice_noise import GeneralizedLaplace
from ppdinf.mechanisms.postprocessing.projection import (
    largest_fractions,
    onto_bounds,
    onto_simplices,
    onto_sums,
    round_to_sums,
)
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.noise.primitives.integers import draw_discrete_laplace
from ppdinf.noise.primitives.stream import BitStream, secure_stream
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.release_guarantee import ReleaseGuarantee
from ppdinf.releases.release import Release
from ppdinf.tables.frame import Frame, Framed
from ppdinf.tables.table import TableLike


@dataclass(frozen=True, eq=False)
class PostProcessedRelease(Framed):
    """A post-processed table, and the information that inference requires."""

    table: xr.DataArray
    noisy: Release
    guarantee: ReleaseGuarantee

    @property
    def entry(self) -> Release:
        """Return the ledger entry: the noisy table, which refers to the complete release."""
        return self.noisy

    @property
    def frame(self) -> Frame:  # type: ignore[override]
        """Labels of the table."""
        return self.noisy.frame

    @property
    def report(self) -> pd.Series:
        """Summarize the changes by post-processing, computed from published tables only."""
        move = np.abs(self.table.values - self.noisy.table.values)
        return pd.Series(
            {
                "cells": move.size,
                "negative": int((self.noisy.table.values < 0).sum()),
                "moved": int((move > 1e-9).sum()),
                "total_moved": float(move.sum()),
                "largest_move": float(move.max()),
            }
        )


@dataclass(frozen=True, eq=False)
class FeasibleTables:
    """The set {x >= 0 : A x = a, B x >= b}."""

    A: sparse.csr_array
    a: Integers
    B: sparse.csr_array
    b: Integers

    @classmethod
    def of(cls, system: System) -> FeasibleTables:
        """Return the set given by all public statements about a table and x >= 0."""
        B = sparse.csr_array(system.B)
        implied = (np.diff(B.indptr) == 1) & (np.asarray(B.min(axis=1).todense()).ravel() >= 0) & (system.limits <= 0)
        return cls(sparse.csr_array(system.A), system.values, B[~implied], system.limits[~implied])

    @property
    def bounds(self) -> tuple[sparse.csr_array, Integers]:
        """Return all bounds, x >= 0 first."""
        d = self.A.shape[1]
        eye = sparse.eye_array(d, dtype=np.int64)
        return sparse.csr_array(sparse.vstack([eye, self.B])), np.concatenate([np.zeros(d, dtype=np.int64), self.b])

    @cached_property
    def groups(self) -> tuple[Integers, Integers] | None:
        """Return the group of each cell (-1 for none) and the sum of each group, or None if the sums cross."""
        sum_structure = structure(self.A)
        summed = np.diff(sparse.csc_array(self.A).indptr) > 0
        if self.b.size or (summed & ~sum_structure.determined[sum_structure.classes]).any():
            return None
        solution = integer_solution(sum_structure.class_system, self.a)
        sums = np.array([solution.get(k, 0) for k in range(sum_structure.class_sizes.size)], dtype=np.int64)
        return np.where(summed, sum_structure.classes, -1), np.where(sum_structure.determined, sums, 0)

    def project(self, y: Array) -> Reals:
        """Return the nearest real table in least squares."""
        if self.groups is None:
            return onto_bounds(y, self.A, self.a, *self.bounds)
        return onto_simplices(y, *self.groups)

    def round(self, real: Reals) -> Integers:
        """Round a real table of the set to integers, by at most one in each cell."""
        if self.groups is None:
            return round_to_sums(real, self.A, self.a, *self.bounds)
        return largest_fractions(real, *self.groups)


MOST = 200_000  # measurements that an audit enumerates
RARE = 1e-15  # tail probability of the noise beyond the windows of counts
METHODS = {
    "truncated": "negative cells are set to zero; public sums are not used",
    "l2": "nearest real table in squares with the public sums",
    "nonnegative": "nearest real table in squares with the public sums and bounds, without negative cells",
    "l1": "nearest integer table in absolute differences with the public sums and bounds, without negative cells",
    "rounded": "the real table of 'nonnegative', rounded so that public sums and bounds hold exactly",
}
type Levels = list[tuple[sparse.csr_array, Fraction]]


@dataclass(frozen=True)
class PostProcessed(TableMechanism):
    """Independent double geometric noise, followed by a common post-processing step.

    "l2" and "nonnegative" return real numbers, the others counts.

    Parameters
    ----------
    public : Public
        Statements that the published table satisfies. "truncated" uses no sums, and publishes none.
    epsilon : int, float, str or Fraction
        Privacy loss when one record is added or removed, an l1 distance of 1; proportional to larger distances.
    method : {"rounded", "nonnegative", "l2", "l1", "truncated"}
        "truncated" sets negative cells to zero; "l2" projects onto the public sums; "nonnegative" projects onto sums
        and bounds, without negative cells; "rounded" then rounds the projection; "l1" computes the nearest counts.

    Raises
    ------
    PrivacyError
        epsilon is not a positive finite number, or the method is unknown.

    See Also
    --------
    ppdinf.TopDown, ppdinf.GeneralizedLaplace

    Notes
    -----
    Infer from the noisy table, `noisy` of a release, if it is published. Otherwise ``Release(published, mechanism)``
    has the exact likelihood of the published table for all methods except "l1", if the public sums are those of
    disjoint groups of cells and nothing else is bounded (docs/mathematics/postprocessing.md).

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> release = ppd.PostProcessed(ppd.invariants.total(), epsilon="1/2").release(np.array([30, 0, 12]))
    >>> int(release.table.sum()), bool((release.table >= 0).all())
    (42, True)
    """

    kind: ClassVar[str] = "post-processed"
    public: Public
    epsilon: Fraction
    method: str

    def __init__(self, public: Public, epsilon: Parameter, method: str = "rounded") -> None:
        require_public(public)
        require_choice("method", method, METHODS)
        if method == "truncated":
            # sums are neither used nor kept
            public = Public(tuple(s for s in public if s.known)) & _coordinates(public)
        assign(self, public=public, epsilon=as_fraction(epsilon, "epsilon"), method=method)

    def release(self, table: TableLike, **seed: object) -> PostProcessedRelease:  # type: ignore[override]
        """Publish a table: add noise from the operating system's secure source, then post-process.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of counts
            Confidential. Every coordinate other than the labels of the dimensions must be declared public.

        Raises
        ------
        CountError, LabelError, InvariantError, PrivacyError
            As for every mechanism.

        Warns
        -----
        PrivacyWarning
            The public sums fix cells that are not structural zeros: their exact counts are published.
        """
        refuse_seed(seed, "simulate(table, draws=..., rng=...)")
        return self.draft(table).draw()

    def draft(self, table: TableLike, *, allow_mcmc: bool = False) -> PreparedRelease:
        """Validate a table and plan its release without drawing; a draw is a `PostProcessedRelease`."""
        frame, cells = validate_input(self.measurement.public, table)
        system = bind(self.public, frame, cells)
        system.require_cells(cells)
        levels, plan = self._levels(frame), self.plan_on(system)
        measured = self.measurement._drafted(frame, cells)
        warn_fixed(system)

        def draw() -> PostProcessedRelease:
            noisy = measured.draw()
            sums = [_noisy(G, rate, cells, 1, secure_stream()) for G, rate in levels[:-1]]
            (fitted,) = self._fit(system, levels, [*sums, noisy.table.values.reshape(1, -1)])
            table = frame.table(fitted, "post-processed")
            return PostProcessedRelease(table, noisy.as_part_of(system, self), self.guarantee_on(system, plan))

        return PreparedRelease(self, system, plan, draw)

    def draw(self, system: System, cells: Integers, draws: int, stream: BitStream, plan: Plan | None = None) -> Array:
        """Draw post-processed tables; shape (draws, d)."""
        levels = self._levels(system.frame)
        return self._fit(system, levels, [_noisy(G, rate, cells, draws, stream) for G, rate in levels])

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Return the plan of the noise."""
        return Plan("independent", True, self.title)

    @property
    def title(self) -> str:  # type: ignore[override]
        """Return a short description of the law."""
        return f"independent noise in every cell; then, {METHODS[self.method]}"

    @property
    def measurement(self) -> GeneralizedLaplace:
        """Return the mechanism of the noisy cells alone.

        ``Release(published, mechanism.measurement, public=...)`` treats a post-processed table as if it were the noisy
        table: the naive analysis, for comparison.
        """
        return GeneralizedLaplace(_coordinates(self.public), self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        """Pure differential privacy; where sums are exact, among tables with the same sums (integer subspace privacy).

        Between such tables, post-processing is a fixed function of the noisy table and does not increase its loss.
        """
        exact = any(statement.kind != "covariates" for statement in self.public if not statement.known)
        return Guarantee("integer-subspace" if exact else "pure", self.epsilon, metric="l1", **self.public.open)

    def _sampled(self, plan: Plan | None) -> str:
        return str(plan or Plan("independent", True, self.title))

    def push(self, system: System, tables: Integers, reach: int) -> Reals:
        """Push the law of the noise through the post-processing, for audits.

        Parameters
        ----------
        system : System
        tables : ndarray of int64, shape (n, d)
            Tables that satisfy all public statements.
        reach : int
            Measurements are enumerated up to this distance outside the range of the tables' measurements.

        Returns
        -------
        ndarray of float64, shape (n, m)
            Log probability, given each table, of each outcome from measurements within reach.

        Raises
        ------
        InvariantError
            There are more than 200,000 measurements.
        """
        levels = self._levels(system.frame)
        G, sizes = sparse.vstack([G for G, _ in levels]), [G.shape[0] for G, _ in levels]
        rates = np.repeat([float(rate) for _, rate in levels], sizes)
        exact = (G @ tables.T).T
        ends = [(int(a) - reach, int(b) + reach + 1) for a, b in zip(exact.min(axis=0), exact.max(axis=0), strict=True)]
        if math.prod(last - first for first, last in ends) > MOST:
            raise InvariantError(
                f"more than {MOST:,} measurements have to be enumerated: audit a smaller table, or use a smaller reach"
            )
        ranges = [np.arange(first, last) for first, last in ends]
        measured = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, rates.size)
        outcomes = self._fit(system, levels, np.split(measured, np.cumsum(sizes)[:-1], axis=1))
        # outcomes that differ only in their last digits may be merged or not: finer outcomes are not less informative
        kinds, which = np.unique(np.round(outcomes, 6), axis=0, return_inverse=True)
        p = np.zeros((len(tables), len(kinds)))
        for outcome_p, sums in zip(p, exact, strict=True):
            np.add.at(outcome_p, which.ravel(), np.exp(-np.abs(measured - sums) @ rates))
        return np.log(p) + np.log(np.tanh(rates / 2)).sum()

    @property
    def is_integer(self) -> bool:  # type: ignore[override]
        """Whether the published table is rounded."""
        return self.method not in ("l2", "nonnegative")

    def likelihood_given(self, system: System, y: Array) -> Likelihood | None:
        """Return the probability of the published table y, a sum over its preimage; None if that is not known."""
        preimage = self._preimage(system, y)
        if preimage is None:
            return None
        form, shift = preimage
        radius = 2 * shift.radius + 2  # the shift of a group is at most its largest noise
        return Likelihood(form, radius, shift if shift.sizes.size else None, is_of_release=True)

    def log_weight(self, system: System, y: Array, x: Integers) -> float:
        """Return the log probability of publishing y given the table x."""
        preimage = self._preimage(system, y)
        if preimage is None:
            raise ModelError(self.intractable())
        form, shift = preimage
        return shift.log_sum(form, x)

    def _preimage(self, system: System, y: Array) -> tuple[CensoredNoise, PreimageShift] | None:
        """Return the law of the noisy cells given the integers of the groups; None if their preimage is not known."""
        groups = self._groups(system)
        if groups is None:
            return None
        is_exact = (y > ZERO) | (self.method == "l2")
        is_known = ~system.empty & ((groups < 0) | np.isin(groups, groups[is_exact]))  # not in groups whose sum is 0
        radius = self.measurement.law.widest_half_width(y.size, RARE)
        shift = PreimageShift.of_table(y, groups, is_exact, radius, is_rounded=self.method == "rounded")
        return CensoredNoise(float(self.epsilon), is_exact, is_known & ~is_exact), shift

    def _groups(self, system: System) -> Integers | None:
        """Return the group of each cell (-1: none) if the method projects onto sums of disjoint groups."""
        if self.method == "truncated":
            return np.full(system.frame.size, -1)
        target = FeasibleTables.of(system)
        if self.method == "l2":  # without bounds
            target = FeasibleTables(target.A, target.a, target.B[:0], target.b[:0])
        if self.method not in ("l2", "nonnegative", "rounded") or target.groups is None:
            return None
        return target.groups[0]

    def intractable(self, system: System | None = None) -> str:
        """Return the message that names the tables to infer from."""
        return (
            f"the noisy tables that the method {self.method!r} maps to one table are known only for 'truncated', and "
            "for 'l2', 'nonnegative' and 'rounded' under public sums of disjoint groups without further bounds: use "
            "the noisy table, which is `release.noisy` of a PostProcessedRelease, or publish with a mechanism "
            "without post-processing (ppdinf.GeneralizedLaplace)"
        )

    def _levels(self, frame: Frame) -> Levels:
        """Return the measured groups and the rate of each level; the cells are last."""
        return [(sparse.csr_array(sparse.eye_array(frame.size, dtype=np.int64)), self.epsilon)]

    def _fit(self, system: System, levels: Levels, measured: list[Integers]) -> Array:
        """Post-process noisy sums, one array of shape (draws, m) for each level; shape (draws, d)."""
        (noisy,) = measured
        if self.method == "truncated":
            return np.where(system.empty, 0, np.maximum(noisy, 0))
        if self.method == "l2":
            return onto_sums(noisy, system.A, system.values)
        target = FeasibleTables.of(system)
        if self.method == "nonnegative":
            return np.stack([target.project(y) for y in noisy])
        if self.method == "rounded":
            return np.stack([target.round(target.project(y)) for y in noisy])
        B, b = target.bounds
        return np.stack([nearest_feasible(system.A, system.values, B, b, y, structure=system.structure) for y in noisy])


def _noisy(G: sparse.csr_array, rate: Fraction, cells: Integers, draws: int, stream: BitStream) -> Integers:
    noise = draw_discrete_laplace(rate, draws * G.shape[0], stream)
    return cells @ G.T + noise.reshape(draws, -1)


def _coordinates(public: Public) -> Public:
    """Return the statements about coordinates, labels and the protected unit."""
    names, further = sorted(public.coordinates()), Public(tuple(s for s in public if s.kind in ("labels", "unit")))
    return covariates(*names) & further if names else further
