"""Tables whose cells are binomial or Poisson given single cells of another table.

For example, noisy deaths among noisy persons. The log density of the published y of a cell given the count n of the
other table is ``log sum_m f(m | n) q(y - m)``. Both densities are log-concave in m, so that the sum runs from its
largest term outwards, by ratios of successive terms, until terms are negligible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt

from ppdinf._internal.kernel_op import CallbackOp
from ppdinf._internal.numba_jit import jit
from ppdinf._internal.pymc_compat import (
    Apply,
    DisconnectedType,
    TensorVariable,
    Variable,
    disconnected_type,
    numba_njit,
    register_funcify_default_op_cache_key,
)
from ppdinf._internal.values import Array, Integers, Reals
from ppdinf.distributions.confidential_rv import ConfidentialRV
from ppdinf.distributions.observed import Observed
from ppdinf.distributions.ops import along
from ppdinf.distributions.random_variables import ReleasedRV, table_of
from ppdinf.distributions.weight_forms import form_of_counts

NEGLIGIBLE = 1e-18  # share of a term in a sum


@jit
def _ratio(n: int, m: int, odds: float, is_binomial: bool) -> float:
    """Return f(m + 1 | n) / f(m | n)."""
    return odds * ((n - m) if is_binomial else n) / (m + 1.0)


@jit
def sums_of_counts(
    eta: Reals, given: Integers, lower: Integers, log_noise: Reals, is_binomial: bool
) -> tuple[Reals, Reals]:
    """Return log sums over m of ``exp(log h(m, n) + eta m)`` times noise, and means of m, for each n, shape (d, w)."""
    value, mean = np.full(given.shape, -np.inf), np.zeros(given.shape)
    for i in range(given.shape[0]):
        odds, noise = math.exp(eta[i]), log_noise[i]
        first, last = max(-lower[i], 0), noise.size - 1
        while first < last and noise[first] == -np.inf:
            first += 1
        while last > first and noise[last] == -np.inf:
            last -= 1
        m = low = lower[i] + first
        for k in range(given.shape[1]):
            n = given[i, k]
            high = lower[i] + last
            if is_binomial or n == 0:
                high = min(high, n)
            if high < low or noise[first] == -np.inf:
                continue
            # the largest term
            m = min(max(m, low), high)
            at = m - lower[i]
            while m < high and _ratio(n, m, odds, is_binomial) * math.exp(noise[at + 1] - noise[at]) > 1:
                m += 1
                at += 1
            while m > low and _ratio(n, m - 1, odds, is_binomial) * math.exp(noise[at] - noise[at - 1]) < 1:
                m -= 1
                at -= 1
            # terms on both sides, relative to the largest
            total, moment = 1.0, 0.0
            for way, end in ((1, high), (-1, low)):
                term, j, below = 1.0, m, at
                while j != end and term > NEGLIGIBLE * total:
                    ratio = _ratio(n, min(j, j + way), odds, is_binomial)
                    term *= math.exp(noise[below + way] - noise[below])
                    term = term * ratio if way > 0 else term / ratio
                    j += way
                    below += way
                    total += term
                    moment += term * (j - m)
            if is_binomial:
                log_h = math.lgamma(n + 1.0) - math.lgamma(n - m + 1.0)
            else:
                log_h = m * math.log(n) if m > 0 else 0.0
            log_h -= math.lgamma(m + 1.0)
            value[i, k] = log_h + m * eta[i] + noise[at] + math.log(total)
            mean[i, k] = m + moment / total
    return value, mean


class SumOfCounts(CallbackOp):
    """Log sums over the counts of one table given counts of another, and posterior means of the counts."""

    __props__ = ("is_binomial",)

    def __init__(self, is_binomial: bool) -> None:
        self.is_binomial = is_binomial

    def make_node(self, eta: Variable, given: Variable, lower: Variable, log_noise: Variable) -> Apply:
        """Apply to natural parameters, shape (d,), given counts, (d, w), and windows of the summed counts."""
        out = pt.dmatrix().type
        return Apply(self, [eta, given, pt.as_tensor(lower), pt.as_tensor(log_noise)], [out(), out()])

    def perform(self, node: Apply, inputs: Sequence[Array], outputs: list[list[Array | None]]) -> None:
        """Evaluate in compiled code."""
        eta, given, lower, log_noise = (np.ascontiguousarray(x) for x in inputs)
        outputs[0][0], outputs[1][0] = sums_of_counts(eta, given, lower, log_noise, self.is_binomial)

    def infer_shape(self, node: Apply, shapes: list[tuple[Variable, ...]]) -> list[tuple[Variable, ...]]:
        """Return the shape of the given counts."""
        return [shapes[1], shapes[1]]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Only natural parameters are differentiable."""
        return [[True, True], *([False, False] for _ in node.inputs[1:])]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Return the means times the gradient."""
        gradient = pt.zeros_like(inputs[0])
        if not isinstance(cotangents[0].type, DisconnectedType):
            gradient += (cotangents[0] * outputs[1]).sum(axis=1)
        if not isinstance(cotangents[1].type, DisconnectedType):
            variances = along(self, inputs, 0, pt.ones_like(inputs[0]))
            gradient += (cotangents[1] * variances).sum(axis=1)
        return [gradient, *(disconnected_type() for _ in inputs[1:])]


@register_funcify_default_op_cache_key(SumOfCounts)
def _compiled_sum(op: SumOfCounts, node: Apply, **kwargs: object) -> tuple[Callable[..., tuple[Reals, Reals]], int]:
    is_binomial = op.is_binomial

    @numba_njit
    def sum_of_counts(eta, given, lower, log_noise):  # type: ignore[no-untyped-def]
        return sums_of_counts(eta, given, lower, log_noise, is_binomial)

    return sum_of_counts, 1


@dataclass(frozen=True)
class TableFactor:
    """The log density of the published cells of a table by the cell of another table; as `CellFactor`."""

    eta: TensorVariable
    slope: TensorVariable
    law: ConfidentialRV
    is_binomial: bool
    excludes: bool = False

    @property
    def cells(self) -> Integers:
        """The cell of each element."""
        return np.arange(self.law.start.size)

    def by_cell(self, counts: TensorVariable) -> TensorVariable:
        """Return the log density given every count of every cell, symbolic, shape (d, width)."""
        fiber, d = self.law.fiber, self.law.start.size
        given = counts.reshape((counts.shape[0], d)).T.astype("int64")
        value, _ = SumOfCounts(self.is_binomial)(self.eta, given, fiber.lower, fiber.log_noise)
        return value + self.slope[:, None] * given - (self.law.observed.log_constant or 0.0) / d

    def constant_part(self, start: Integers) -> float:
        """Return 0."""
        return 0.0


def factor_of_table(var: TensorVariable, table: TensorVariable) -> TableFactor | None:
    """Return the density of a release whose table depends on another table, if that table has one for each cell."""
    if not isinstance(var.owner and var.owner.op, ReleasedRV):
        return None
    own = table_of(var)
    if own is table or not isinstance(own.owner and own.owner.op, ConfidentialRV):
        return None
    law = own.owner.op
    form = form_of_counts(law.dist(own.owner.inputs), table)
    if form is None:
        return None
    shape, (eta, slope, is_binomial) = law.start.shape, form
    eta, slope = (pt.broadcast_to(x.astype("float64"), shape).ravel() for x in (eta, slope))
    return TableFactor(eta, slope, law, is_binomial)


def why_not_linked(dist: TensorVariable, above: Sequence[TensorVariable], observed: Observed) -> str:
    """Return why a table is not marginalized with those on which its distribution depends, or an empty string."""
    if len(above) != 1:
        return "which is a variable" if not above else "and on other tables"
    if not has_single_cells(observed):
        return "and more than log-concave noise of its single cells is published"
    same = above[0].owner.op.start.shape == observed.frame.shape
    if not same or form_of_counts(dist, above[0]) is None:
        return "but not by pm.Binomial.dist(n=table, p=...) or pm.Poisson.dist(rate * table) of the same cells"
    return ""


def has_single_cells(observed: Observed) -> bool:
    """Return whether log-concave noise of each cell, and nothing else, is published of a table."""
    likelihood, low = observed.likelihood, np.zeros(observed.frame.size)
    if observed.system.values.size or likelihood.auxiliary is not None or likelihood.query is not None:
        return False
    lower, upper = observed.truncation(low, low + np.inf)
    if not np.isfinite(upper - lower).all() or observed.coupling(lower.astype(np.int64), 1) is not None:
        return False
    counts = lower[:, None] + np.arange(int((upper - lower).max()) + 1)
    return all(is_concave(row) for row in observed.log_counts(counts.astype(np.int64)))


def is_concave(row: Reals) -> bool:
    """Return whether log weights of consecutive integers are concave."""
    inside = np.flatnonzero(row > -np.inf)
    without_gaps = inside.size == 0 or np.ptp(inside) + 1 == inside.size
    return bool(without_gaps and (np.diff(row[inside], 2) <= 1e-9 * (1 + np.abs(row[inside]).max(initial=0))).all())
