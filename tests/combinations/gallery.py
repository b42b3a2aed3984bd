"""Models of PyMC's example gallery, each with a noisy release or an exact total of its counts.

`prior` defines all unknowns and returns the parameters of the table by name; `dist` is the distribution of the table
and `after` adds observed variables that depend on the table. `log_p` is the log probability of tables in rows, and of
these observations, from the formulas of the enumerator.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import ppdinf as ppd
from combinations import formulas as own
from combinations.formulas import logit
from combinations.named import PUBLISHED

TIME = np.array([-1.0, 0.0, 1.0])
TRIALS = np.array([6, 4, 9])
VISITS = np.array([[1, 2], [0, 0], [2, 1]])
BASIS = np.array([[1.0, 0.2, 0.0], [0.0, 0.5, 0.9]]).T  # a basis of splines at three times
EDGES = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
AT_RISK = np.array([[9.0, 6.0, 4.0], [8.0, 7.0, 5.0]])
CUTS = np.array([-0.5, 0.8])


@dataclass(frozen=True)
class Situation:
    """A model, and the release of its table by a name of `named_releases`."""

    published: str
    prior: Callable
    dist: Callable
    log_p: Callable
    after: Callable = field(default=lambda x, given: None)

    @property
    def release(self):
        return PUBLISHED[self.published]

    def model(self, *, marginalize=True):
        """Return the model, and the parameters of the table."""
        release = self.release.release()
        with pm.Model(coords=release.coords) as model:
            given = self.prior()
            self.after(ppd.PartiallyPrivate("x", self.dist(given), release=release, marginalize=marginalize), given)
        return model, given

    def unknowns(self):
        """Return the model of the unknowns alone, and the parameters of the table."""
        with pm.Model(coords=self.release.release().coords) as model:
            given = self.prior()
        return model, given


def rates(prior, published="total", after=lambda x, given: None, log_after=lambda given, x: 0.0):
    """Return the situation of Poisson counts whose log rates are `prior()`."""

    def unknowns():
        found = prior()
        return found if isinstance(found, dict) else {"eta": found}

    return Situation(
        published,
        unknowns,
        lambda given: pm.Poisson.dist(pm.math.exp(given["eta"])),
        lambda given, x: own.poisson(x, np.exp(given["eta"]).ravel()).sum(axis=1) + log_after(given, x),
        after,
    )


def capture_recapture():
    """Return expected numbers of animals that were caught on the first day, on the second day, and on both."""
    size, p = pm.Normal("log_size", 2.5, 0.5), pm.Beta("p", 2, 2, shape=2)
    q = 1 - p
    return size + pm.math.log(pm.math.stack([p[0] * q[1], q[0] * p[1], p[0] * p[1]]))


def trend(name, dist, *parameters):
    """Return the unknowns of log rates with a trend, and a further one."""
    eta = pm.Normal("level", 1, 0.5) + pm.Normal("slope", 0, 0.5) * TIME
    return {"eta": eta, name: dist(name, *parameters)}


def visits(x, given):
    pm.Binomial("visits", n=x[:, None], p=given["p"], observed=VISITS)


def log_visits(given, x):
    return own.binomial(VISITS, x[:, :, None], logit(given["p"])).sum(axis=(1, 2))


def random_walk():
    return pm.GaussianRandomWalk("eta", sigma=pm.HalfNormal("step", 0.5), init_dist=pm.Normal.dist(1, 1), shape=3)


def hilbert_space_gp():
    cov = pm.HalfNormal("eta_gp", 0.7) ** 2 * pm.gp.cov.ExpQuad(1, ls=pm.Gamma("ls", 3, 3))
    gp = pm.gp.HSGP(m=[4], c=2.0, cov_func=cov)
    return 1 + gp.prior("f", X=TIME[:, None])


def latent_gp():
    gp = pm.gp.Latent(cov_func=0.5 * pm.gp.cov.Matern52(1, ls=pm.Gamma("ls", 3, 3)))
    return 1 + gp.prior("f", X=TIME[:, None], jitter=1e-6)


def icar():
    spread = pm.HalfNormal("spread", 0.7)
    return pm.Normal("level", 1, 0.5) + spread * pm.ICAR("phi", W=EDGES)


def piecewise_hazard():
    """Return log expected deaths of two groups in three intervals."""
    log_hazard, effect = pm.Normal("log_hazard", -1, 0.7, shape=3), pm.Normal("effect", 0, 0.7)
    return np.log(AT_RISK) + log_hazard + effect * np.array([[0.0], [1.0]])


def correlated_effects():
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.HalfNormal.dist(0.5))
    effects = pm.Normal("z", shape=(2, 2)) @ chol.T
    return 0.5 + effects[:, :1] + effects[:, 1:] * TIME


def change_point():
    year, early, late = pm.DiscreteUniform("year", 0, 3), pm.Normal("early", 1, 0.5), pm.Normal("late", 0, 0.5)
    return pm.math.switch(year > np.arange(3), early, late)


def noisy_covariate():
    true = pm.Normal("true", 0, 1, shape=4)
    pm.Normal("reading", true, 0.3, observed=np.array([0.4, -0.2, 0.1, 0.9]))
    return 1 + pm.Normal("slope", 0, 0.5) * true


def partial_pooling():
    mu, spread = pm.Normal("mu", 0, 1), pm.HalfNormal("spread", 0.7)
    return {"logit": mu + spread * pm.Normal("z", shape=3)}


def two_classes():
    eta = pm.Normal("log_rates", np.array([0.0, 1.5]), 0.5, shape=2)
    return {"eta": eta, "w": pm.Dirichlet("w", np.ones(2))}


def of_two(given):
    return pm.Mixture.dist(given["w"], pm.Poisson.dist(pm.math.exp(given["eta"]), shape=(3, 2)))


def log_of_two(given, x):
    return own.mixture(np.log(given["w"]), *(own.poisson(x, np.exp(eta)) for eta in given["eta"])).sum(axis=1)


def tumours():
    mean, size = pm.Beta("mean", 2, 2), pm.Gamma("size", 4, 1)
    return {"a": mean * size, "b": (1 - mean) * size}


def ordered_logits():
    """Return probabilities of three ordered categories in two groups."""
    eta = pm.Normal("eta", shape=(2, 1))
    below = pm.math.sigmoid(CUTS - eta)
    return {"p": pt.concatenate([below[:, :1], below[:, 1:] - below[:, :1], 1 - below[:, 1:]], axis=1), "eta": eta}


def binned():
    """Return probabilities of three classes of a normal sample, of which only the numbers in classes are published."""
    below = pm.math.exp(pm.logcdf(pm.Normal.dist(pm.Normal("mean", 0, 1), pm.HalfNormal("spread", 1)), CUTS))
    return {"p": pt.concatenate([below[:1], below[1:] - below[:1], 1 - below[1:]])}


def censored(x, given):
    pm.Censored("reports", pm.Poisson.dist(0.1 + given["share"] * x), lower=None, upper=3, observed=[2, 0, 3])


def log_censored(given, x):
    mu = 0.1 + given["share"] * x
    below = own.logsumexp(np.stack([own.poisson(np.full_like(x, k), mu) for k in range(3)]), axis=0)
    return np.where([True, True, False], own.poisson(np.array([2, 0, 3]), mu), np.log(-np.expm1(below))).sum(axis=1)


SITUATIONS = {
    "capture-recapture": rates(capture_recapture),
    "N-mixture": rates(lambda: trend("p", pm.Beta, 2, 2), "total", visits, log_visits),
    "AR(1)": rates(lambda: pm.AR("eta", pm.Uniform("rho", -1, 1), sigma=0.5, init_dist=pm.Normal.dist(1, 1), shape=3)),
    "Gaussian random walk": rates(random_walk, "gaussian"),
    "random walk, non-centered": rates(
        lambda: pm.Normal("start", 1, 1) + pm.HalfNormal("step", 0.5) * pm.Normal("z", shape=3).cumsum(), "gaussian"
    ),
    "HSGP": rates(hilbert_space_gp),
    "latent GP": rates(latent_gp, "known apart"),
    "ICAR": rates(icar, "groups"),
    "survival counts": rates(piecewise_hazard, "rows"),
    "LKJ effects": rates(correlated_effects, "rows"),
    "change point": rates(change_point, "staircase"),
    "splines": rates(lambda: 1 + pt.as_tensor(BASIS) @ pm.Normal("w", shape=2)),
    "covariate with error": rates(noisy_covariate, "groups"),
    "censored reports": rates(lambda: trend("share", pm.Beta, 3, 2), "total", censored, log_censored),
    "hierarchical binomial": Situation(
        "total",
        partial_pooling,
        lambda given: pm.Binomial.dist(TRIALS, logit_p=given["logit"]),
        lambda given, x: own.binomial(x, TRIALS, given["logit"]).sum(axis=1),
    ),
    "zero-inflated counts": Situation(
        "gaussian",
        lambda: trend("psi", pm.Beta, 3, 1),
        lambda given: pm.ZeroInflatedPoisson.dist(given["psi"], pm.math.exp(given["eta"])),
        lambda given, x: own.zero_inflated(x, logit(given["psi"]), own.poisson(x, np.exp(given["eta"]))).sum(axis=1),
    ),
    "negative binomial regression": Situation(
        "total",
        lambda: trend("alpha", pm.Gamma, 3, 1),
        lambda given: pm.NegativeBinomial.dist(mu=pm.math.exp(given["eta"]), alpha=given["alpha"]),
        lambda given, x: own.negative_binomial(x, np.exp(given["eta"]), given["alpha"]).sum(axis=1),
    ),
    "mixture of two classes": Situation("total", two_classes, of_two, log_of_two),
    "beta-binomial tumours": Situation(
        "total",
        tumours,
        lambda given: pm.BetaBinomial.dist(given["a"], given["b"], TRIALS),
        lambda given, x: own.beta_binomial(x, TRIALS, given["a"], given["b"]).sum(axis=1),
    ),
    "Dirichlet-multinomial rows": Situation(
        "rows",
        lambda: {"a": pm.Gamma("a", 3, 1, shape=3)},
        lambda given: pm.DirichletMultinomial.dist(n=np.array([5, 4]), a=given["a"]),
        lambda given, x: own.dirichlet_multinomial(x.reshape(-1, 2, 3), given["a"]).sum(axis=-1),
    ),
    "ordered categories": Situation(
        "rows",
        ordered_logits,
        lambda given: pm.OrderedMultinomial.dist(eta=given["eta"][:, 0], cutpoints=CUTS, n=np.array([5, 4])),
        lambda given, x: own.multinomial(x.reshape(-1, 2, 3), given["p"]).sum(axis=-1),
    ),
    "binned sample": Situation(
        "rows",
        binned,
        lambda given: pm.Multinomial.dist(n=np.array([5, 4]), p=given["p"]),
        lambda given, x: own.multinomial(x.reshape(-1, 2, 3), given["p"]).sum(axis=-1),
    ),
    "log-linear table": rates(piecewise_hazard, "margins"),
}
