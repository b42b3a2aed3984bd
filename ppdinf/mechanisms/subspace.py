"""Base class of mechanisms with real-valued noise on the null space of public sums, which agents can add in parts."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from scipy import sparse
from scipy.linalg import null_space

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Array, Integers, Json, Reals, assign, require_choice
from ppdinf.errors import InvariantError, LabelError, PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.invariants.public import bind
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.likelihood import Likelihood, RemovedShift
from ppdinf.laws.noise_norm import NoiseNorm
from ppdinf.mechanism import Mechanism
from ppdinf.mechanisms.counting_queries import Query, answer, counting_query
from ppdinf.mechanisms.input_checks import refuse_undeclared, require_public
from ppdinf.mechanisms.real_noise import Grid, SubspaceNoise, as_grid, log_total_of_norm, real_sampler, unless_noisy
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.noise.primitives.stream import BitStream, keyed_stream
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.release_guarantee import ReleaseGuarantee
from ppdinf.privacy.sensitivity import NEIGHBOURS, Neighbours
from ppdinf.privacy.zcdp import as_delta
from ppdinf.tables.table import TableLike, labelled_cells, reals_of

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
        """
        plan = super().sampler_plan(table, allow_mcmc=allow_mcmc)
        if not shared:
            return plan
        return replace(plan, sampler=f"{KEYED}{plan.sampler}", reason=f"{plan.reason}; known {SHARED}")

    def distributed(self, part: object, labels: object, *, key: bytes, occasion: str) -> xr.DataArray:
        """Add noise to one agent's cells, such that all agents' cells together are one release.

        Agents share a secret key and the labels of the whole table. Each agent draws the noise of all cells and adds
        the noise of the agent's cells. No count leaves an agent without noise, and every public sum over all agents is
        kept (Gao et al., Section 4).

        Everyone who holds the key can subtract the noise of *every* cell. So agents are not protected from each other,
        nor from anyone who obtains the key. Noise that is unknown to all agents requires a cryptographic protocol,
        which this method does not implement.

        Parameters
        ----------
        part : xarray.DataArray of counts
            The agent's cells: for each dimension, a subset of the labels of the whole table. Every other coordinate
            must be declared public (`ppdinf.invariants.covariates`) or dropped.
        labels : xarray.DataArray of counts
            A table with the labels of all agents; its counts are not used and can be zeros.
        key, occasion
            As for `ppdinf.noise.primitives.stream.keyed_stream`: a secret of at least 32 bytes, and a name of this
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

        Examples
        --------
        >>> import numpy as np, ppdinf as ppd
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
            frame.select(dim, part_frame.coords[dim][1].tolist())  # raises for labels that the table does not have
        system = bind(self.public, frame, np.zeros(frame.size, dtype=np.int64))
        plan = self.plan_on(system)
        axes = [pd.Index(frame.coords[dim][1]).get_indexer(pd.Index(part_frame.coords[dim][1])) for dim in frame.dims]
        place = np.ravel_multi_index(np.meshgrid(*axes, indexing="ij"), frame.shape).ravel()
        padded = np.zeros(frame.size, dtype=np.int64)
        padded[place] = cells
        return part_frame.table(self.checked_draw(system, padded, 1, keyed_stream(key, occasion), plan)[0][place])

    def _guarantee_on(self, system: System, public: System, plan: Plan | None) -> Guarantee:
        if plan is None or not plan.sampler.startswith(KEYED):
            return self.guarantee
        return replace(self.guarantee, known=(*self.guarantee.known, SHARED))


RECORDS: dict[str, tuple[str, ...]] = {"added": ()} | dict.fromkeys(
    ["replaced", "swapped"], ("how many records there are",)
)
"""Assumed knowledge if neighbours have the same number of records."""

ROUNDING = 1e-12
"""Relative error of a public sum above which it counts as violated."""


@dataclass(frozen=True, init=False)
class SubspaceMechanism(SharedKey):
    """Real-valued noise on the null space of public sums.

    A subclass states its law in `law`.

    Attributes
    ----------
    epsilon, delta : Fraction
        Between neighbours; delta is 0 for pure guarantees.
    query : tuple of tuple of int, or None
        Rows of W.
    neighbours : {"replaced", "added", "swapped"}
    relations : tuple of str
        Supported neighbours.
    grid : Fraction, "auto" or None
    """

    is_integer: ClassVar[bool] = False
    is_translation_invariant: ClassVar[bool] = True
    relations: ClassVar[tuple[str, ...]] = ("replaced", "added")
    public: Public
    epsilon: Fraction
    delta: Fraction
    query: Query | None
    grid: Grid
    neighbours: Neighbours

    @classmethod
    def _of_file(cls, public: Public, parameters: Json) -> Mechanism:
        return super()._of_file(public, {"grid": None} | parameters)  # files without a grid hold real numbers

    def _set(
        self,
        public: Public,
        epsilon: Parameter,
        delta: Parameter | None,
        query: object,
        neighbours: Neighbours,
        grid: Parameter | None,
    ) -> None:
        require_public(public)
        require_choice("neighbours", neighbours, list(self.relations))
        bound, steps = Fraction(0) if delta is None else as_delta(delta), as_grid(grid, largest=Fraction(1))
        assign(self, public=public, delta=bound, grid=steps, neighbours=neighbours)
        assign(self, epsilon=as_fraction(epsilon, "epsilon"), query=counting_query(query))

    def __getstate__(self) -> Json:
        return {name: value for name, value in vars(self).items() if name != "_found"}  # the law is computed again

    @property
    def queries(self) -> Query | None:
        """Rows of W."""
        return self.query

    @abstractmethod
    def law(self, system: System) -> SubspaceNoise:
        """Return the law of the noise under bound public sums."""

    def _in_multiples(
        self, law: SubspaceNoise, on_lattice: Callable[[], SubspaceNoise], scale: float = 1.0
    ) -> SubspaceNoise:
        """Return noise in multiples of the grid; for "auto" real numbers if no sampler for its lattice is known."""
        if self.grid is None or not scale or not law.dimension:
            return unless_noisy(law, self.grid, scale=scale)
        try:
            return on_lattice()
        except (InvariantError, PrivacyError) as error:
            if self.grid != "auto":
                raise
            cause = f"{str(error)[0].lower()}{str(error)[1:].rstrip('.')}"
            return replace(law, reason=f"{law.reason}; no grid, because {cause}")

    @property
    def guarantee(self) -> Guarantee:
        """Return induced subspace differential privacy (their Definition 2.6)."""
        return Guarantee(
            "subspace",
            self.epsilon,
            delta=self.delta,
            neighbours=NEIGHBOURS[self.neighbours],
            **self.public.open | {"known": (*self.public.known, *RECORDS[self.neighbours])},
        )

    def guarantee_on(self, system: System, plan: Plan | None, public: System | None = None) -> ReleaseGuarantee:
        """Return the guarantee of a release with a description of its noise; see `Mechanism.guarantee_on`."""
        if self.grid == "auto":
            return self.on(system).guarantee_on(system, plan, public)
        return super().guarantee_on(system, plan, public)

    def _sampled(self, plan: Plan | None) -> str:
        return real_sampler(self.grid, plan)

    def to_dict(self) -> Json:
        """Return the kind and parameters, rationals as text; delta is left out for pure guarantees."""
        return {name: value for name, value in super().to_dict().items() if (name, value) != ("delta", "0")}

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Describe how noise is drawn: exactly on its grid, in double precision, or by a chain."""
        law = self._law(system)
        if law.distance is not None and not allow_mcmc:
            raise PrivacyError(f"{law.reason}: allow it with allow_mcmc=True, or choose another mechanism")
        return Plan(law.sampler, law.exact, law.reason, distance=law.distance and law.distance())

    def draw(self, system: System, cells: Integers, draws: int, stream: BitStream, plan: Plan | None = None) -> Reals:
        """Draw noisy answers; float64 of shape (draws, d)."""
        return self._law(system).added(cells, draws, stream)

    def log_weight(self, system: System, y: Array, x: Integers) -> float:
        """Return the log density of the noise ``y - x`` without normalizer; it is the same for every x."""
        return self._law(system).log_density(y - x)

    def logp(self, y: TableLike, x: TableLike) -> float:
        """Return the log density of releasing `y` given the confidential table `x`, without normalizer.

        Parameters
        ----------
        y : table of numbers
            Noisy answers.
        x : table of counts
            Confidential cells, which may be negative.

        Returns
        -------
        float
            ``-inf`` where y and the answers on x differ in a public sum by more than rounding.

        Raises
        ------
        CountError, LabelError, InvariantError
            y is not finite, or has different labels than the answers on x.
        """
        frame, answers = labelled_cells(answer(self.query, x, nonnegative=False), nonnegative=False)
        system, released = bind(self.public, frame, answers), reals_of(y, frame, "the released table").ravel()
        difference = released - answers
        slack = ROUNDING * (abs(system.A) @ (np.abs(released) + np.abs(answers)))
        if np.any(np.abs(system.A @ difference) > slack):
            return -np.inf
        return self._law(system).log_density(difference)

    def on(self, system: System) -> SubspaceMechanism:
        """Compute the law of the noise and its grid, which depend on the public sums of a table."""
        settled = copy(self)
        assign(settled, _system=system)
        if self.grid == "auto":
            law = _law_of(self, system)
            assign(settled, grid=law.grid, _found=law)
        return settled

    def _law(self, system: System) -> SubspaceNoise:
        if getattr(self, "_system", None) is system and hasattr(self, "_found"):
            return self._found
        return _law_of(self, system)

    def likelihood(self, system: System) -> Likelihood | None:
        """Return the law of the noise: per cell if cells are independent, otherwise by the norm of its density."""
        law = self._law(system)
        if law.norm is None:
            return None
        return Likelihood(
            AdditiveLaw(law.norm) if self.query is None and law.norm.factor is not None else law.norm,
            math.ceil(law.reach),
            None if law.shifts is None else RemovedShift(law.shifts),
            query=None if self.query is None else sparse.csr_array(np.array(self.query, dtype=np.int64)),
            records=partial(self._records, system, law.norm) if law.dimension < system.lattice.rank else None,
            constant=partial(log_total_of_norm, law.norm, law.dimension, law.shifts),
        )

    def intractable(self, system: System | None = None) -> str:
        """Return the message that the density is too expensive."""
        reason = "" if system is None else f"{self._law(system).reason}, and "
        return (
            f"{reason}its density requires a linear program for every table: for inference, publish fewer answers, or "
            "use SubspaceGaussian or SubspaceLaplace"
        )

    def _records(self, system: System, norm: NoiseNorm, y: Reals) -> int | None:
        """Return the number of records if the noise keeps it and no public sum states it; otherwise None."""
        kept = null_space(np.vstack([system.A.toarray(), norm.matrix.toarray()]))
        weights = (kept if self.query is None else np.array(self.query).T @ kept)[0]  # equal for all records
        sums, best = kept.T @ y, int(np.argmax(np.abs(weights)))
        counted = abs(weights[best]) > 1e-6
        number = round(float(sums[best] / weights[best])) if counted else 0
        if np.any(np.abs(sums - number * weights) > 1e-6 * max(1.0, float(np.linalg.norm(y)))):
            raise InvariantError(
                "the noise keeps the number of records, but the released table does not correspond to an integer "
                "number of records: it was not released by this mechanism"
            )
        return number if counted else None


@lru_cache(maxsize=4)
def _law_of(mechanism: SubspaceMechanism, system: System) -> SubspaceNoise:
    """Compute the law once: it may require bases, ellipsoids, or all faces of a polytope."""
    return mechanism.law(system)
