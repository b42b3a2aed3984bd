"""The base class of mechanisms that publish tables: release, simulation and inference derive from the law."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf._internal.values import Array, Flags, Integers, Symbolic
from ppdinf.errors import InternalError, PrivacyError
from ppdinf.invariants import System
from ppdinf.invariants.public import bind
from ppdinf.lattice.systems import exact_product
from ppdinf.mechanism import Mechanism, PreparedRelease
from ppdinf.mechanisms.counting_queries import answer
from ppdinf.mechanisms.expected_error import expected_error
from ppdinf.mechanisms.input_checks import refuse_seed, require_draws, validate_input, warn_fixed, warn_leaky_labels
from ppdinf.noise.primitives.stream import BitStream, secure_stream, seeded_stream
from ppdinf.noise.sampler_plan import Plan
from ppdinf.releases.release import Release, bind_released
from ppdinf.tables.frame import Frame
from ppdinf.tables.table import TableLike, labelled_cells, labelled_reals

ROUNDING = 1e-9
"""Relative error of a sum of real numbers above which the sum counts as violated."""
BATCH = 2**20
"""Cells that are checked in one batch."""


def require_kept(system: System, drawn: Array, cells: Integers, *, bounds: bool) -> None:
    """Check that drawn tables have the public sums of the tables that they were drawn for."""
    rows = max(1, BATCH // max(1, system.frame.size))
    for start in range(0, len(drawn), rows):
        y = drawn[start : start + rows]
        z = y - (cells if cells.ndim == 1 else cells[start : start + rows])
        broken = _moved(system, y, z).any(axis=1)
        names = [system.names[row] for row in np.flatnonzero(broken)[:1]]
        if bounds:
            below = (exact_product(system.B, y.T) < system.limits[:, np.newaxis]).any(axis=1)
            names += [system.bound_names[row] for row in np.flatnonzero(below)[:1]]
        if names:
            raise InternalError(
                f"internal error of ppdinf: the noise violates {names[0]!r}, which is public. The table is not the "
                "cause. Nothing was published. Report the version of ppdinf, the mechanism, and the shape of the table"
            )


def _moved(system: System, y: Array, z: Array) -> Flags:
    """Whether a public sum differs between a drawn table and its confidential table; shape (sums, draws)."""
    if z.dtype == np.int64:
        return np.asarray(exact_product(system.A, z.T) != 0)
    return np.asarray(np.abs(system.A @ z.T) > ROUNDING * (1 + abs(system.A) @ np.abs(y.T)))


ANALYST = "ppdinf.models.partially_private"
"""Module that knows PyMC, imported when a mechanism becomes a distribution."""


class TableMechanism(Mechanism):
    """Tables drawn near a confidential table, with the same public sums.

    A subclass states its law in `likelihood`, and its sampler in `plan_on` and `draw`. Release, simulation, density,
    file format and inference derive from these methods.
    """

    def on(self, system: System) -> TableMechanism:
        """Return the mechanism with all parameters that depend on a table's public sums; never on its counts."""
        return self

    def has_public_noise_law(self, table: TableLike) -> bool:
        """Whether the noise has the same law for all tables with the public sums of `table`."""
        return self.is_translation_invariant

    @abstractmethod
    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Choose the sampler for a bound system."""

    @abstractmethod
    def draw(self, system: System, cells: Integers, draws: int, stream: BitStream, plan: Plan | None = None) -> Array:
        """Draw releases of a table from random bits; int64 of shape (draws, d)."""

    def checked_draw(
        self, system: System, cells: Integers, draws: int, stream: BitStream, plan: Plan | None = None
    ) -> Array:
        """Draw as `draw` does, and check that every draw satisfies the public sums and bounds.

        Raises
        ------
        InternalError
            A draw violates a public sum or bound.
        """
        drawn = self.draw(system, cells, draws, stream, plan)
        require_kept(system, drawn, cells, bounds=self.keeps_bounds)
        return drawn

    def before_postprocessing(self, table: Array) -> Array:
        """Return the noisy cells of a released table, which have the law of `likelihood`."""
        return table

    def log_weight(self, system: System, y: Integers, x: Integers) -> float:
        """Return the log density of releasing y given the table x, up to a constant; x and y share all sums.

        Raises
        ------
        ModelError
            The density is not known.
        """
        likelihood = self.require_likelihood(system, y)
        return float(likelihood.log_table(y, x)) + likelihood.log_of_table(x)

    def log_constant(self, system: System) -> float | None:
        """Return the log of the total of the densities `log_weight` of all releases; None if it is not known."""
        likelihood = self.likelihood(system)
        return 0.0 if likelihood is None else likelihood.constant()

    def log_unnormalised(self, system: System, y: Integers, x: Integers) -> float:
        """Return the log density as `log_weight`, up to any function of x, to compare releases of one table."""
        return self.log_weight(system, y, x)

    def sampler_plan(self, table: TableLike, *, allow_mcmc: bool = False) -> Plan:
        """Describe the sampler that would draw the noise for `table`, and the reason for this choice.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of counts
        allow_mcmc : bool
            As in `release`.
        """
        system = self.public.on(answer(self.queries, table))
        return self.on(system).plan_on(system, allow_mcmc=allow_mcmc)

    def expected_error(
        self, table: TableLike | Mapping[str, int], *, sizes: Sequence[int] = (10, 100, 1000), gaps: Sequence[int] = ()
    ) -> pd.DataFrame:
        """Tabulate the error of released cells before any privacy is spent, from the noise distribution alone.

        Parameters
        ----------
        table : table, tuple of int, or dict
            Only labels and public statements are used, not counts. A shape, or sizes by dimension, suffices where
            the statements need no labels. If the mechanism answers a query: the table of the answers.
        sizes : sequence of int
            Counts for which to state the coefficient of variation.
        gaps : sequence of int
            Distances for which to state the probability that noise reverses an order; see `ppdinf.plan`.

        Returns
        -------
        pandas.DataFrame
            One row per kind of cell, by the public sums that contain the cell. ``cells``: number of cells; ``sd`` of
            the noise, in persons; ``support_radius`` that contains 90 % of the noise; ``cv_10`` and so on: standard
            deviation divided by the count; ``across_5``: probability that a count at distance 5 from a limit is
            released beyond the limit; ``swap_5``: probability that two cells of this kind, 5 apart, are released in
            reversed order; ``exact``: computed, or estimated from simulated draws (accurate to about 2 %).

        Raises
        ------
        PrivacyError
            The error depends on the counts, as for mechanisms with bounds, base measures or post-processing.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4")
        >>> mechanism.expected_error((67,)).round(2).T
        noise of cells in a public sum of 67 cells
        cells                                   67
        sd                                    5.54
        support_radius                             9.0
        cv_10                                 0.55
        cv_100                                0.06
        cv_1000                               0.01
        exact                                 True
        """
        return expected_error(self, table, sizes, gaps)

    def release(self, table: TableLike, *, allow_mcmc: bool = False, **seed: object) -> Release:
        """Publish a table: draw noise from the operating system's secure source and add it.

        The method has no seed: noise that can be repeated can be subtracted.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of counts
            Confidential. Every coordinate other than the labels of the dimensions must be declared
            public (`ppdinf.invariants.covariates`) or dropped.
        allow_mcmc : bool
            Fall back to a Markov chain where no exact sampler applies. Its measured distance from the law enters the
            guarantee, and its generator is seeded with 256 secure bits instead of reading a secure bit stream.

        Returns
        -------
        Release
            Every public sum equals that of `table`; cells can be negative.

        Raises
        ------
        CountError, LabelError, InvariantError
            The table is not a valid table of counts, or violates a declared bound or structural zero.
        PrivacyError
            Further arguments are passed, such as a seed.
        InternalError
            The noise violates a public sum: a bug in ppdinf. Nothing is published, and a session spends nothing.

        Warns
        -----
        PrivacyWarning
            The public sums fix cells that are not structural zeros: their exact counts are published. The labels are
            in the order of their counts, which is published. A coordinate is proportional to the counts.
        """
        refuse_seed(seed, "simulate(table, draws=..., rng=...)")
        return self.draft(table, allow_mcmc=allow_mcmc).draw()

    def draft(self, table: TableLike, *, allow_mcmc: bool = False) -> PreparedRelease:
        """Validate a table and plan its release without drawing; parameters and errors as in `release`."""
        answers = answer(self.queries, table)
        return self._drafted(*validate_input(self.public, answers), allow_mcmc=allow_mcmc)

    def _drafted(self, frame: Frame, cells: Integers, *, allow_mcmc: bool = False) -> PreparedRelease:
        """Plan the release of a validated table."""
        system = bind(self.public, frame, cells)
        system.require_cells(cells)
        mechanism = self.on(system)
        plan = mechanism.plan_on(system, allow_mcmc=allow_mcmc)
        warn_fixed(system)
        warn_leaky_labels(frame, cells, self.public)

        def draw() -> Release:
            released = mechanism.checked_draw(system, cells, 1, secure_stream(), plan)[0]
            return Release.of_draw(frame, released, mechanism, system, plan)

        return PreparedRelease(mechanism, system, plan, draw)

    def simulate(
        self, table: TableLike, *, draws: int, rng: int | np.random.Generator | None = None, allow_mcmc: bool = False
    ) -> xr.DataArray:
        """Draw many noisy versions of a table, or of the answers to queries, for research; never publish them.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of counts
        draws : int
            At least 1.
        rng : int or numpy.random.Generator, optional
            Draws use the same algorithm as `release`, with a repeatable bit stream. A generator is spawned, so that
            two calls with the same generator differ.
        allow_mcmc : bool
            As in `release`.

        Returns
        -------
        xarray.DataArray of int64, or float64 for real noise
            The dimension ``draw``, then those of the table or of the answers.

        Raises
        ------
        CountError, LabelError, InvariantError
            As for `release`, but coordinates need not be declared.
        PrivacyError
            `draws` is not a positive integer, or memory cannot hold as many tables.
        InternalError
            The noise violates a public sum: a bug in ppdinf.
        """
        frame, cells = labelled_cells(answer(self.queries, table))
        draws = require_draws(draws, frame.size)
        system = bind(self.public, frame, cells)
        system.require_cells(cells)
        mechanism = self.on(system)
        plan = mechanism.plan_on(system, allow_mcmc=allow_mcmc)
        generator = rng.spawn(1)[0] if isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
        try:
            drawn = mechanism.checked_draw(system, cells, draws, seeded_stream(generator), plan)
        except MemoryError:
            raise PrivacyError(f"memory cannot hold draws={draws:,} tables: simulate fewer at a time") from None
        return frame.table(drawn)

    def dist(self, table: TableLike, labels: object = None) -> Symbolic:
        """Return the release of a table that is itself a random variable, as an unnamed PyMC distribution.

        Use it in generative models: draws from the prior predictive distribution are releases, and the published table
        is observed. `ppdinf.models.Released` adds a named release to a model. Given an observed release, `pm.sample`
        samples the table by `ppdinf.samplers.lattice_gibbs.LatticeGibbs`. Where the table can be marginalized,
        `ppdinf.PartiallyPrivate` states the same posterior for NUTS alone.

        Parameters
        ----------
        table : TensorVariable of integers
            The confidential table: ``pm.Poisson("cases", rate, dims="county")``, ``pm.Multinomial``, any expression.
        labels : mapping of str to sequence, or a table, optional
            Labels for the mechanism's public statements; by default the dimensions of the variable in its model.

        Returns
        -------
        TensorVariable
            Forward draws are exact, with a seed. Its log density is that of the release given the table, normalized
            as `logp`; ``-inf`` where a sum differs.

        Raises
        ------
        LabelError, InvariantError
            Labels that do not fit the table or the public statements.
        ModelError
            The mechanism answers queries instead of releasing the cells.

        Examples
        --------
        >>> import pymc as pm, ppdinf as ppd
        >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4")
        >>> release = mechanism.dist(pm.Multinomial.dist(40, [0.2, 0.3, 0.5]))
        >>> int(pm.draw(release, random_seed=1).sum())
        40
        """
        return importlib.import_module(ANALYST).mechanism_dist(self, table, labels)

    def logp(self, y: TableLike, x: TableLike) -> float:
        """Return the log density of releasing `y` given the confidential table `x`.

        The density is normalized, except if the public sums cross and noise under them cannot be summed in about a
        second (`ppdinf.noise.log_total`). Then a constant is missing, which is the same for all tables, and densities
        of different laws of noise must not be compared.

        Parameters
        ----------
        y, x : tables with the same labels
            Both can hold negative cells: bounds do not enter the density of noise that is independent of the table.

        Returns
        -------
        float
            ``-inf`` where `x` and `y` differ in a public sum.
        """
        frame, released = labelled_cells(y, nonnegative=False) if self.is_integer else labelled_reals(y)
        system = bind_released(self.public, frame, released)
        cells = system.cells(x)
        if _moved(system, released[np.newaxis], (released - cells)[np.newaxis]).any():
            return -np.inf
        settled = self.on(system)
        log_weight = settled.log_weight(system, released, cells)  # type: ignore[arg-type]  # real for some mechanisms
        return log_weight - (settled.log_constant(system) or 0.0)
