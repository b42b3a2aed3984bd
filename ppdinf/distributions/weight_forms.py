"""Log weights of counts as exponential families, or as ratios of gamma functions, which are summed fast."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import gammaln, xlogy

from ppdinf._internal.pymc_compat import (
    Alloc,
    BernoulliRV,
    BetaBinomialRV,
    BinomialRV,
    Cast,
    Constant,
    DimShuffle,
    DiracDeltaRV,
    Elemwise,
    GeometricRV,
    MixtureRV,
    Mul,
    NegBinomialRV,
    PoissonRV,
    SharedVariable,
    Sigmoid,
    SpecifyShape,
    Subtensor,
    TensorVariable,
    TruncatedRV,
    Variable,
    ancestors,
    graph_inputs,
)
from ppdinf._internal.values import Array, Flags, Integers, Reals
from ppdinf.distributions.data_models import constant
from ppdinf.lattice.rows import Rows, kinds

CERTAIN = 2000.0  # replaces infinite log odds: a count other than n has probability exp(-2000)


class NaturalForm(NamedTuple):
    """Natural parameter and log normalizer (symbolic, shape of the table), and ``log h`` of counts and columns."""

    eta: TensorVariable
    log_normaliser: TensorVariable
    log_h: Callable[..., Reals]
    columns: tuple[Array, ...] = ()  # a number of each cell, shape (d,), on which its ``h`` depends

    def of_cells(self, cells: Integers, counts: Integers) -> Reals:
        """Return ``log h`` of counts of some cells, shape (k, n)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.log_h(counts, *(column[cells, None] for column in self.columns))


def natural_form(table: TensorVariable, shape: tuple[int, ...]) -> NaturalForm | None:
    """Return the exponential-family form of a distribution with a constant ``h``, or None."""
    op = table.owner.op
    if not isinstance(op, PoissonRV | BernoulliRV | BinomialRV | NegBinomialRV | GeometricRV):
        return None
    parameters = [pt.broadcast_to(p, shape) for p in op.dist_params(table.owner)]
    if isinstance(op, PoissonRV):
        (rate,) = parameters
        return NaturalForm(log_of_nonnegative(rate), rate, lambda x: _inside(x >= 0, -gammaln(x + 1)))
    if isinstance(op, GeometricRV):
        (p,) = parameters
        certain = pt.eq(p, 1)
        eta = pt.switch(certain, -CERTAIN, pt.log1p(-pt.switch(certain, 0.5, p)))
        return NaturalForm(eta, eta - pt.log(p), lambda x: _inside(x >= 1, np.zeros(x.shape)))
    if isinstance(op, BernoulliRV):
        parameters.insert(0, pt.ones(shape))
    known = 1 if isinstance(op, BernoulliRV) else constant(op.dist_params(table.owner)[0])
    if known is None:
        return None
    sizes = (np.broadcast_to(known, shape).ravel(),)
    if isinstance(op, BernoulliRV | BinomialRV):
        logit, log_none, _ = log_odds(parameters[1])
        return NaturalForm(logit, -parameters[0] * log_none, _log_binomial, sizes)
    _, log_none, log_p = log_odds(parameters[1])
    return NaturalForm(
        log_none, -parameters[0] * log_p,
        lambda x, size: _inside(x >= 0, log_rising(size, x) - gammaln(x + 1)), sizes,
    )  # fmt: skip


def _log_binomial(x: Integers, size: Integers) -> Reals:
    """Return the log of binomial coefficients."""
    return _inside((x >= 0) & (x <= size), log_rising(np.maximum(size - x, 0) + 1, x) - gammaln(x + 1))


def log_odds(p: TensorVariable) -> tuple[TensorVariable, TensorVariable, TensorVariable]:
    """Return the log odds and the logarithms of ``1 - p`` and p, exact for large log odds if p is a sigmoid of them."""
    logit = _undo_sigmoid(p)
    if logit is not None:
        return logit, -pt.softplus(logit), -pt.softplus(-logit)
    certain = pt.eq(p, 1)
    q = pt.switch(certain, 0.5, p)
    log_p, log_none = log_of_nonnegative(p), pt.log1p(-q)
    return pt.switch(certain, CERTAIN, log_p - log_none), pt.switch(certain, -CERTAIN, log_none), log_p


def _undo_sigmoid(p: TensorVariable) -> TensorVariable | None:
    """Return the argument of a sigmoid, through operations on its shape, or None if p is not a sigmoid."""
    if p.owner is None:
        return None
    op = p.owner.op
    if isinstance(op, Elemwise) and isinstance(op.scalar_op, Sigmoid):
        return p.owner.inputs[0]
    if isinstance(op, DimShuffle | Alloc | Subtensor | SpecifyShape):
        inner = _undo_sigmoid(p.owner.inputs[0])
        return None if inner is None else op(inner, *p.owner.inputs[1:])
    return None


def log_of_nonnegative(x: TensorVariable) -> TensorVariable:
    """Return the logarithm with gradient 0 at 0, so that an exposure of 0 does not make other gradients nan."""
    none = pt.eq(x, 0)
    return pt.switch(none, -np.inf, pt.log(pt.switch(none, 1, x)))


def log_rising[X: (Reals, TensorVariable)](c: X, x: X) -> X:
    """Return ``log Gamma(c + x) - log Gamma(c)`` without cancellation for large c, by Stirling's series."""
    xp, log_gamma = (pt, pt.gammaln) if isinstance(c, TensorVariable) else (np, gammaln)
    large = xp.maximum(c, 1e3)
    top, least = large + x, xp.maximum(large + x, 1.0)
    rest = sum(scale * (least**power - large**power) for scale, power in ((1 / 12, -1.0), (-1 / 360, -3.0)))
    series = (large - 0.5) * xp.log1p(x / large) + x * xp.log(top) - x + rest
    return xp.where(c > 1e3, series, log_gamma(c + x) - log_gamma(c))


def _inside(support: Flags, log_h: Reals) -> Reals:
    return np.where(support, log_h, -np.inf)


EXACT = 2e-12  # largest difference of a quadratic polynomial and log weights of noise, apart from rounding


class GammaForm(NamedTuple):
    """Parameters of cells as in `ppdinf.fiber.gamma_ratios.GammaRatios`; LOW and HIGH, if known; `rows` without ETA."""

    parameters: TensorVariable
    constant: TensorVariable
    has: tuple[bool, bool, bool]
    span: Integers
    segment: Reals
    ends: tuple[Reals, Reals] | None = None
    rows: int = 0


class _Cells(NamedTuple):
    """Terms of log weights, of the shape of the table: linear and constant, then arguments of gamma functions."""

    eta: TensorVariable
    constant: TensorVariable
    alpha: TensorVariable | None = None
    beta: TensorVariable | None = None
    low: TensorVariable | float = 1.0
    high: Reals | None = None
    zero: TensorVariable | None = None  # of the count 0 alone
    shapes: Sequence[TensorVariable] = ()  # parameters of which alpha and beta are made
    first: float = 0.0  # possible counts
    last: float = np.inf


def gamma_form(
    dist: TensorVariable,
    shape: tuple[int, ...],
    noise: Rows[np.float64],
    lower: Integers,
    kept: Flags,
    table: TensorVariable,
    dependents: Sequence[TensorVariable] = (),
    values: Sequence[TensorVariable] = (),
) -> GammaForm | None:
    """Return the cells of a distribution as ratios of gamma functions, or None."""
    cells = _data_model(dist, shape)
    if cells is None or len(dependents) > 1:
        return None
    if dependents:
        cells = _with_dependent(cells, dependents[0], values[0], table, shape)
    used, first, of = np.unique(noise.of[kept], return_index=True, return_inverse=True)
    if cells is None:
        return None
    log_noise, starts = noise.values[used], lower[kept][first]
    if cells.first > 0 or cells.last < np.inf:
        counts = starts[:, None] + np.arange(log_noise.shape[1])
        log_noise[(counts < cells.first) | (counts > cells.last)] = -np.inf
    segments = noise_segments(log_noise, starts)
    if segments is None:
        return None
    columns = [cells.eta, cells.alpha, cells.beta, cells.low, cells.high, cells.zero]
    filled = [pt.broadcast_to(0.0 if x is None else pt.as_tensor(x).astype("float64"), shape).ravel() for x in columns]
    parameters, terms = pt.stack(filled, axis=1), pt.broadcast_to(cells.constant, shape).ravel()
    if not kept.all():
        which = np.flatnonzero(kept)
        parameters, terms = parameters[which], terms[which]
    has = (cells.alpha is not None, cells.beta is not None, cells.high is not None)
    ends = pt.stack(filled[3:5])
    is_known = all(isinstance(leaf, Constant | SharedVariable) for leaf in graph_inputs([ends]))
    known = tuple(ends.eval(mode="FAST_COMPILE")[:, kept.ravel()]) if is_known else None
    span, rows = segments[0][of], of.size
    if known and cells.zero is None and all(all(x.type.broadcastable) for x in cells.shapes):
        rows = kinds([span[:, 0], *known])[0].size
    return GammaForm(parameters, terms.sum(), has, span, segments[1], known, rows)


def _data_model(dist: TensorVariable, shape: tuple[int, ...]) -> _Cells | None:
    op = dist.owner.op
    if isinstance(op, MixtureRV | TruncatedRV):
        return _with_zeros(dist, shape) if isinstance(op, MixtureRV) else _truncated(dist, shape)
    if not isinstance(op, PoissonRV | BinomialRV | NegBinomialRV | BetaBinomialRV):
        return None
    given = op.dist_params(dist.owner)
    parameters = [pt.broadcast_to(p.astype("float64"), shape) for p in given]
    if isinstance(op, PoissonRV):
        return _Cells(log_of_nonnegative(parameters[0]), -parameters[0])
    if isinstance(op, NegBinomialRV):
        size, p = parameters
        _, log_none, log_p = log_odds(p)
        return _Cells(log_none, size * log_p, size, shapes=given[:1])
    known = constant(given[0])
    if known is None:
        return None
    n = np.broadcast_to(known, shape).astype(np.float64)
    if isinstance(op, BinomialRV):
        logit, log_none, _ = log_odds(parameters[1])
        return _Cells(logit, n * log_none + pt.gammaln(n + 1.0), high=n + 1.0)
    alpha, beta = parameters[1:]
    terms = pt.gammaln(n + 1.0) + log_rising(beta, n) - log_rising(alpha + beta, n)
    return _Cells(pt.zeros(shape), terms, alpha, n + beta, high=n + 1.0, shapes=given[1:])


def _with_zeros(dist: TensorVariable, shape: tuple[int, ...]) -> _Cells | None:
    """Return a mixture of zeros and counts, or None for other mixtures."""
    weights, zeros, *rest = dist.owner.op.dist_params(dist.owner)
    if len(rest) != 1 or not isinstance(zeros.owner.op, DiracDeltaRV):
        return None
    if np.any(constant(zeros.owner.op.dist_params(zeros.owner)[0]) != 0):
        return None
    cells = _data_model(rest[0], shape)
    if cells is None or cells.zero is not None or cells.first > 1:
        return None
    logit = pt.clip(log_odds(pt.broadcast_to(weights[..., 1], shape))[0], -CERTAIN, CERTAIN)
    rise = -logit - cells.constant  # log of the ratio of the parts of 0: those of the mixture and of the counts
    if cells.high is not None:
        rise += pt.gammaln(cells.high)
    rise = pt.softplus(rise) if cells.first < 1 else rise
    return cells._replace(constant=cells.constant - pt.softplus(-logit), zero=rise, first=0.0)


def _truncated(dist: TensorVariable, shape: tuple[int, ...]) -> _Cells | None:
    """Return counts between bounds that all cells share, or None."""
    *inputs, lower, upper = dist.owner.inputs
    base = dist.owner.op.base_rv_op.make_node(*inputs).default_output()
    cells, known = _data_model(base, shape), constant(pt.stack([lower.min(), lower.max(), upper.min(), upper.max()]))
    if cells is None or known is None or (known[::2] < known[1::2]).any():
        return None
    first, last = map(float, known[::2])
    if first > 0 and last < np.inf:
        log_mass = pm.math.logdiffexp(pm.logcdf(base, last), pm.logcdf(base, first - 1))
    else:
        log_mass = pm.logccdf(base, first - 1) if first > 0 else pm.logcdf(base, last)
    return cells._replace(constant=cells.constant - log_mass, first=max(first, 0.0), last=last)


def _with_dependent(
    cells: _Cells, dependent: TensorVariable, value: TensorVariable, table: TensorVariable, shape: tuple[int, ...]
) -> _Cells | None:
    """Return cells times the probability of a binomial number out of each count, or None."""
    form = form_of_counts(dependent, table)
    if form is None or not form[2] or value.type.shape != shape:
        return None
    logit, log_none, _ = form
    v = value.astype("float64")
    terms = pt.switch(pt.lt(v, 0.0), -np.inf, _times(v, logit) - pt.gammaln(v + 1.0))
    return cells._replace(eta=cells.eta + log_none, constant=cells.constant + terms, low=1.0 - v)


def natural_dependent(
    dependent: TensorVariable, value: TensorVariable, table: TensorVariable, shape: tuple[int, ...]
) -> NaturalForm | None:
    """Return the density of known numbers given each count, an exponential family of the counts, or None."""
    form, known = form_of_counts(dependent, table), constant(value)
    if form is None or known is None or known.shape != shape or (known != np.rint(known)).any():
        return None
    eta, slope, is_binomial = form
    v = known.astype(np.float64)

    def log_h(counts: Integers, v: Reals) -> Reals:
        inside = (v >= 0) & (counts >= (v if is_binomial else 0))
        x = np.where(inside, counts, v)
        return _inside(inside, (log_rising(x - v + 1, v) if is_binomial else xlogy(v, x)) - gammaln(v + 1))

    terms = _times(pt.constant(v), eta)
    slope, terms = (pt.broadcast_to(part.astype("float64"), shape).ravel() for part in (slope, terms))
    return NaturalForm(slope, -terms, log_h, (v.ravel(),))


def _times(v: TensorVariable, eta: TensorVariable) -> TensorVariable:
    """Return the product, 0 where v is 0 though eta may be infinite."""
    none = pt.eq(v, 0.0)
    return pt.switch(none, 0.0, v * pt.switch(none, 0.0, eta))


def form_of_counts(dist: TensorVariable, table: TensorVariable) -> tuple[TensorVariable, TensorVariable, bool] | None:
    """Return natural parameter, log normalizer per unit of the given count, and whether a distribution is binomial."""
    op = dist.owner.op
    if not isinstance(op, BinomialRV | PoissonRV) or dist.type.ndim != table.type.ndim:
        return None
    first, *others = op.dist_params(dist.owner)
    if isinstance(op, BinomialRV) and is_table(first, table) and table not in ancestors(others):
        logit, log_none, _ = log_odds(others[0])
        return logit, log_none, True
    factors = _factors(first)
    rates = [x for x in factors if not is_table(x, table)]
    if isinstance(op, BinomialRV) or len(rates) != len(factors) - 1 or table in ancestors(rates):
        return None
    rate = math.prod(rates, start=pt.ones(()))
    return log_of_nonnegative(rate), -rate, False


def _factors(x: TensorVariable) -> list[TensorVariable]:
    """Return the factors of a product."""
    if x.owner and isinstance(x.owner.op, SpecifyShape):
        return _factors(x.owner.inputs[0])
    if x.owner and isinstance(x.owner.op, Elemwise) and isinstance(x.owner.op.scalar_op, Mul):
        return [factor for y in x.owner.inputs for factor in _factors(y)]
    return [x]


def is_table(x: Variable, table: TensorVariable) -> bool:
    """Return whether a variable is the table, possibly as another type of numbers."""
    while x is not table and x.owner and isinstance(x.owner.op, Elemwise | SpecifyShape):
        if isinstance(x.owner.op, Elemwise) and not isinstance(x.owner.op.scalar_op, Cast):
            break
        x = x.owner.inputs[0]
    return x is table


def noise_segments(log_noise: Reals, lower: Integers) -> tuple[Integers, Reals] | None:
    """Return log weights as concave quadratic polynomials on at most two runs of counts per row, or None."""
    found, spans, segments = dict[bytes, tuple[int, int]](), list[tuple[int, int]](), list[list[float]]()
    for row, low in zip(log_noise, lower, strict=True):
        inside = np.flatnonzero(row > -np.inf)
        if not inside.size or inside[-1] - inside[0] + 1 > inside.size:
            return None
        y = row[inside]
        bend, near = np.diff(y, 2), EXACT + 4 * np.spacing(np.abs(y).max())
        kink = inside.size if bend.size < 2 or np.ptp(bend) < near else int(bend.argmin()) + 2
        start, parts = low + inside[0], []
        for begin, part in ((0, y[:kink]), (kink, y[kink:])):
            if part.size:
                form = _quadratic(part, near)
                if form is None:
                    return None
                parts.append([start + begin, start + begin + part.size - 1, start + begin, *form])
        if len(parts) == 2 and parts[0][4] + 2 * parts[0][5] * (kink - 1) < parts[1][4] - 2 * parts[1][5]:
            return None  # the kink is convex
        key = np.array(parts).tobytes()
        if key not in found:
            found[key] = len(segments), len(segments) + len(parts)
            segments += parts
        spans.append(found[key])
    return np.array(spans, dtype=np.int64).reshape(-1, 2), np.array(segments, dtype=np.float64).reshape(-1, 6)


def _quadratic(y: Reals, near: float) -> tuple[float, float, float] | None:
    """Return coefficients of a concave polynomial of degree 2 in 0, 1, ... that equals the numbers, or None."""
    last = y.size - 1
    slope = (y[-1] - y[0]) / max(last, 1)
    k = np.arange(y.size)
    line = y[0] + slope * k
    if np.abs(y - line).max() < near:
        return y[0], slope, 0.0
    middle = last // 2  # the parabola through three points
    square = (y[middle] - line[middle]) / (middle * (middle - last))
    close = np.abs(y - line - square * k * (k - last)).max() < near
    return (y[0], slope - square * last, square) if close and square < 0 else None
