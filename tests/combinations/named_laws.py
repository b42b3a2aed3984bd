"""Data models of tables, each twice: as PyMC code of an analyst, and as the formula of the enumerator.

At `extreme` points both must agree. At `rounded` points a parameter rounds to 0 or 1 in doubles. PyMC may round the
likelihood to 0 or to its limit: it must not be nan, and its gradient must exist. (Points are omitted where
PyMC's own density of one count is nan: mixture weights that round to 0, truncated distributions without mass.)

`eta` are linear predictors of the cells, ``theta[0] + theta[1] * SLOPE``; further entries of theta are other
unknowns. Every unknown is unbounded and has no prior, so PyMC computes the likelihood.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import expit, gammaln, softmax

from combinations import formulas as own

exp, sigmoid = pm.math.exp, pm.math.sigmoid
SLOPE = np.array([1.0, -0.5, 0.25, 0.0, -1.0, 0.5])
TRIALS = np.array([5, 9, 4, 7, 6, 8])
ORDINARY = [(0.6, 0.4), (1.2, -0.7)]
EXTREME = [(-40.0, 0.0), (0.0, 40.0), (0.0, -80.0), (3.0, 2.0), (-700.0, 0.0)]
LOGITS = [(-40.0, 0.0), (12.0, 0.0), (0.0, 12.0), (0.0, -20.0), (-700.0, 0.0)]
# p is 0 or 1 in doubles
ROUNDED = [(30.0, 0.0), (40.0, 0.0), (0.0, 40.0), (37.5, 0.0), (-800.0, 0.0), (800.0, 0.0), (0.0, -80.0)]


@dataclass(frozen=True)
class DataModel:
    """`dist` takes theta and eta as tensors, eta in table shape; `log_p` takes theta, eta, tables in rows."""

    dist: Callable
    log_p: Callable
    ordinary: list = field(default_factory=lambda: ORDINARY)
    extreme: list = field(default_factory=lambda: EXTREME)
    rounded: list = field(default_factory=list)
    low: int = 0
    high: int | None = None
    negative: bool = False
    fixed: bool = False  # no unknowns
    whole: bool = False  # log_p is that of tables, not of their cells

    def log_probability(self, theta, x):
        eta = theta[0] + theta[1] * np.resize(SLOPE, x.shape[-1])
        log_p = self.log_p(np.asarray(theta, dtype=float), eta, x)
        return log_p if self.whole else np.broadcast_to(log_p, x.shape).sum(axis=-1)

    def predictors(self, theta, shape):
        return theta[0] + theta[1] * np.resize(SLOPE, int(np.prod(shape))).reshape(shape)


def with_more(*more, base=ORDINARY):
    return [(*point, *value) for point, value in zip(base, more, strict=False)]


def each(values, eta):
    """Return as many values as there are cells, in the shape of the table; `eta` is a tensor or a row of cells."""
    shape = eta.shape if isinstance(eta, np.ndarray) else eta.type.shape
    return np.resize(values, int(np.prod(shape))).reshape(shape)


# Distributions that need more than one line in PyMC


def own_geometric(eta):
    """A distribution that PyMC does not have: P(x) proportional to 1 / (x + 1)! with weight exp(eta x)."""

    def logp(value, eta):
        log_mass = eta * value - pt.gammaln(value + 2.0) + eta - pt.log(pt.expm1(pt.exp(eta)))
        return pt.switch(value >= 0, log_mass, -np.inf)

    return pm.CustomDist.dist(eta, logp=logp, dtype="int64", class_name="Shifted")


def shifted_poisson(eta, x):
    """The sum over x of exp(eta x) / (x + 1)! is expm1(exp(eta)) / exp(eta)."""
    log_p = eta * x - gammaln(np.maximum(x, 0) + 2.0) + eta - np.log(np.expm1(np.exp(eta)))
    return np.where(x >= 0, log_p, -np.inf)


def two_weights(theta):
    return pt.stack([sigmoid(theta[2]), sigmoid(-theta[2])])


def two_log_weights(theta):
    return own.log_sigmoid(theta[2]), own.log_sigmoid(-theta[2])


def fixed(dist, log_p, **limits):
    """A distribution without unknowns."""
    return DataModel(dist, log_p, extreme=[], fixed=True, **limits)


def by_logit(dist, log_p, **limits):
    return DataModel(dist, log_p, extreme=LOGITS, rounded=ROUNDED, **limits)


def with_share(dist, log_p, extreme=None, rounded=None):
    """A distribution with one more unknown, the logit of a share."""
    points = {"extreme": NEAR_ENDS if extreme is None else extreme, "rounded": AT_ENDS if rounded is None else rounded}
    return DataModel(dist, log_p, ordinary=with_more((0.8,), (-0.4,)), **points)


NEAR_ENDS = [(0.6, 0.4, -30.0), (0.6, 0.4, 12.0), (0.6, 0.4, -300.0), (-40.0, 0.0, 0.5), (0.0, 8.0, -1.0)]
AT_ENDS = [(0.6, 0.4, -40.0), (0.0, 40.0, -1.0)]
LOW, HIGH = np.array([0, 1, 2, 0, 1, 0]), np.array([3, 6, 5, 4, 3, 7])


DATA_MODELS = {
    "Poisson": DataModel(
        lambda theta, eta: pm.Poisson.dist(exp(eta)), lambda theta, eta, x: own.poisson(x, np.exp(eta))
    ),
    "Poisson, a rate of 0": DataModel(
        lambda theta, eta: pm.Poisson.dist(exp(eta) * each([1, 0, 1], eta)),
        lambda theta, eta, x: own.poisson(x, np.exp(eta) * each([1, 0, 1], eta)),
    ),
    "Poisson, one rate for all": DataModel(
        lambda theta, eta: pm.Poisson.dist(exp(theta[0] + 0 * theta[1])),
        lambda theta, eta, x: own.poisson(x, np.exp(theta[0])),
        extreme=[(-40.0, 0.0), (4.0, 0.0), (-700.0, 0.0)],
    ),
    "binomial": by_logit(
        lambda theta, eta: pm.Binomial.dist(each(TRIALS, eta), sigmoid(eta)),
        lambda theta, eta, x: own.binomial(x, each(TRIALS, eta), eta),
    ),
    "binomial by its logit": by_logit(
        lambda theta, eta: pm.Binomial.dist(each(TRIALS, eta), logit_p=eta),
        lambda theta, eta, x: own.binomial(x, each(TRIALS, eta), eta),
    ),
    "binomial, one p is 1": by_logit(
        lambda theta, eta: pm.Binomial.dist(each(TRIALS, eta), pm.math.switch(each([0, 0, 1], eta), 1.0, sigmoid(eta))),
        lambda theta, eta, x: own.binomial(x, each(TRIALS, eta), np.where(each([0, 0, 1], eta), np.inf, eta)),
    ),
    "Bernoulli": by_logit(
        lambda theta, eta: pm.Bernoulli.dist(logit_p=eta), lambda theta, eta, x: own.binomial(x, 1, eta), high=1
    ),
    "negative binomial": DataModel(
        lambda theta, eta: pm.NegativeBinomial.dist(mu=exp(eta), alpha=2.0),
        lambda theta, eta, x: own.negative_binomial(x, np.exp(eta), 2.0),
        extreme=[(-12.0, 0.0), (0.0, 8.0), (3.0, 2.0)],
        rounded=[(-40.0, 0.0), (0.0, 40.0), (-800.0, 0.0)],
    ),
    "negative binomial, shape unknown": DataModel(
        lambda theta, eta: pm.NegativeBinomial.dist(mu=exp(eta), alpha=exp(theta[2])),
        lambda theta, eta, x: own.negative_binomial(x, np.exp(eta), np.exp(theta[2])),
        ordinary=with_more((0.3,), (-1.0,)),
        extreme=[(0.6, 0.4, -8.0), (0.6, 0.4, 8.0), (-12.0, 0.0, 0.0), (0.0, 8.0, 1.0)],
        rounded=[(0.6, 0.4, -40.0), (0.0, 40.0, 1.0)],
    ),
    "negative binomial by n and p": DataModel(
        lambda theta, eta: pm.NegativeBinomial.dist(n=3.0, p=sigmoid(eta)),
        lambda theta, eta, x: own.negative_binomial_by_p(x, 3.0, eta),
        extreme=[(-30.0, 0.0), (12.0, 0.0), (0.0, 12.0)],
        rounded=[(40.0, 0.0), (0.0, 40.0), (800.0, 0.0), (-800.0, 0.0)],
    ),
    "geometric": by_logit(
        lambda theta, eta: pm.Geometric.dist(sigmoid(eta)), lambda theta, eta, x: own.geometric(x, eta), low=1
    ),
    "discrete uniform": fixed(
        lambda theta, eta: pm.DiscreteUniform.dist(each(LOW, eta), each(HIGH, eta)),
        lambda theta, eta, x: own.discrete_uniform(x, each(LOW, eta), each(HIGH, eta)),
    ),
    "discrete uniform below 0": fixed(
        lambda theta, eta: pm.DiscreteUniform.dist(-4, 9),
        lambda theta, eta, x: own.discrete_uniform(x, -4, 9),
        low=-4,
        high=9,
        negative=True,
    ),
    "categorical": DataModel(
        lambda theta, eta: pm.Categorical.dist(
            p=pm.math.softmax(pt.stack([eta, 0 * eta, -eta, 0.5 + 0 * eta, theta[2] + 0 * eta], axis=-1), axis=-1)
        ),
        lambda theta, eta, x: own.categorical(
            x, softmax(np.stack([eta, 0 * eta, -eta, 0.5 + 0 * eta, theta[2] + 0 * eta], axis=-1), axis=-1)
        ),
        ordinary=with_more((0.5,), (-0.5,)),
        extreme=[(40.0, 0.0, 0.0), (0.0, 40.0, 0.0), (0.0, 0.0, -40.0)],
        high=4,
    ),
    "beta-binomial": DataModel(
        lambda theta, eta: pm.BetaBinomial.dist(exp(eta), exp(theta[2]), 9),
        lambda theta, eta, x: own.beta_binomial(x, 9, np.exp(eta), np.exp(theta[2])),
        ordinary=with_more((0.5,), (-0.5,)),
        extreme=[(-15.0, 0.0, 0.0), (0.6, 0.4, 12.0), (0.6, 0.4, -15.0)],
    ),
    "hypergeometric": fixed(
        lambda theta, eta: pm.HyperGeometric.dist(N=20, k=7, n=9), lambda theta, eta, x: own.hypergeometric(x, 20, 7, 9)
    ),
    "discrete Weibull": DataModel(
        lambda theta, eta: pm.DiscreteWeibull.dist(sigmoid(eta), 1.3),
        lambda theta, eta, x: own.discrete_weibull(x, expit(eta), 1.3),
        extreme=[(-20.0, 0.0), (6.0, 0.0)],
        rounded=[(-40.0, 0.0)],
    ),
    "zero-inflated Poisson": with_share(
        lambda theta, eta: pm.ZeroInflatedPoisson.dist(sigmoid(theta[2]), exp(eta)),
        lambda theta, eta, x: own.zero_inflated(x, theta[2], own.poisson(x, np.exp(eta))),
    ),
    "zero-inflated negative binomial": DataModel(
        lambda theta, eta: pm.ZeroInflatedNegativeBinomial.dist(
            psi=sigmoid(theta[2]), mu=exp(eta), alpha=exp(theta[3])
        ),
        lambda theta, eta, x: own.zero_inflated(x, theta[2], own.negative_binomial(x, np.exp(eta), np.exp(theta[3]))),
        ordinary=with_more((0.8, 0.5), (-0.4, -0.5)),
        extreme=[(0.6, 0.4, -30.0, 0.3), (0.6, 0.4, 12.0, 0.3), (-12.0, 0.0, 0.5, 0.3), (0.0, 6.0, -1.0, 2.0)],
        rounded=[(*point, 0.3) for point in AT_ENDS],
    ),
    "zero-inflated binomial": with_share(
        lambda theta, eta: pm.ZeroInflatedBinomial.dist(sigmoid(theta[2]), each(TRIALS, eta), sigmoid(eta)),
        lambda theta, eta, x: own.zero_inflated(x, theta[2], own.binomial(x, each(TRIALS, eta), eta)),
        extreme=[*NEAR_ENDS, (12.0, 0.0, 0.5)],
        rounded=AT_ENDS[:1],
    ),
    "mixture of Poissons": DataModel(
        lambda theta, eta: pm.Mixture.dist(
            two_weights(theta), [pm.Poisson.dist(exp(eta)), pm.Poisson.dist(exp(eta + theta[3]))]
        ),
        lambda theta, eta, x: own.mixture(
            two_log_weights(theta), own.poisson(x, np.exp(eta)), own.poisson(x, np.exp(eta + theta[3]))
        ),
        ordinary=with_more((0.8, 1.0), (-0.4, -1.0)),
        extreme=[(*point, 1.0) for point in NEAR_ENDS],
        rounded=[(*point, 1.0) for point in AT_ENDS],
    ),
    "mixture of unlike supports": with_share(
        lambda theta, eta: pm.Mixture.dist(
            two_weights(theta), [pm.Binomial.dist(4, sigmoid(eta)), pm.Geometric.dist(sigmoid(-eta))]
        ),
        lambda theta, eta, x: own.mixture(two_log_weights(theta), own.binomial(x, 4, eta), own.geometric(x, -eta)),
        extreme=[*NEAR_ENDS[:3], (12.0, 0.0, 0.5), (-12.0, 0.0, 0.5)],
        rounded=[*AT_ENDS[:1], (0.6, 0.4, 40.0)],
    ),
    "mixture with a fixed count": with_share(
        lambda theta, eta: pm.Mixture.dist(two_weights(theta), [pm.DiracDelta.dist(2), pm.Poisson.dist(exp(eta))]),
        lambda theta, eta, x: own.mixture(
            two_log_weights(theta), np.where(x == 2, 0.0, -np.inf), own.poisson(x, np.exp(eta))
        ),
    ),
    "truncated Poisson": DataModel(
        lambda theta, eta: pm.Truncated.dist(pm.Poisson.dist(exp(eta)), lower=1),
        lambda theta, eta, x: own.positive(x, lambda k: own.poisson(k, np.exp(eta))),
        extreme=[(0.0, 3.0), (2.0, 1.0)],
        low=1,
    ),
    "truncated negative binomial": DataModel(
        lambda theta, eta: pm.Truncated.dist(pm.NegativeBinomial.dist(mu=exp(eta), alpha=2.0), lower=1, upper=6),
        lambda theta, eta, x: own.truncated(x, lambda k: own.negative_binomial(k, np.exp(eta), 2.0), 1, 6),
        extreme=[(-5.0, 0.0), (0.0, 4.0), (3.0, 2.0)],
        rounded=[(0.0, 40.0)],
        low=1,
        high=6,
    ),
    "censored Poisson": DataModel(
        lambda theta, eta: pm.Censored.dist(pm.Poisson.dist(exp(eta)), lower=1, upper=6),
        lambda theta, eta, x: own.censored(x, lambda k: own.poisson(k, np.exp(eta)), 1, 6, 300),
        # PyMC computes P(x >= 6) as 1 minus the complement: below -5 no digits and no slope remain
        extreme=[(-0.5, 0.0), (0.0, 4.0), (3.0, 2.0)],
        low=1,
        high=6,
    ),
    "hurdle Poisson": with_share(
        lambda theta, eta: pm.HurdlePoisson.dist(sigmoid(theta[2]), exp(eta)),
        lambda theta, eta, x: own.hurdle(x, theta[2], lambda k: own.poisson(k, np.exp(eta))),
        extreme=[*NEAR_ENDS[:3], (-4.0, 0.0, 0.5)],
        rounded=AT_ENDS[:1],
    ),
    "hurdle negative binomial": DataModel(
        lambda theta, eta: pm.HurdleNegativeBinomial.dist(sigmoid(theta[2]), exp(eta), exp(theta[3])),
        lambda theta, eta, x: own.hurdle(
            x, theta[2], lambda k: own.negative_binomial(k, np.exp(eta), np.exp(theta[3]))
        ),
        ordinary=with_more((0.8, 0.5), (-0.4, -0.5)),
        extreme=[(0.6, 0.4, -30.0, 0.3), (0.6, 0.4, 12.0, 0.3), (-4.0, 0.0, 0.5, 0.3)],
        rounded=[(0.6, 0.4, -40.0, 0.3)],
    ),
    "a density of one's own": DataModel(
        lambda theta, eta: own_geometric(eta),
        lambda theta, eta, x: shifted_poisson(eta, x),
        extreme=[(-15.0, 0.0), (1.0, 2.0)],
    ),
    "a law made of others": DataModel(
        lambda theta, eta: pm.CustomDist.dist(
            eta, dist=lambda eta, size: pm.Poisson.dist(exp(eta), size=size) + 1, class_name="OneMore", dtype="int64"
        ),
        lambda theta, eta, x: own.poisson(x - 1, np.exp(eta)),
        low=1,
    ),
    "switched rates, whole numbers": DataModel(
        lambda theta, eta: pm.Poisson.dist(pm.math.switch(each([1, 0], eta), 4, 1) * exp(theta[1])),
        lambda theta, eta, x: own.poisson(x, np.where(each([1, 0], eta), 4, 1) * np.exp(theta[1])),
        extreme=[],
    ),
    "switched rates, nothing else": fixed(
        lambda theta, eta: pm.Poisson.dist(pm.math.switch(each([1, 0], eta), 6.0, 1.0)),
        lambda theta, eta, x: own.poisson(x, np.where(each([1, 0], eta), 6.0, 1.0)),
    ),
    "rates of single precision": fixed(
        lambda theta, eta: pm.Poisson.dist(each([4.5, 1.25, 3.0], eta).astype("float32")),
        lambda theta, eta, x: own.poisson(x, each([4.5, 1.25, 3.0], eta)),
    ),
    "negative binomial of single precision": fixed(
        lambda theta, eta: pm.NegativeBinomial.dist(
            mu=each([4.5, 1.25, 3.0], eta).astype("float32"), alpha=np.float32(2.5)
        ),
        lambda theta, eta, x: own.negative_binomial(x, each([4.5, 1.25, 3.0], eta), 2.5),
    ),
    "whole rates": fixed(
        lambda theta, eta: pm.Poisson.dist(each([4, 1, 3], eta)),
        lambda theta, eta, x: own.poisson(x, each([4, 1, 3], eta)),
    ),
    "multinomial rows": DataModel(
        lambda theta, eta: pm.Multinomial.dist(n=np.array([5, 4]), p=pm.math.softmax(eta, axis=-1)),
        lambda theta, eta, x: own.multinomial(x.reshape(-1, 2, 3), softmax(eta.reshape(2, 3), axis=-1)).sum(axis=-1),
        extreme=[(0.0, 40.0), (0.0, -80.0)],
        whole=True,
    ),
    "Dirichlet-multinomial rows": DataModel(
        lambda theta, eta: pm.DirichletMultinomial.dist(n=np.array([5, 4]), a=exp(eta)),
        lambda theta, eta, x: own.dirichlet_multinomial(x.reshape(-1, 2, 3), np.exp(eta.reshape(2, 3))).sum(axis=-1),
        extreme=[(-10.0, 0.0), (8.0, 0.0), (0.0, 10.0)],
        whole=True,
    ),
}
