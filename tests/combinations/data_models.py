"""Random distributions of counts and their parameters, for PyMC and for the enumerator."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from combinations import formulas as own
from combinations.enumerator import FAR, Term
from combinations.frames import pick, shown


@dataclass
class Parameters:
    """Unknowns of a data model and the linear predictor ``eta`` of every cell."""

    code: list[str]
    priors: dict[str, int]  # sizes of unknowns with standard normal priors
    eta: Callable  # maps values of the unknowns and of the data to an array with the shape of the table
    data: dict = field(default_factory=dict)  # shared data, for pm.Data
    redraw: dict = field(default_factory=dict)  # functions that draw other values of the data
    kind: str = "constant"
    level: str | None = None  # name of a scalar unknown
    outer: list[str] = field(default_factory=list)  # lines of the outer model, if it is nested


def parameters(rng, frame):
    """Draw random unknowns and covariates."""
    shape = frame.shape
    kind = pick(
        rng,
        ["level and slope", "shared covariate", "by row", "by shared row", "broadcast", "outer"],
        [5, 4, 3, 3, 3, 1.5],
    )
    covariate = np.round(rng.normal(0, 0.6, shape), 2)
    if rng.random() < 0.3:
        covariate = covariate[(0,) * (len(shape) - 1)]  # of the last dimension only
    level = 'level = pm.Normal("level", 0, 1)'
    if kind == "broadcast":
        return Parameters([level, "eta = level"], {"level": 1}, lambda p, d: np.full(shape, p["level"]), kind=kind,
                          level="level")  # fmt: skip
    if kind == "outer":
        return Parameters([f"eta = level + np.array({shown(covariate)})"], {"level": 1},
                          lambda p, d: np.broadcast_to(p["level"] + covariate, shape), kind=kind, level="level",
                          outer=[level])  # fmt: skip
    slope = 'slope = pm.Normal("slope", 0, 1)'
    if kind == "level and slope":
        code = [level, slope, f"eta = level + slope * np.array({shown(covariate)})"]
        return Parameters(code, {"level": 1, "slope": 1},
                          lambda p, d: np.broadcast_to(p["level"] + p["slope"] * covariate, shape), kind=kind,
                          level="level")  # fmt: skip
    if kind == "shared covariate":
        code = [f'covariate = pm.Data("covariate", np.array({shown(covariate)}))', level, slope,
                "eta = level + slope * covariate"]  # fmt: skip
        return Parameters(code, {"level": 1, "slope": 1},
                          lambda p, d: np.broadcast_to(p["level"] + p["slope"] * d["covariate"], shape),
                          {"covariate": covariate},
                          {"covariate": lambda r: np.round(r.normal(0, 0.6, covariate.shape), 2)},
                          kind, "level")  # fmt: skip
    number = int(rng.integers(1, 4))
    rows = rng.integers(0, number, shape[0])
    effects = f'effect = pm.Normal("effect", 0, 1, shape={number})'
    spread = ", ".join(["slice(None)"] + ["None"] * (len(shape) - 1))
    if kind == "by row":
        code = [effects, f"eta = effect[np.array({rows.tolist()})][({spread},)] + np.zeros({shape})"]
        return Parameters(code, {"effect": number},
                          lambda p, d: np.broadcast_to(_down(p["effect"], rows, shape), shape), kind=kind)  # fmt: skip
    code = [f'row = pm.Data("row", np.array({rows.tolist()}))', effects,
            f"eta = effect[row][({spread},)] + np.zeros({shape})"]  # fmt: skip
    return Parameters(code, {"effect": number},
                      lambda p, d: np.broadcast_to(_down(p["effect"], d["row"], shape), shape),
                      {"row": rows}, {"row": lambda r: r.integers(0, number, shape[0])}, kind)  # fmt: skip


def _down(effect, rows, shape):
    return np.atleast_1d(effect)[rows].reshape(-1, *(1,) * (len(shape) - 1))


@dataclass(frozen=True)
class Counts:
    """A distribution of counts given ``eta``."""

    name: str
    code: str
    low: np.ndarray
    high: np.ndarray
    log_p: Callable | None  # of counts and eta of a cell
    rows: Callable | None = None  # of counts and etas of a row, for distributions of rows
    allowed: np.ndarray | None = None  # counts with positive probability, if some have none


BOUNDED = ["binomial", "binomial of each", "uniform", "categorical", "beta-binomial", "truncated Poisson"]
UNBOUNDED = [
    "Poisson", "Poisson", "negative binomial", "geometric", "zero-inflated Poisson", "hurdle Poisson", "mixture",
]  # fmt: skip
ROWS = ["multinomial rows", "Dirichlet-multinomial rows"]


def counts(rng, frame, kinds, row_totals=None):
    """Draw a random distribution; distributions of rows have the given row totals."""
    shape, size = frame.shape, frame.size
    name = pick(rng, kinds)

    def limits(low, high):
        return np.full(size, low), np.broadcast_to(np.ravel(high), (size,)).copy()

    if name == "Poisson":
        return Counts(
            name, "pm.Poisson.dist(pm.math.exp(eta))", *limits(0, FAR), lambda x, e: own.poisson(x, np.exp(e))
        )
    if name == "negative binomial":
        alpha = pick(rng, [0.7, 2.0])
        code = f"pm.NegativeBinomial.dist(mu=pm.math.exp(eta), alpha={alpha})"
        return Counts(name, code, *limits(0, FAR), lambda x, e: own.negative_binomial(x, np.exp(e), alpha))
    if name == "geometric":
        return Counts(name, "pm.Geometric.dist(pm.math.sigmoid(eta))", *limits(1, FAR),
                      lambda x, e: own.geometric(x, e))  # fmt: skip
    if name == "zero-inflated Poisson":
        return Counts(name, "pm.ZeroInflatedPoisson.dist(0.6, pm.math.exp(eta))", *limits(0, FAR),
                      lambda x, e: own.zero_inflated(x, own.logit(0.6), own.poisson(x, np.exp(e))))  # fmt: skip
    if name == "hurdle Poisson":
        return Counts(name, "pm.HurdlePoisson.dist(0.7, pm.math.exp(eta))", *limits(0, FAR),
                      lambda x, e: own.hurdle(x, own.logit(0.7), lambda k: own.poisson(k, np.exp(e))))  # fmt: skip
    if name == "mixture":
        code = "pm.Mixture.dist([0.3, 0.7], [pm.Poisson.dist(pm.math.exp(eta)), pm.Poisson.dist(4 * pm.math.exp(eta))])"
        return Counts(name, code, *limits(0, FAR), lambda x, e: own.mixture(
            np.log([0.3, 0.7]), own.poisson(x, np.exp(e)), own.poisson(x, 4 * np.exp(e))))  # fmt: skip
    most = int(rng.integers(2, 6))
    if name == "binomial":
        return Counts(name, f"pm.Binomial.dist({most}, pm.math.sigmoid(eta))", *limits(0, most),
                      lambda x, e: own.binomial(x, most, e))  # fmt: skip
    if name == "binomial of each":
        each = rng.integers(1, 5, shape)
        code = f"pm.Binomial.dist(np.array({each.tolist()}), pm.math.sigmoid(eta))"
        return Counts(name, code, *limits(0, each), None, allowed=each)
    if name == "uniform":
        low = int(rng.integers(0, 2))
        code = f"pm.DiscreteUniform.dist({low}, {most}, shape={shape})"
        return Counts(name, code, *limits(low, most), lambda x, e: own.discrete_uniform(x, low, most))
    if name == "beta-binomial":
        code = f"pm.BetaBinomial.dist(n={most}, alpha=pm.math.exp(eta), beta=1.5)"
        return Counts(name, code, *limits(0, most), lambda x, e: own.beta_binomial(x, most, np.exp(e), 1.5))
    if name == "truncated Poisson":
        low = int(rng.integers(0, 2))
        code = f"pm.Truncated.dist(pm.Poisson.dist(pm.math.exp(eta)), lower={low}, upper={most})"
        return Counts(
            name,
            code,
            *limits(low, most),
            lambda x, e: own.truncated(x, lambda k: own.poisson(k, np.exp(e)), low, most),
        )
    if name == "categorical":
        kept = rng.random(most + 1) < 0.6
        kept[[int(rng.integers(0, 2)), most]] = True
        code = (
            f"pm.Categorical.dist(p=(lambda w: w / w.sum(axis=-1, keepdims=True))(np.array({kept.astype(int).tolist()})"
            f" * pm.math.exp((eta + np.zeros({shape}))[..., None] * np.array({(np.arange(most + 1) / 2).tolist()}))))"
        )

        def log_p(x, e):
            weight = kept * np.exp(e * np.arange(most + 1) / 2)
            return own.categorical(x, weight / weight.sum())

        return Counts("categorical with holes", code, *limits(0, most), log_p, allowed=np.flatnonzero(kept))
    n = np.array(row_totals)
    columns = np.round(rng.normal(0, 0.5, shape[-1]), 2)
    spread = f"(eta + np.zeros({shape}) + np.array({columns.tolist()}))"
    high = np.repeat(n.ravel(), shape[-1])
    if name == "multinomial rows":
        code = f"pm.Multinomial.dist(np.array({n.tolist()}), pm.math.softmax({spread}, axis=-1))"

        def rows(x, e, k):
            weight = np.exp(e + columns)
            return own.multinomial(x, weight / weight.sum(), n.ravel()[k])
    else:
        code = f"pm.DirichletMultinomial.dist(np.array({n.tolist()}), pm.math.exp({spread}))"

        def rows(x, e, k):
            return own.dirichlet_multinomial(x, np.exp(e + columns), n.ravel()[k])

    return Counts(name, code, *limits(0, high), None, rows)


def terms(law, frame, eta):
    """Return log probabilities of the cells, or of the rows."""
    flat = np.ravel(eta)
    if law.rows is not None:
        width = frame.shape[-1]
        cells = np.arange(frame.size).reshape(-1, width)
        return [Term(tuple(row.tolist()), lambda t, k=k, e=flat[row]: law.rows(t, e, k)) for k, row in enumerate(cells)]
    if law.name == "binomial of each":
        each = np.ravel(law.allowed)
        return [Term((k,), lambda t, k=k: own.binomial(t[:, 0], each[k], flat[k])) for k in range(frame.size)]
    return [Term((k,), lambda t, k=k: law.log_p(t[:, 0], flat[k])) for k in range(frame.size)]
