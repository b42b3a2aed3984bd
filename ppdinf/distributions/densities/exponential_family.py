"""Data models of the form ``h(x) exp(eta x) / Z(eta)``, of which only eta varies, so log h is computed once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from scipy.special import gammaln

from ppdinf._internal.pymc_compat import (
    Alloc,
    BernoulliRV,
    BinomialRV,
    DimShuffle,
    Elemwise,
    GeometricRV,
    NegBinomialRV,
    PoissonRV,
    Sigmoid,
    SpecifyShape,
    Subtensor,
    TensorVariable,
)
from ppdinf.distributions.observation.float64 import constant

CERTAIN = 2000.0  # replaces infinite log odds: a count other than n has probability exp(-2000)


class NaturalForm(NamedTuple):
    """Natural parameter and log normalizer (symbolic, shape of the table), and ``log h`` of counts."""

    eta: TensorVariable
    log_normaliser: TensorVariable
    log_h: NDArray[np.float64]


def natural_form(table: TensorVariable, shape: tuple[int, ...], counts: NDArray[np.int64]) -> NaturalForm | None:
    """Return the exponential-family form of a distribution with a constant ``h``, or None."""
    op = table.owner.op
    if not isinstance(op, PoissonRV | BernoulliRV | BinomialRV | NegBinomialRV | GeometricRV):
        return None
    parameters = [pt.broadcast_to(p, shape) for p in op.dist_params(table.owner)]
    with np.errstate(invalid="ignore", divide="ignore"):
        if isinstance(op, PoissonRV):
            (rate,) = parameters
            return NaturalForm(log_of_nonnegative(rate), rate, _inside(counts >= 0, -gammaln(counts + 1)))
        if isinstance(op, GeometricRV):
            (p,) = parameters
            certain = pt.eq(p, 1)
            eta = pt.switch(certain, -CERTAIN, pt.log1p(-pt.switch(certain, 0.5, p)))
            return NaturalForm(eta, eta - pt.log(p), _inside(counts >= 1, np.zeros(counts.shape)))
        if isinstance(op, BernoulliRV):
            parameters.insert(0, pt.ones(shape))
        known = 1 if isinstance(op, BernoulliRV) else constant(op.dist_params(table.owner)[0])
        if known is None:
            return None
        size = np.broadcast_to(known, shape).ravel()[:, None]
        if isinstance(op, BernoulliRV | BinomialRV):
            inside = (counts >= 0) & (counts <= size)
            log_h = log_rising(np.maximum(size - counts, 0) + 1, counts) - gammaln(counts + 1)
            logit, log_none, _ = log_odds(parameters[1])
            return NaturalForm(logit, -parameters[0] * log_none, _inside(inside, log_h))
        _, log_none, log_p = log_odds(parameters[1])
        log_h = log_rising(size, counts) - gammaln(counts + 1)
        return NaturalForm(log_none, -parameters[0] * log_p, _inside(counts >= 0, log_h))


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


def log_rising[X: (NDArray[np.float64], TensorVariable)](c: X, x: X) -> X:
    """Return ``log Gamma(c + x) - log Gamma(c)`` without cancellation for large c, by Stirling's series."""
    xp, log_gamma = (pt, pt.gammaln) if isinstance(c, TensorVariable) else (np, gammaln)
    large = xp.maximum(c, 1e3)
    top, least = large + x, xp.maximum(large + x, 1.0)
    rest = sum(scale * (least**power - large**power) for scale, power in ((1 / 12, -1.0), (-1 / 360, -3.0)))
    series = (large - 0.5) * xp.log1p(x / large) + x * xp.log(top) - x + rest
    return xp.where(c > 1e3, series, log_gamma(c + x) - log_gamma(c))


def _inside(support: NDArray[np.bool_], log_h: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(support, log_h, -np.inf)
