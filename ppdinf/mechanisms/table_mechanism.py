"""Mechanisms that publish tables: a law stated once, from which release, simulation and inference derive."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from ppdinf._internal.types import Array, Symbolic
from ppdinf.invariants import System
from ppdinf.invariants.system import bind
from ppdinf.lattice.algebra.systems import exact_product
from ppdinf.mechanisms.expected_error import expected_error
from ppdinf.mechanisms.input_checks import refuse_seed, require_draws, validate_input, warn_fixed, warn_leaky_labels
from ppdinf.mechanisms.kept_sums import require_kept
from ppdinf.noise.primitives.stream import BitStream, secure_stream, seeded_stream
from ppdinf.noise.sampler_plan import Plan
from ppdinf.releases.mechanism import Mechanism
from ppdinf.releases.prepared_release import PreparedRelease
from ppdinf.releases.release import Release
from ppdinf.tables.frame import Frame
from ppdinf.tables.table import TableLike, labelled_cells

__all__ = ["TableMechanism"]

ANALYST = "ppdinf.models.released_table"
"""Room above this one that knows PyMC, loaded when a mechanism is to be a distribution."""


class TableMechanism(Mechanism):
    """Tables drawn near a confidential one, with all of its public sums.

    A subclass states its law in `likelihood`, and says how to draw from it in `plan_on` and `draw`. Release,
    simulation, density, file format and inference derive from these.
    """

    def on(self, system: System) -> TableMechanism:
        """Settle whatever the mechanism leaves open until it meets a table's public sums; never its counts."""
        return self

    def has_public_noise_law(self, table: TableLike) -> bool:
        """Whether the noise has the same law for all tables with the public sums of `table`."""
        return self.is_translation_invariant

    @abstractmethod
    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Choose the sampler for a bound system."""

    @abstractmethod
    def draw(
        self, system: System, cells: NDArray[np.int64], draws: int, stream: BitStream, plan: Plan | None = None
    ) -> NDArray[np.int64]:
        """Draw releases of a table from uniform 64-bit words; int64 of shape (draws, d)."""

    def checked_draw(
        self, system: System, cells: NDArray[np.int64], draws: int, stream: BitStream, plan: Plan | None = None
    ) -> Array:
        """Draw as `draw` does, and check that every draw keeps what is public.

        Raises
        ------
        InternalError
            A draw breaks a public sum or bound.
        """
        drawn = self.draw(system, cells, draws, stream, plan)
        require_kept(system, drawn, cells, bounds=self.keeps_bounds)
        return drawn

    def log_weight(self, system: System, y: NDArray[np.int64], x: NDArray[np.int64]) -> float:
        """Log density of releasing y when the table is x, up to what is the same for every x; they share all sums.

        Raises
        ------
        ModelError
            It is not known.
        """
        likelihood = self.require_likelihood(system)
        return float(likelihood.log_table(y, x)) + likelihood.log_of_table(x)

    def log_unnormalised(self, system: System, y: NDArray[np.int64], x: NDArray[np.int64]) -> float:
        """Log density as `log_weight`, up to any function of x; for comparisons of releases of one table."""
        return self.log_weight(system, y, x)

    def sampler_plan(self, table: TableLike, *, allow_mcmc: bool = False) -> Plan:
        """Say how the noise for `table` would be drawn, and why.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of counts
        allow_mcmc : bool
            As in `release`.

        Returns
        -------
        Plan
        """
        system = self.public.on(table)
        return self.on(system).plan_on(system, allow_mcmc=allow_mcmc)

    def expected_error(
        self, table: TableLike | Mapping[str, int], *, sizes: Sequence[int] = (10, 100, 1000), gaps: Sequence[int] = ()
    ) -> pd.DataFrame:
        """Tabulate how far released cells will be off, before any privacy is spent: from the law of the noise alone.

        Parameters
        ----------
        table : table, tuple of int, or dict
            Labels and public statements are looked at, counts are not; a shape, or sizes by dimension, will do where
            the statements need no labels. Of the cells, where the mechanism answers a query.
        sizes : sequence of int
            Counts for which to state the coefficient of variation.
        gaps : sequence of int
            Distances for which to state how probably noise turns an order around; see `ppdinf.plan`.

        Returns
        -------
        pandas.DataFrame
            One row per kind of cell, by the public sums that it is in: how many ``cells``; ``sd`` of the noise, in
            persons; ``support_radius`` that 90 % of the noise stays within; ``cv_10`` and so on, sd over count;
            ``across_5``: probability that a count 5 away from a limit is released beyond it; ``swap_5``: that two cells
            of this kind, 5 apart, are released in the other order; ``exact``: computed, or read off simulated draws
            (right to about 2 %).

        Raises
        ------
        PrivacyError
            The error depends on the counts, as it does with bounds, base measures or post-processing.

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

        Takes no seed: noise that can be drawn again can be subtracted again.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of counts
            Confidential. Every coordinate beside the labels of its dimensions must be declared
            public (`ppdinf.invariants.covariates`) or dropped.
        allow_mcmc : bool
            Fall back to a Markov chain where no exact sampler serves. Its measured distance from the law enters
            the guarantee, and its generator is seeded with 256 secure bits instead of reading secure words.

        Returns
        -------
        Release
            Every public sum equals that of `table`; cells can be negative.

        Raises
        ------
        CountError, LabelError, InvariantError
            The table cannot be taken as it is, or breaks a declared bound or structural zero.
        PrivacyError
            Anything is passed beside the table: there is no seed to set.
        InternalError
            The noise breaks a public sum: a fault of ppdinf. Nothing is published, and a session spends nothing.

        Warns
        -----
        PrivacyWarning
            The public sums fix cells that are no structural zeros: they are published as they are. The labels come
            in the order of their counts, which is published with them. A coordinate is the counts over again.
        """
        refuse_seed(seed, "simulate(table, draws=..., rng=...)")
        made: Release = self.draft(table, allow_mcmc=allow_mcmc).draw()
        return made

    def draft(self, table: TableLike, *, allow_mcmc: bool = False) -> PreparedRelease:
        """Check and plan a release, and draw nothing: `release` up to the noise, with its parameters and errors."""
        return self._drafted(*validate_input(self.public, table), allow_mcmc=allow_mcmc)

    def _drafted(self, frame: Frame, cells: NDArray[np.int64], *, allow_mcmc: bool = False) -> PreparedRelease:
        """Plan the release of a table that was checked at the border."""
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
        """Draw many noisy versions of a table for research; never publish one.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of counts
        draws : int
            At least 1.
        rng : int or numpy.random.Generator, optional
            The same algorithm as `release`, on a stream that can be repeated. A generator is spawned from,
            so that two calls with the same one differ.
        allow_mcmc : bool
            As in `release`.

        Returns
        -------
        xarray.DataArray of int64, dimensions ``("draw", *table.dims)``

        Raises
        ------
        CountError, LabelError, InvariantError
            As `release`, but coordinates need not be declared.
        PrivacyError
            `draws` is not a positive whole number.
        InternalError
            The noise breaks a public sum: a fault of ppdinf.
        """
        draws = require_draws(draws)
        frame, cells = labelled_cells(table)
        system = bind(self.public, frame, cells)
        system.require_cells(cells)
        mechanism = self.on(system)
        plan = mechanism.plan_on(system, allow_mcmc=allow_mcmc)
        generator = rng.spawn(1)[0] if isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
        return frame.table(mechanism.checked_draw(system, cells, draws, seeded_stream(generator), plan))

    def dist(self, table: TableLike, labels: object = None) -> Symbolic:
        """State the release of a table that is itself a variable, as an unnamed PyMC distribution.

        For models written generatively: draws of the prior predictive are releases, and what was published is observed.
        `ppdinf.models.Released` gives it a name in a model.

        Parameters
        ----------
        table : TensorVariable of integers
            The confidential table: ``pm.Poisson("cases", rate, dims="county")``, ``pm.Multinomial``, any expression.
        labels : mapping of str to sequence, or a table, optional
            What the mechanism's public sums speak of; by default the dimensions that the variable has in its model.

        Returns
        -------
        TensorVariable
            Forward draws are exact, with a seed. Its log density is that of the release given the table, up to what is
            the same for all tables with the same public sums; ``-inf`` where the two differ in a sum.

        Raises
        ------
        LabelError, InvariantError
            Labels that do not fit the table or the public statements.
        ModelError
            The mechanism answers queries instead of releasing the cells.

        Notes
        -----
        Given an observed release, `pm.sample` walks the table by `ppdinf.samplers.lattice_gibbs.LatticeGibbs`. Where
        the table can be summed out, `ppdinf.PartiallyPrivate` states the same posterior for NUTS alone.

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
        """Log density of releasing `y` when the confidential table is `x`, up to what is the same for every x.

        Differences between tables are exact.

        Parameters
        ----------
        y, x : tables with the same labels
            Both can hold negative cells: bounds do not enter the law of noise that does not depend on the table.

        Returns
        -------
        float
            ``-inf`` where `x` and `y` differ in a public sum.
        """
        frame, released = labelled_cells(y, nonnegative=False)
        system = bind(self.public, frame, released)
        cells = system.cells(x)
        if np.any(exact_product(system.A, released - cells)):
            return -np.inf
        return self.on(system).log_weight(system, released, cells)
