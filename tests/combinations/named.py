"""Named releases of small tables and named data models, for PyMC and for the enumerator, and draws of the table."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pymc as pm
import xarray as xr
from pymc.pytensorf import gradient, rewrite_pregrad
from scipy.special import gammaln, logsumexp

import ppdinf as ppd
from combinations import formulas as own
from combinations.check_posterior import repeated
from combinations.enumerator import System, Term
from combinations.frames import Frame
from combinations.named_laws import DATA_MODELS
from combinations.posed import Posed
from ppdinf.invariants import Public, between, groups, margin, nonnegative, total
from ppdinf.samplers.lattice_gibbs import LatticeGibbs

TOTAL = ((1, 1, 1),)


@dataclass(frozen=True)
class Published:
    """A release. `log_weight` is that of the noise with epsilon (or 1 / sigma) times its argument, to make it wrong."""

    mechanism: Callable
    noisy: tuple
    log_weight: Callable
    A: tuple = TOTAL
    a: tuple | None = None  # public values, if the noisy table does not have them
    high: int | None = None  # the largest public count; otherwise determined by the public sums
    base: Callable | None = None  # log base measure of a release
    normalised: bool = False  # whether C(x) depends on the table
    sampled_only: bool = False
    reach: int | None = None  # maximum of the noise; `diagnose` reports counts further away
    dims: tuple | None = None
    coords: dict | None = None
    known: Callable | None = None  # further public knowledge

    @property
    def values(self):
        if self.a is not None:
            return self.a
        return tuple(int(np.dot(row, np.ravel(self.noisy))) for row in self.A)

    def release(self):
        table = np.array(self.noisy)
        if self.dims is not None:
            table = xr.DataArray(table, dims=self.dims, coords=self.coords)
        known = None if self.known is None else self.known().on(table, values=np.array(self.a))
        return ppd.Release(table, self.mechanism(), public=known)

    @property
    def frame(self):
        shape = np.shape(self.noisy)
        dims = self.dims or tuple(f"dim_{k}" for k in range(len(shape)))
        return Frame(dims, tuple(tuple(range(n)) for n in shape), {}, "positions")

    def system(self, low=0, high=None):
        """Return its tables within limits of the data model."""
        largest = max(self.values, default=0) if self.high is None else self.high
        high = largest if high is None else min(high, largest) if low >= 0 else high
        size = np.size(self.noisy)
        equal = [(np.array(row), value) for row, value in zip(self.A, self.values, strict=True)]
        return System(np.full(size, low), np.full(size, high), equal, most=20_000)

    def terms(self, *, times=1.0, normalised=None):
        """Return the log density of the release given a table.

        `times` multiplies epsilon, `normalised` states whether C(x) is divided by: both can be made wrong on purpose.
        """
        y, weigh, cells = np.ravel(self.noisy), self.log_weight(times), tuple(range(np.size(self.noisy)))
        base = self.base or (lambda y: 0.0)
        constant = base(y) - (self.release().likelihood.constant() or 0.0)
        released = self.system().tables(cells) if self.normalised else None

        def log_noise(x):
            if not (self.normalised if normalised is None else normalised):
                return weigh(y - x) + constant
            return weigh(y - x) + constant - logsumexp(weigh(released[None] - x[:, None]) + base(released), axis=1)

        return [Term(cells, log_noise)]


def double_geometric(epsilon):
    return lambda times: own.l1(times * epsilon)


def _resembles(previous, concentration, pseudo_count):
    """Return Dirichlet-multinomial weights of a table, up to a constant of all tables with its total."""
    alpha = concentration * np.array(previous) + pseudo_count
    return lambda y: (gammaln(np.asarray(y) + alpha) - gammaln(alpha) - gammaln(np.asarray(y) + 1.0)).sum(axis=-1)


def laplace(public, epsilon, noisy, **more):
    rate = double_geometric(float(Fraction(epsilon)))
    return Published(lambda: ppd.GeneralizedLaplace(public, epsilon=epsilon), noisy, rate, **more)


ROWS, COLUMNS = ((1, 1, 1, 0, 0, 0), (0, 0, 0, 1, 1, 1)), ((1, 0, 0, 1, 0, 0), (0, 1, 0, 0, 1, 0), (0, 0, 1, 0, 0, 1))
TWO_WAY = ((4, -1, 2), (0, 3, 1))
BOUNDED = total() & nonnegative()
CONGENIAL = {"secrets": "whether one person is a case", "base_measure": ppd.mechanisms.DirichletMultinomial([3, 0, 5])}
PUBLISHED = {
    "total": laplace(total(), "1/2", (4, -1, 5)),
    "two persons": laplace(total(), "1/2", (2, -1, 1)),
    "nothing": laplace(Public(), 1, (3, -1), A=(), high=120, reach=26),
    "groups": laplace(groups("state"), "1/4", (5, 0, -1, 4), A=((1, 1, 0, 0), (0, 0, 1, 1)), dims=("county",),
                      coords={"state": ("county", list("AABB"))}),
    "gaussian": Published(lambda: ppd.GeneralizedGaussian(total(), sigma=2), (3, 5, 0),
                          lambda times: own.gaussian(2.0 / times)),
    "staircase": Published(lambda: ppd.Conditioned(total(), noise=ppd.mechanisms.Staircase(1, sensitivity=2, step=1)),
                           (1, 7, 1), lambda times: own.staircase(times, 2, 1)),
    "known apart": laplace(Public(), "1/2", (6, -2, 7), a=(9,), known=total),
    "at most 5": laplace(total() & between(0, 5), "1/2", (7, 2, 0), high=5),
    "suppressed": Published(lambda: ppd.Suppression(BOUNDED), (7, 0, 0), lambda times: lambda z: np.zeros(len(z))),
    "bounded": Published(lambda: ppd.Conditioned(BOUNDED, noise=ppd.mechanisms.DoubleGeometric("1/2")), (0, 0, 8),
                         double_geometric(0.5), normalised=True, sampled_only=True),
    "congenial": Published(lambda: ppd.WassersteinExponential(BOUNDED, epsilon=2, sensitivity=2, **CONGENIAL),
                           (3, 1, 4), double_geometric(0.5), base=_resembles([3, 0, 5], 1.0, 0.5), normalised=True,
                           sampled_only=True),
    "rows": laplace(margin("sex"), "1/2", TWO_WAY, A=ROWS, dims=("sex", "age")),
    "margins": laplace(margin("sex") & margin("age"), "1/2", TWO_WAY, A=(*ROWS, *COLUMNS), sampled_only=True,
                       dims=("sex", "age")),
}  # fmt: skip


@dataclass
class NamedPosed(Posed):
    """A posterior of a named release without priors; `log_joint` takes values and tables in rows."""

    log_joint: Callable | None = None

    @classmethod
    def of(cls, release, log_joint, low=0, high=None, **wrong):
        return cls(release.frame, release.system(low, high), release.terms(**wrong), log_joint=log_joint)

    @property
    def priors(self):
        return {}

    def terms(self, point):
        return [*self.published, Term(tuple(range(self.frame.size)), lambda x: self.log_joint(point, x))]

    def table_list(self):
        """Return all tables, one per row."""
        return self.system.tables(tuple(range(self.frame.size)))


@dataclass(frozen=True)
class Named:
    """A data model and a release, by their names."""

    data: str
    published: str

    @property
    def law(self):
        return DATA_MODELS[self.data]

    @property
    def release(self):
        return PUBLISHED[self.published]

    def model(self, *, marginalize):
        """Build the model: the table is called x; theta has no prior."""
        release = self.release.release()
        with pm.Model(coords=release.coords) as model:
            theta = pm.Flat("theta", shape=len(self.law.ordinary[0]))
            eta = self.law.predictors(theta, release.table.shape)
            ppd.PartiallyPrivate("x", self.law.dist(theta, eta), release=release, marginalize=marginalize)
        return model

    def posed(self, power=1.0, **wrong):
        """Return the posterior; a wrong one has another noise or a power of the data model."""

        def log_joint(point, x):
            return power * self.law.log_probability(np.asarray(point["theta"]), x)

        return NamedPosed.of(self.release, log_joint, self.law.low, self.law.high, **wrong)

    def points(self, which):
        return [{"theta": np.array(theta)} for theta in getattr(self.law, which)]

    def beyond(self, point):
        """Return whether the posterior is further from the release than its noise."""
        if self.release.reach is None:
            return False
        ((_, tables, p),) = self.posed().listed(point)[0].probabilities()
        return bool((np.abs(tables[p > 1e-11] - np.ravel(self.release.noisy)) > self.release.reach).any())


def with_gradient(model, **mode):
    """Compile the log density of a model and its gradient, as PyMC does, in one function of a point."""
    log_p = model.logp()
    return model.compile_fn([log_p, gradient(rewrite_pregrad(log_p), model.continuous_value_vars)], **mode)


def drawn_given(model, point, draws, seed):
    """Return tables of a model that has marginalized them, drawn given the point, as rows."""
    drawn = ppd.sample_confidential(repeated(point, draws), model, name="x", random_seed=seed)
    return np.asarray(drawn).reshape(draws, -1)


def chain(model, point, draws, seed, sweeps=8):
    """Return tables of a chain, thinned until they are nearly independent."""
    step, state = _step(model, point, seed, sweeps)
    found = np.empty((draws, int(np.prod(state["x"].shape))), dtype=np.int64)
    for k in range(-5, draws):
        state, _ = step.step(state)
        found[max(k, 0)] = np.ravel(state["x"])
    return found


def moved_once(model, point, starts, seed, sweeps=2):
    """Return the results of one step from each table: independent, whether the step is accepted or not."""
    step, state = _step(model, point, seed, sweeps)
    shape = state["x"].shape
    return np.array([np.ravel(step.step(state | {"x": start.reshape(shape)})[0]["x"]) for start in starts])


def _step(model, point, seed, sweeps):
    step = LatticeGibbs([model["x"]], model=model, sweeps=sweeps, rng=np.random.default_rng(seed))
    step._conditional = remembered(step._conditional)  # all other values are constant: windows repeat
    return step, model.initial_point(random_seed=seed) | point


def remembered(function):
    """Evaluate once for each of the arguments."""
    results = {}

    def of(*arguments):
        key = tuple(np.asarray(value).tobytes() for value in arguments)
        if key not in results:
            results[key] = function(*arguments)
        return [value.copy() for value in results[key]]

    return of
