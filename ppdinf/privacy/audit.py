"""Audits by enumeration: the privacy loss of a mechanism for all pairs of tables and all releases.

No sampling is involved: probabilities are computed from the density that inference uses, summed over all releases. An
audit does not test samplers; separate tests compare draws with the density.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ppdinf._internal.rationals import Parameter
from ppdinf._internal.values import Integers, Reals
from ppdinf.errors import InvariantError
from ppdinf.invariants import Public, System
from ppdinf.invariants.public import bind
from ppdinf.lattice.fiber_tables import fiber_tables
from ppdinf.privacy.guarantee import Guarantee

NEGLIGIBLE = 1e-10


class Audited(Protocol):
    """Required interface of a mechanism on integer tables; a post-processed mechanism also needs ``push``."""

    public: Public
    keeps_bounds: bool

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of one release."""

    def on(self, system: System) -> Any:
        """Return the mechanism with other public statements."""


@dataclass(frozen=True, eq=False)
class Audit:
    """Losses between all pairs of tables of a fiber.

    Attributes
    ----------
    tables : ndarray of int64, shape (n, d)
    log_p : ndarray of float64, shape (n, m)
        Log probability of every release given every table; for post-processed noise, jointly with noise within reach.
    loss : ndarray of float64, shape (n, n)
        Largest log ratio of probabilities, over all releases.

    See Also
    --------
    ppdinf.privacy.audit

    Examples
    --------
    >>> import ppdinf as ppd
    >>> public = ppd.invariants.total() & ppd.invariants.nonnegative()
    >>> found = ppd.privacy.audit(ppd.GeneralizedLaplace(public, epsilon=1), public.on([1, 1]))
    >>> found.tables.tolist(), found.loss.round(6).tolist()
    ([[0, 2], [1, 1], [2, 0]], [[0.0, 2.0, 4.0], [2.0, 0.0, 2.0], [4.0, 2.0, 0.0]])
    """

    tables: Integers
    log_p: Reals
    loss: Reals

    def distances(self, metric: str) -> Reals:
        """Return distances between all pairs of tables, shape (n, n)."""
        differences = self.tables[:, np.newaxis] - self.tables
        return np.linalg.norm(differences, ord={"l1": 1, "l2": 2}[metric], axis=2)

    def delta(self, epsilon: Parameter) -> Reals:
        """Return the smallest delta for each pair at losses `epsilon`, a number or an array of shape (n, n)."""
        p, limits = np.exp(self.log_p), np.broadcast_to(np.asarray(epsilon, dtype=np.float64), self.loss.shape)
        return np.array(
            [[np.maximum(p[i] - np.exp(limits[i, j]) * p[j], 0).sum() for j in range(len(p))] for i in range(len(p))]
        )

    def renyi(self, order: float) -> Reals:
        """Return Renyi divergences of an order above 1 between all pairs, shape (n, n)."""
        moments = [
            np.logaddexp.reduce(order * log_p_of_table + (1 - order) * self.log_p, axis=1)
            for log_p_of_table in self.log_p
        ]
        return np.array(moments) / (order - 1)


def audit(mechanism: Audited, system: System, *, reach: int | None = None) -> Audit:
    """Enumerate all tables that satisfy the public statements, all releases of each table, and their losses.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism on integer tables.
    system : System
        Public sums with their values, and bounds that leave few tables: at least the statements that the mechanism
        publishes and imposes.
    reach : int, optional
        If the noise is unbounded, releases up to this distance outside the range of the tables are enumerated; by
        default up to the distance where a cell's noise has weight 1e-10. For post-processed noise, measurements up to
        this distance, by default 2. The outcome together with the event that noise is within reach is also a
        post-processing, so the guarantee holds for these outcomes.

    Raises
    ------
    InvariantError
        There are more than 200 tables or 200,000 releases, or tables with different exactly published sums.

    See Also
    --------
    ppdinf.privacy.Audit, ppdinf.identified_bounds, ppdinf.Suppression

    Examples
    --------
    >>> from ppdinf.privacy import audit
    >>> import ppdinf as ppd
    >>> public = ppd.invariants.total() & ppd.invariants.nonnegative()
    >>> mechanism = ppd.GeneralizedLaplace(public, epsilon=1)
    >>> result = audit(mechanism, public.on([2, 1]))
    >>> distances = result.distances("l1")
    >>> bool((result.loss <= distances + 1e-9).all()), bool((result.loss <= distances / 2).all())
    (True, False)
    """
    tables = fiber_tables(system.A, system.values, system.B, system.limits, most=200)
    if tables is None:
        raise InvariantError("more than 200 tables have this public information: audit a smaller table")
    # further public statements do not enter the law
    kept = system if system.public == mechanism.public else bind(mechanism.public, system.frame, tables[0])
    for x in tables:
        kept.require_cells(x)
    settled = mechanism.on(kept)
    if (push := getattr(settled, "push", None)) is not None:
        return _audited(tables, push(kept, tables, 2 if reach is None else reach))
    releases = None
    if settled.keeps_bounds:
        releases = fiber_tables(kept.A, kept.values, kept.B, kept.limits, most=200_000)
    if releases is None:  # noise has the complete lattice as support
        if reach is None:
            # l2 noise has no weights of single cells, but its density decreases with the distance at the rate epsilon
            k, likelihood = np.arange(10_000), settled.require_likelihood(kept)
            by_cell = likelihood.is_fixed_by_cell
            fall = -likelihood.form.log_weight(k, 0 * k) if by_cell else k * float(settled.guarantee.loss(1))
            reach = int(np.argmax(fall > -np.log(NEGLIGIBLE))) or k.size
        eye = np.eye(tables.shape[1], dtype=np.int64)
        limits = np.concatenate([tables.min(axis=0) - reach, -tables.max(axis=0) - reach])
        releases = fiber_tables(kept.A, kept.values, np.vstack([eye, -eye]), limits, most=200_000)
    if releases is None:
        raise InvariantError("noise reaches more than 200,000 releases: audit a smaller table, or pass reach")
    log_w = np.array([[settled.log_unnormalised(kept, y, x) for y in releases] for x in tables])
    return _audited(tables, log_w - np.logaddexp.reduce(log_w, axis=1)[:, np.newaxis])


def _audited(tables: Integers, log_p: Reals) -> Audit:
    # a release that is impossible given the first table of a pair does not enter the loss
    possible_given = log_p > -np.inf
    loss = np.array(
        [
            np.max(log_p_of_table[possible] - log_p[:, possible], axis=1)
            for log_p_of_table, possible in zip(log_p, possible_given, strict=True)
        ]
    )
    return Audit(tables, log_p, loss)
