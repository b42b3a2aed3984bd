"""Top-down estimation: every level of a hierarchy is measured with noise and fitted below the level above.

Each level is fitted with the sums of the level above and all public statements held exactly: first the nearest
non-negative real sums, then their rounding. Children add up to their parents; the last level contains the cells.

If public statements refer to parts of the groups of a level, the fit of the level has the cells as variables. Its
sums can then always be attained by the cells below.

References
----------
J. Abowd et al., "The 2020 Census disclosure avoidance system TopDown algorithm", Harvard Data Science Review,
special issue 2, 2022: this is its outline without its heuristics (several passes, weights, linear queries).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Array, Integers, Json, assign
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.lattice.systems import exact_product
from ppdinf.mechanisms.lattice_noise import GeneralizedLaplace
from ppdinf.mechanisms.postprocessing.postprocessed import FeasibleTables, Levels, PostProcessed, _coordinates
from ppdinf.mechanisms.postprocessing.projection import onto_bounds, round_to_sums
from ppdinf.tables.frame import Frame


def top_down(target: FeasibleTables, levels: Sequence[sp.csr_array], measured: Sequence[Integers]) -> Integers:
    """Fit integer cells to noisy sums, level by level."""
    for G, noisy in zip(levels, measured, strict=True):
        sums = _level(target, G, noisy)
        A = sp.csr_array(sp.vstack([target.A, G]), dtype=np.int64)
        target = FeasibleTables(A, np.concatenate([target.a, sums]), target.B, target.b)
    return sums


def _level(target: FeasibleTables, G: sp.csr_array, noisy: Integers) -> Integers:
    m, d = G.shape
    group = np.full(d, -1)
    group[G.indices] = np.repeat(np.arange(m), np.diff(G.indptr))
    first = np.full(m, d - 1)
    np.minimum.at(first, group[group >= 0], np.flatnonzero(group >= 0))
    columns = sp.csc_array(target.A)
    if not target.b.size and (group >= 0).all() and abs(columns - columns[:, first[group]]).nnz == 0:
        # Public statements refer to whole groups only: the groups are the cells of a smaller problem.
        coarse = FeasibleTables(sp.csr_array(columns[:, first]), target.a, sp.csr_array((0, m), dtype=int), target.b)
        return coarse.round(coarse.project(noisy))
    B, b = target.bounds
    # Cells move without cost; the sums are additional variables with equality constraints.
    A = sp.block_array([[target.A, None], [G, -sp.eye_array(m)]])
    wide = sp.hstack([B, sp.csr_array((b.size, m))])
    start = np.concatenate([np.zeros(d), noisy])
    free = np.repeat([0.0, 1.0], [d, m])
    real = onto_bounds(start, A, np.concatenate([target.a, np.zeros(m)]), wide, b, free)[d:]
    rounded = round_to_sums(real, target.A, target.a, B, b, groups=sp.csr_array(G, dtype=np.int64))
    return exact_product(G, rounded).astype(np.int64)


@dataclass(frozen=True)
class TopDown(PostProcessed):
    """Noise at every level of a hierarchy, fitted from the top down to consistent counts.

    The noisy sums above the cells are used but not published: `noisy` of a release holds the cells only.

    Parameters
    ----------
    public : Public
        Statements that the published table satisfies exactly, on any level.
    epsilon : int, float, str or Fraction
        Total privacy loss of all levels when one record is added or removed.
    levels : Public
        Measured sums above the cells, one statement per level from coarse to fine, such as
        ``ppdinf.invariants.hierarchy("state", "county")``. These sums are *not* published exactly.
    shares : sequence of numbers, optional
        Share of epsilon for each level and, last, for the cells; the shares sum to 1. Equal by default.

    Raises
    ------
    PrivacyError
        epsilon or a share is not a positive number, or the shares do not sum to 1.
    InvariantError
        `levels` contains no level; or, for a given table, a cell is in two groups of one level.

    See Also
    --------
    ppdinf.PostProcessed, ppdinf.invariants.hierarchy, ppdinf.denoise

    Examples
    --------
    >>> import ppdinf as ppd
    >>> table = ppd.as_table([[30, 0], [12, 5]], dims=("state", "sex"))
    >>> mechanism = ppd.TopDown(ppd.invariants.total(), "1/2", levels=ppd.invariants.margin("state"))
    >>> published = mechanism.simulate(table, draws=5, rng=1)
    >>> published.sum(("state", "sex")).values
    array([47, 47, 47, 47, 47])
    """

    kind: ClassVar[str] = "top-down"
    levels: Public
    shares: tuple[Fraction, ...]

    def __init__(
        self,
        public: Public,
        epsilon: Parameter,
        levels: Public | list[Public],
        shares: Sequence[Parameter] | None = None,
    ) -> None:
        super().__init__(public, epsilon, "rounded")
        levels = Public.from_dict(levels) if isinstance(levels, list) else levels
        if not isinstance(levels, Public) or not levels.statements:
            raise InvariantError("levels must state the sums above the cells, for example margin('state')")
        n = len(levels.statements) + 1
        parts = [Fraction(1, n)] * n if shares is None else [as_fraction(share, "a share") for share in shares]
        if len(parts) != n or sum(parts) != 1:
            raise PrivacyError(f"shares must be {n} numbers that sum to 1: {n - 1} levels, and the cells")
        assign(self, method="topdown", levels=levels, shares=tuple(parts))

    @property
    def title(self) -> str:  # type: ignore[override]
        """Return a short description of the law."""
        return f"noise at {len(self.shares)} levels, fitted from the top down"

    def to_dict(self) -> Json:
        """Return the kind and parameters, with rational numbers as text."""
        return {name: value for name, value in super().to_dict().items() if name != "method"}

    @property
    def measurement(self) -> GeneralizedLaplace:
        """Return the mechanism of the noisy cells alone, at their share of epsilon."""
        return GeneralizedLaplace(_coordinates(self.public & self.levels), self.epsilon * self.shares[-1])

    def _levels(self, frame: Frame) -> Levels:
        groups = []
        for statement in self.levels:
            G = sp.csr_array(statement.equalities(frame)[0])
            if (G.data != 1).any() or (np.bincount(G.indices, minlength=frame.size) != 1).any():
                raise InvariantError(f"{statement} is not a level: it must count every cell in exactly one group")
            groups.append(G)
        groups.append(sp.csr_array(sp.eye_array(frame.size, dtype=np.int64)))
        return [(G, self.epsilon * share) for G, share in zip(groups, self.shares, strict=True)]

    def _fit(self, system: System, levels: Levels, measured: list[Integers]) -> Array:
        target, groups = FeasibleTables.of(system), [G for G, _ in levels]
        return np.stack([top_down(target, groups, noisy) for noisy in zip(*measured, strict=True)])
