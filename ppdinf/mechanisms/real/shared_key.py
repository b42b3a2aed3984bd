"""Noise of agents who each hold some cells of a table and share a secret key: all parts together are one release.

Every agent draws the noise of the whole table from the key, and adds that of its own cells.

References
----------
J. Gao, R. Gong, F.-Y. Yu, "Subspace differential privacy", AAAI 2022, Section 4, "distributed privatization".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr

from ppdinf.errors import LabelError, PrivacyError
from ppdinf.invariants import System
from ppdinf.invariants.system import bind
from ppdinf.mechanisms.counting_queries import Query, answer
from ppdinf.mechanisms.input_checks import refuse_undeclared
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.noise.primitives.keyed import keyed_tape
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantees.guarantee import Guarantee
from ppdinf.tables.table import TableLike, labelled_cells

__all__ = ["SharedKey"]

SHARED = "to whoever holds the key that agents share, the noise of every cell"
KEYED = "shared key, "
"""How plans of agents who share a key begin."""


class SharedKey(TableMechanism):
    """Mechanisms whose noise agents can add in parts.

    Attributes
    ----------
    query : tuple of tuple of int, or None
        Rows of W, where answers to queries are published; no agent can answer these alone.
    """

    query: Query | None

    def sampler_plan(self, table: TableLike, *, allow_mcmc: bool = False, shared: bool = False) -> Plan:
        """Say how the noise for `table` would be drawn, and why; see `TableMechanism.plan`.

        With `shared`, by agents who share a key (`distributed`): a release put together from their parts is
        ``Release(parts, mechanism, plan=mechanism.sampler_plan(labels, shared=True))``, whose guarantee says what a
        key tells.
        """
        found = super().sampler_plan(answer(self.query, table), allow_mcmc=allow_mcmc)
        if not shared:
            return found
        return replace(found, sampler=f"{KEYED}{found.sampler}", reason=f"{found.reason}; known {SHARED}")

    def distributed(self, part: object, labels: object, *, key: bytes, occasion: str) -> xr.DataArray:
        """Add noise to one agent's cells, such that all agents' cells together are one release.

        Agents share a secret key and the labels of the whole table. Each draws the noise of all cells and adds
        that of its own; no count leaves an agent without noise, and every public sum over all agents is kept.

        Everyone who holds the key can take the noise off *every* cell, those of other agents included: towards each
        other, and towards whoever learns the key from one of them, agents are protected by nothing. Noise
        that none of them knows takes a protocol in which none of them draws it, which this is not.

        Parameters
        ----------
        part : xarray.DataArray of counts
            The agent's cells: for each dimension, some labels of the whole table. Every coordinate beside these must
            be declared public (`ppdinf.invariants.covariates`) or dropped.
        labels : xarray.DataArray of counts
            A table with the labels of all agents; its counts are not looked at and can be zeros.
        key, occasion
            As for `ppdinf.noise.primitives.keyed.keyed_tape`: a secret of at least 32 bytes, and a name of this release
            that no other one with this key has.

        Returns
        -------
        xarray.DataArray of float64, as `part`
            To be put together, see `plan` with `shared`. Agents on unlike machines may, once in many millions of
            draws, settle a comparison differently, and hence draw different noise.

        Raises
        ------
        LabelError
            The part has dimensions or labels that the whole table has not, or coordinates that nothing declares
            public.
        PrivacyError
            The mechanism answers queries, which no agent can answer alone; a key that is too short.

        References
        ----------
        Gao et al., Section 4, "distributed privatization".

        Examples
        --------
        >>> import ppdinf as ppd
        >>> whole = ppd.as_table(np.array([30, 4, 12, 7]), dims=["county"])
        >>> mechanism = ppd.SubspaceGaussian(ppd.invariants.total(), epsilon=1, delta="1e-6")
        >>> shared = {"key": bytes(range(32)), "occasion": "2024-Q1"}
        >>> parts = [mechanism.distributed(part, 0 * whole, **shared) for part in (whole[:1], whole[1:])]
        >>> float(parts[0].sum() + parts[1].sum())
        53.0
        """
        if self.query is not None:
            raise PrivacyError("agents add noise to cells of their own: give no query")
        frame, _ = labelled_cells(labels)
        own, cells = labelled_cells(part)
        refuse_undeclared(own, self.public)
        if own.dims != frame.dims:
            raise LabelError(f"the part has dimensions {own.dims}, the whole table {frame.dims}: transpose it first")
        for dim, whole, n in zip(frame.dims, frame.shape, own.shape, strict=True):
            if n < whole and dim not in getattr(part, "coords", {}):
                raise LabelError(f"the part has no labels along {dim!r}: it must say which cells of the whole it holds")
            frame.select(dim, own.coords[dim][1].tolist())  # refuses labels that the whole table has not
        system = bind(self.public, frame, np.zeros(frame.size, dtype=np.int64))
        plan = self.plan_on(system)
        known = [{label: k for k, label in enumerate(frame.coords[dim][1].tolist())} for dim in frame.dims]
        axes = [
            [places[label] for label in own.coords[dim][1].tolist()]
            for dim, places in zip(own.dims, known, strict=True)
        ]
        place = np.ravel_multi_index(np.meshgrid(*axes, indexing="ij"), frame.shape).ravel()
        padded = np.zeros(frame.size, dtype=np.int64)
        padded[place] = cells
        return own.table(self.checked_draw(system, padded, 1, keyed_tape(key, occasion), plan)[0][place])

    def _promise_on(self, system: System, public: System, plan: Plan | None) -> Guarantee:
        if plan is None or not plan.sampler.startswith(KEYED):
            return self.guarantee
        return replace(self.guarantee, known=(*self.guarantee.known, SHARED))
