"""Data models of the form ``h(x) exp(eta x) / Z(eta)``: only eta varies, so no table of densities is rebuilt."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from scipy.special import gammaln

from ppdinf._pymc_internals import BinomialRV, Constant, NegBinomialRV, PoissonRV

__all__ = ["NaturalForm", "natural_form"]


class NaturalForm(NamedTuple):
    """Natural parameter and log normaliser (symbolic, shape of the table), and ``log h`` of counts."""

    eta: Any
    log_normaliser: Any
    log_h: NDArray[np.float64]


def natural_form(table: Any, shape: tuple[int, ...], counts: NDArray[np.int64]) -> NaturalForm | None:
    """Write a distribution in natural form where it has one with a fixed ``h``.

    Parameters
    ----------
    table : TensorVariable
        An elementwise distribution of d cells.
    shape : tuple of int
        Its shape.
    counts : array of int64, shape (d, width)
        Where to evaluate ``log h``; negative counts have none.

    Returns
    -------
    NaturalForm or None
        Poisson; binomial and negative binomial with a constant size; None for any other distribution.

    Examples
    --------
    >>> import pymc as pm
    >>> form = natural_form(pm.Poisson.dist([1.0, 2.0]), (2,), np.arange(3) + np.zeros((2, 1), dtype=int))
    >>> np.exp(form.log_h[0] + form.eta.eval()[1] * np.arange(3) - form.log_normaliser.eval()[1]).round(4)
    array([0.1353, 0.2707, 0.2707])
    """
    op = table.owner.op
    if not isinstance(op, PoissonRV | BinomialRV | NegBinomialRV):
        return None
    parameters = [pt.broadcast_to(p, shape) for p in op.dist_params(table.owner)]
    with np.errstate(invalid="ignore", divide="ignore"):
        if isinstance(op, PoissonRV):
            (rate,) = parameters
            return NaturalForm(_log(rate), rate, _inside(counts >= 0, -gammaln(counts + 1)))
        if not isinstance(op.dist_params(table.owner)[0], Constant):
            return None
        size, p = parameters[0].eval().ravel()[:, None], parameters[1]
        if isinstance(op, BinomialRV):
            log_h = gammaln(size + 1) - gammaln(counts + 1) - gammaln(size - counts + 1)
            inside = (counts >= 0) & (counts <= size)
            return NaturalForm(_log(p) - pt.log1p(-p), -parameters[0] * pt.log1p(-p), _inside(inside, log_h))
        log_h = gammaln(counts + size) - gammaln(size) - gammaln(counts + 1)
        return NaturalForm(_log1m(p), -parameters[0] * pt.log(p), _inside(counts >= 0, log_h))


def _log(x: Any) -> Any:
    """Logarithm with the gradient 0 at 0, where 0 / 0 would spoil that of every other cell: nobody lives there."""
    none = pt.eq(x, 0)
    return pt.switch(none, -np.inf, pt.log(pt.switch(none, 1, x)))


def _log1m(p: Any) -> Any:
    """Logarithm of ``1 - p``, with the gradient 0 at p = 1."""
    none = pt.eq(p, 1)
    return pt.switch(none, -np.inf, pt.log1p(-pt.switch(none, 0, p)))


def _inside(support: NDArray[np.bool_], log_h: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(support, log_h, -np.inf)
