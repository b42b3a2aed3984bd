"""Noise of agents who hold parts of a table and share a secret key.

Every agent draws the noise of the whole table from the key, and adds the noise of the agent's cells. All parts together
are one release.

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
from ppdinf.noise.primitives.keyed import keyed_stream
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantees.guarantee import Guarantee
from ppdinf.tables.table import TableLike, labelled_cells

SHARED = "to everyone who holds the key that agents share, the noise of every cell"
KEYED = "shared key, "
"""Prefix of the sampler names in plans of agents who share a key."""


class SharedKey(TableMechanism):
    """Mechanisms whose noise can be added by agents in parts.

    Attributes
    ----------
    query : tuple of tuple of int, or None
        Rows of W, if answers to queries are published; no single agent can compute these answers.
    """

    query: Query | None

    def sampler_plan(self, table: TableLike, *, allow_mcmc: bool = False, shared: bool = False) -> Plan:
        """Describe the sampler for `table`, and the reason for this choice.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of counts
        allow_mcmc : bool
            As in `release`.
        shared : bool
            For agents who share a key (`distributed`). A release assembled from their parts is
            ``Release(parts, mechanism, plan=mechanism.sampler_plan(labels, shared=True))``; its guarantee states the
            consequences of the key.

        Returns
        -------
        Plan
        """
        plan = super().sampler_plan(answer(self.query, table), allow_mcmc=allow_mcmc)
        if not shared:
            return plan
        return replace(plan, sampler=f"{KEYED}{plan.sampler}", reason=f"{plan.reason}; known {SHARED}")

    def distributed(self, part: object, labels: object, *, key: bytes, occasion: str) -> xr.DataArray:
        """Add noise to one agent's cells, such that all agents' cells together are one release.

        Agents share a secret key and the labels of the whole table. Each agent draws the noise of all cells and adds
        the noise of the agent's cells. No count leaves an agent without noise, and every public sum over all agents is
        kept.

        Everyone who holds the key can subtract the noise of *every* cell, including the cells of other agents. So
        agents are not protected from each other, nor from anyone who obtains the key. Noise that is unknown to all
        agents requires a cryptographic protocol, which this method does not implement.

        Parameters
        ----------
        part : xarray.DataArray of counts
            The agent's cells: for each dimension, a subset of the labels of the whole table. Every other coordinate
            must be declared public (`ppdinf.invariants.covariates`) or dropped.
        labels : xarray.DataArray of counts
            A table with the labels of all agents; its counts are not used and can be zeros.
        key, occasion
            As for `ppdinf.noise.primitives.keyed.keyed_stream`: a secret of at least 32 bytes, and a name of this
            release that is unique for the key.

        Returns
        -------
        xarray.DataArray of float64, as `part`
            Parts to be assembled, see `sampler_plan` with `shared`. On different types of machines a comparison may
            have a different result, once in many millions of draws, and then the noise of the agents differs.

        Raises
        ------
        LabelError
            The part has dimensions or labels that the whole table does not have, or undeclared coordinates.
        PrivacyError
            The mechanism answers queries, which no single agent can compute; or the key is too short.

        References
        ----------
        Gao et al., Section 4, "distributed privatization".

        Examples
        --------
        >>> import numpy as np
        >>> import ppdinf as ppd
        >>> whole = ppd.as_table(np.array([30, 4, 12, 7]), dims=["county"])
        >>> mechanism = ppd.SubspaceGaussian(ppd.invariants.total(), epsilon=1, delta="1e-6")
        >>> shared = {"key": bytes(range(32)), "occasion": "2024-Q1"}
        >>> parts = [mechanism.distributed(part, 0 * whole, **shared) for part in (whole[:1], whole[1:])]
        >>> float(parts[0].sum() + parts[1].sum())
        53.0
        """
        if self.query is not None:
            raise PrivacyError("agents add noise to their cells, not to answers: give no query")
        frame, _ = labelled_cells(labels)
        part_frame, cells = labelled_cells(part)
        refuse_undeclared(part_frame, self.public)
        frame.check_dims(part_frame, "the part")
        for dim, size, n in zip(frame.dims, frame.shape, part_frame.shape, strict=True):
            if n < size and dim not in getattr(part, "coords", {}):
                raise LabelError(f"the part has no labels along {dim!r}: labels must identify its cells")
            frame.select(
                dim, part_frame.coords[dim][1].tolist()
            )  # raises for labels that the whole table does not have
        system = bind(self.public, frame, np.zeros(frame.size, dtype=np.int64))
        plan = self.plan_on(system)
        known = [{label: k for k, label in enumerate(frame.coords[dim][1].tolist())} for dim in frame.dims]
        axes = [
            [places[label] for label in part_frame.coords[dim][1].tolist()]
            for dim, places in zip(part_frame.dims, known, strict=True)
        ]
        place = np.ravel_multi_index(np.meshgrid(*axes, indexing="ij"), frame.shape).ravel()
        padded = np.zeros(frame.size, dtype=np.int64)
        padded[place] = cells
        return part_frame.table(self.checked_draw(system, padded, 1, keyed_stream(key, occasion), plan)[0][place])

    def _guarantee_on(self, system: System, public: System, plan: Plan | None) -> Guarantee:
        if plan is None or not plan.sampler.startswith(KEYED):
            return self.guarantee
        return replace(self.guarantee, known=(*self.guarantee.known, SHARED))
