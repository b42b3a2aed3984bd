"""Events among persons whose numbers are released with noise: posteriors on a grid, and those that ignore the noise.

Twenty areas, ten of them rural with fewer persons; persons ~ negative binomial around a public projection, events ~
Poisson(persons * exp(level + contrast * rural)), the total of persons public. Level and contrast lie on a grid, so that
posteriors by summation are exact.
"""

from fractions import Fraction

import numpy as np
import pymc as pm
from scipy import stats

import ppdinf as ppd

RURAL = np.repeat([1, 0], 10)
PROJECTED = np.where(RURAL, 8.0, 30.0)
SPREAD = 4.0  # variance of the persons: projected + projected**2 / SPREAD
LEVEL, CONTRAST = np.log(0.4) + np.linspace(-1, 1, 21), np.linspace(-1.6, 1.6, 21)
PRIOR = np.outer(stats.norm.pdf(LEVEL, np.log(0.4), 0.4), stats.norm.pdf(CONTRAST, 0, 0.6))
PRIOR = PRIOR / PRIOR.sum()


def simulate(epsilon, rng):
    """One truth, as indices into the grid, the release and the events."""
    at = np.unravel_index(rng.choice(PRIOR.size, p=PRIOR.ravel()), PRIOR.shape)
    persons = rng.negative_binomial(SPREAD, SPREAD / (SPREAD + PROJECTED))
    events = rng.poisson(persons * rates(*at))
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=epsilon)
    noisy = mechanism.simulate(persons, draws=1, rng=rng).values[0]
    return at, ppd.Release(noisy, mechanism), events


def rates(level, contrast):
    """Events per person in every area, at indices into the grid."""
    return np.exp(LEVEL[level] + CONTRAST[contrast] * RURAL)


def all_rates():
    """Events per person at all points of the grid: in rural areas, in others."""
    return np.exp(np.add.outer(LEVEL, CONTRAST)), np.exp(np.repeat(LEVEL[:, None], CONTRAST.size, axis=1))


def summed_out(release, events):
    """Posterior over the grid, the persons summed out.

    Rates are those of rural areas and of others, so that the sum over all tables is one over the persons of all rural
    areas together, and what the areas of one kind weigh at each of their totals is the same at every point of the grid.
    """
    y, epsilon = release.table.values, float(release.mechanism.epsilon)
    persons = np.arange(int(y.sum()) + 1)
    weights = stats.nbinom.logpmf(persons, SPREAD, (SPREAD / (SPREAD + PROJECTED))[:, None])
    weights = weights - epsilon * np.abs(y[:, None] - persons)
    likely = np.flatnonzero((weights > weights.max(axis=1, keepdims=True) - 60).any(axis=0))
    counts = persons[: likely[-1] + 1]
    weights = weights[:, : counts.size] + stats.poisson.logpmf(events[:, None], counts)  # at a rate of 1
    rural, other = (convolved(weights[kind == RURAL], persons.size) for kind in (1, 0))
    both, log_p = rural + other[::-1], np.log(PRIOR)
    of_rural, of_other = all_rates()
    terms = both + np.multiply.outer(of_other - of_rural, persons)
    most = terms.max(axis=-1)
    log_p += most + np.log(np.exp(terms - most[..., None]).sum(axis=-1)) - persons[-1] * of_other
    log_p += events[RURAL == 1].sum() * np.log(of_rural) + events[RURAL == 0].sum() * np.log(of_other)
    return normalised(log_p)


def convolved(weights, totals):
    """Log of the sums, at each total, over all counts of some areas that have it, of what their counts weigh.

    Sums that are e^-700 of the largest one are left out.
    """
    found, logs = np.eye(1, totals)[0], 0.0  # nobody
    for own in weights:
        found = np.convolve(found, np.exp(own - own.max()))[:totals]
        found, logs = found / found.max(), logs + own.max() + np.log(found.max())
    with np.errstate(divide="ignore"):
        return logs + np.log(found)


def model(release, events):
    """The model as an analyst writes it; its parameters are unbounded and have no prior."""
    with pm.Model(coords=release.coords) as model:
        level, contrast = pm.Flat("level"), pm.Flat("contrast")
        expected = pm.NegativeBinomial.dist(mu=PROJECTED, alpha=SPREAD)
        persons = ppd.PartiallyPrivate("persons", expected, release=release, marginalize=True)
        pm.Poisson("events", persons * pm.math.exp(level + contrast * RURAL), observed=events)
    return model


def taken_as_true(release, events):
    """Posterior over the grid where the released persons count as the true ones; below 1 they count as 1."""
    persons, log_p = np.maximum(release.table.values, 1), np.log(PRIOR)
    for kind, rate in zip((1, 0), all_rates(), strict=True):
        log_p += events[kind == RURAL].sum() * np.log(rate) - persons[kind == RURAL].sum() * rate
    return normalised(log_p)


def normalised(log_p):
    p = np.exp(log_p - log_p.max())
    return p / p.sum()


def summary(p, at, rng):
    """Of each parameter: position of the truth in its posterior, uniform if that is right; posterior mean; its sd."""
    found = {}
    for axis, (name, grid) in enumerate({"level": LEVEL, "contrast": CONTRAST}.items()):
        marginal = p.sum(axis=1 - axis)
        below = marginal[: at[axis]].sum()
        mean = marginal @ grid
        found[name] = {
            "position": below + rng.uniform() * marginal[at[axis]],
            "error": mean - grid[at[axis]],
            "sd": np.sqrt(marginal @ (grid - mean) ** 2),
        }
    return found


def study(epsilon, analyses, data_sets, seed=1):
    """Simulate, analyse and summarise: arrays by analysis, parameter and quantity."""
    rng = np.random.default_rng(seed)
    found = {analysis: [] for analysis in analyses}
    for _ in range(data_sets):
        at, release, events = simulate(Fraction(epsilon), rng)
        for name, analysis in analyses.items():
            found[name].append(summary(analysis(release, events), at, rng))
    return {
        name: {
            parameter: {key: np.array([row[parameter][key] for row in rows]) for key in rows[0][parameter]}
            for parameter in rows[0]
        }
        for name, rows in found.items()
    }
