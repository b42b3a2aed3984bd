"""Sampling of 22 models of PyMC's example gallery, each with a noisy release or an exact total of its counts.

Run with ``python benchmarks/situations.py [model ...]``. ``tests/combinations/test_combinations.py`` checks the
densities of these models by enumeration. A line shows the largest R-hat, the smallest bulk ESS, divergences and CPU
seconds with compilation, for four chains of 1,000 draws after 1,000 for tuning, with PyMC's default sampler.

``python benchmarks/situations.py forms [model ...]`` compares ten models of 30 areas with the sums that an expert
writes with PyMC alone, over all counts up to 40 above the largest noisy count, and with models that observe the
confidential counts. The first two forms have the same density and coordinates, so that NUTS needs the same number of
gradients, and effective draws per CPU second differ by the time of a gradient. *Deviation* is the largest difference of
their log densities at four points near the mode, up to a constant. Times are the smallest of 15 turns, CPU microseconds
of the log density with its gradient.
"""

import logging
import sys
import time
import warnings
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from combinations.gallery import SITUATIONS
from scipy.optimize import minimize

import ppdinf as ppd
from ppdinf.diagnostics.convergence import convergence
from ppdinf.diagnostics.parametrization import diverging
from ppdinf.errors import DiagnosisWarning


def measure(name):
    situation = SITUATIONS[name]
    begun = time.process_time()
    model, _ = situation.model(marginalize=not situation.release.sampled_only)
    with model:
        idata = pm.sample(cores=1, chains=4, random_seed=1, progressbar=False, quiet=True)
    seconds = time.process_time() - begun
    free = [convergence(idata.posterior[rv.name]) for rv in model.free_RVs]
    rhat = max(part["r_hat"].max() for part in free)
    ess = min(part["ess_bulk"].min() for part in free)
    problems = len(ppd.diagnose(idata, model).problems)
    return f"{rhat:.3f}", f"{ess:,.0f}", int(diverging(idata).sum()), problems, f"{seconds:.0f}"


AREAS, RNG = 30, np.random.default_rng(1)
COVARIATE = RNG.normal(size=AREAS)
COUNTS = RNG.negative_binomial(4, 4 / (4 + 25 * np.exp(0.3 * COVARIATE)))
DEATHS = RNG.binomial(COUNTS, 0.3)
NOISY, NOISY_DEATHS = (x + RNG.geometric(0.4, AREAS) - RNG.geometric(0.4, AREAS) for x in (COUNTS, DEATHS))
GROUPS = np.column_stack([COUNTS, 60 + RNG.integers(40, size=AREAS)])
VOTES = RNG.binomial(GROUPS, [0.3, 0.6]).sum(axis=1)
LAW, AREA = ppd.laws.DoubleGeometric("1/2"), ppd.invariants.margin("area")
NEAR = np.arange(NOISY.max() + 41)


def level_and_slope(z):
    return pm.Normal("level", 3, 1) + pm.Normal("slope", 0, 0.5) * z


def log_noise(noisy, x):
    return -abs(noisy[:, None] - x) / 2


def measured(noisy, public=None):
    return ppd.Measurements({"area": range(AREAS)}, ppd.measured(AREA, noisy, LAW), public=public)


def cells(dist, after=None, noisy_deaths=False):
    """Return the three forms of a model of independent cells; `after(t, x)` is the distribution of deaths."""

    def build(form):
        z = COVARIATE if form != "expert" else COVARIATE[:, None]
        with pm.Model(coords={"area": range(AREAS)}) as model:
            counts, of_deaths = dist(z), after and partial(after, pm.Normal("t", 0, 1))
            if form == "expert":
                log_p = pm.logp(counts, NEAR) + log_noise(NOISY, NEAR)
                if noisy_deaths:
                    deaths = np.arange(NOISY_DEATHS.max() + 41)
                    each = pm.logp(of_deaths(NEAR[:, None]), deaths) + log_noise(NOISY_DEATHS, deaths)[:, None]
                    log_p += pt.logsumexp(each, axis=2)
                elif after:
                    log_p += pm.logp(of_deaths(NEAR), DEATHS[:, None])
                pm.Potential("released", pt.logsumexp(log_p, axis=1).sum())
                return model
            if form == "plain":
                x = COUNTS
                model.register_rv(counts, "x", observed=COUNTS)
            else:
                x = ppd.PartiallyPrivate("x", counts, measured(NOISY))
            if noisy_deaths and form == "natural":
                ppd.PartiallyPrivate("d", of_deaths(x), measured(NOISY_DEATHS))
            elif after:
                model.register_rv(of_deaths(x), "d", observed=DEATHS)
        return model

    return build


def effects(z):
    spread = pm.HalfNormal("spread", 0.5)
    return level_and_slope(z) + spread * pm.Normal("effect", shape=AREAS).reshape(np.shape(z))


def persons(z):
    return pm.NegativeBinomial.dist(mu=25 * np.exp(0.3 * z), alpha=4)


def tumours(z):
    mean, size = pm.math.sigmoid(level_and_slope(z) - 5), pm.Gamma("size", 4, 0.2)
    return pm.BetaBinomial.dist(mean * size, (1 - mean) * size, 200)


def votes(form):
    """Return the forms of ecological inference: groups of public size, and votes by area."""
    coords = {"area": range(AREAS), "group": range(2)}
    with pm.Model(coords=coords) as model:
        level, slope = pm.Normal("level", 0, 1, shape=2), pm.Normal("slope", 0, 0.5, shape=2)
        logit = level + slope * COVARIATE[:, None]
        counts = pm.Binomial.dist(n=GROUPS, logit_p=logit)
        if form == "natural":
            public = AREA.on(ppd.as_table(GROUPS, dims=("area", "group")), values=VOTES)
            ppd.models.ConstrainedCounts("x", counts, public, dims=tuple(coords))
        elif form == "plain":
            model.register_rv(counts, "x", observed=RNG.binomial(GROUPS, 0.4))
        else:
            own = np.arange(GROUPS[:, 0].max() + 1)
            parts = [
                pm.logp(pm.Binomial.dist(n=GROUPS[:, k : k + 1], logit_p=logit[:, k : k + 1]), x)
                for k, x in enumerate((own, VOTES[:, None] - own))
            ]
            pm.Potential("votes", pt.logsumexp(parts[0] + parts[1], axis=1).sum())
    return model


def pairs(form):
    """Return the forms of Poisson counts with exact sums of pairs of areas."""
    state, sums = np.repeat(np.arange(AREAS // 2), 2), NOISY.reshape(-1, 2).sum(axis=1)
    with pm.Model(coords={"area": range(AREAS), "state": ("area", state)} if form == "natural" else None) as model:
        mean = pm.math.exp(level_and_slope(COVARIATE))
        if form == "natural":
            table = ppd.as_table(NOISY, dims=["area"]).assign_coords(state=("area", state))
            release = ppd.Release(table, ppd.GeneralizedLaplace(ppd.invariants.groups("state"), epsilon="1/2"))
            ppd.PartiallyPrivate("x", pm.Poisson.dist(mean), release)
        elif form == "plain":
            pm.Poisson("x", mean, observed=COUNTS)
        else:
            x = np.arange(sums.max() + 1)
            parts = [(mean[::2, None], NOISY[::2], x), (mean[1::2, None], NOISY[1::2], sums[:, None] - x)]
            log_p = sum(pm.logp(pm.Poisson.dist(m), at) + log_noise(y, at) for m, y, at in parts)
            pm.Potential("released", pt.logsumexp(log_p, axis=1).sum())
    return model


FORMS = {
    "Poisson regression": cells(lambda z: pm.Poisson.dist(pm.math.exp(level_and_slope(z)))),
    "Poisson, effects of areas": cells(lambda z: pm.Poisson.dist(pm.math.exp(effects(z)))),
    "negative binomial, unknown shape": cells(
        lambda z: pm.NegativeBinomial.dist(mu=pm.math.exp(level_and_slope(z)), alpha=pm.Gamma("alpha", 4, 1))
    ),
    "binomial of 200": cells(lambda z: pm.Binomial.dist(n=200, logit_p=level_and_slope(z) - 5)),
    "beta-binomial of 200": cells(tumours),
    "deaths among noisy persons": cells(persons, lambda t, x: pm.Binomial.dist(n=x, logit_p=t)),
    "events at noisy persons": cells(persons, lambda t, x: pm.Poisson.dist(x * pm.math.exp(t))),
    "noisy deaths among noisy persons": cells(persons, lambda t, x: pm.Binomial.dist(n=x, logit_p=t), True),
    "ecological inference": votes,
    "exact sums of pairs": pairs,
}


def compare_forms(name):
    """Return microseconds of the natural, the expert's and the plain form, and how the first two deviate."""
    evaluations, values = [], []
    for form in ("natural", "expert", "plain"):
        model = FORMS[name](form)
        function = model.logp_dlogp_function(ravel_inputs=True)
        function.set_extra_values({})
        if form == "natural":
            start = np.concatenate([np.ravel(value) for value in model.initial_point().values()])
            mode = minimize(lambda x, f=function: [-part for part in f(x)], start, jac=True, method="L-BFGS-B").x
            points = [mode + 0.1 * np.random.default_rng(k).normal(size=mode.size) for k in range(4)]
        values.append(np.array([float(function(point)[0]) for point in points]))
        evaluations.append(function)
    best = np.full(3, np.inf)
    for _ in range(15):
        for k, function in enumerate(evaluations):
            begun = time.process_time()
            for turn in range(20):
                function(points[turn % 4])
            best[k] = min(best[k], (time.process_time() - begun) / 20)
    deviation = np.ptp(values[0] - values[1])
    natural, expert, plain = 1e6 * best
    return (*(f"{one:,.0f}" for one in (natural, expert, plain)), f"{expert / natural:.2f}", f"{deviation:.0e}")


def main():
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", DiagnosisWarning)
    if sys.argv[1:2] == ["forms"]:
        line = "{:<34}{:>9}{:>9}{:>9}{:>18}{:>11}".format
        print(line("model", "natural", "expert", "plain", "expert / natural", "deviation"))
        for name in sys.argv[2:] or FORMS:
            print(line(name, *compare_forms(name)), flush=True)
        return
    line = "{:<30}{:<14}{:>7}{:>8}{:>12}{:>10}{:>7}".format
    print(line("model", "release", "R-hat", "ESS", "divergences", "problems", "CPU s"))
    for name in sys.argv[1:] or SITUATIONS:
        print(line(name, SITUATIONS[name].published, *measure(name)), flush=True)


if __name__ == "__main__":
    main()
