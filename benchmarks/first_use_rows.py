"""The rows of benchmarks/first_uses.py: commands and models of a new user.

Run one with ``python benchmarks/first_use_rows.py ROW``. A row prints its figures on lines that begin with "figure: ".
Names of the package are those that older commits have, too. Models are sampled in 2 chains of 1,000 tuning steps and
1,000 draws.
"""

import sys
import time
from pathlib import Path

import numpy as np

import ppdinf as ppd

SEED = 1
ROWS = {}


def row(title, limit=300):
    """Register a function as a row; `limit` is in seconds of the clock."""

    def register(function):
        ROWS[function.__name__] = (title, limit, function)
        return function

    return register


def command(*arguments):
    """Run the command line of the package."""
    from ppdinf.cli import app

    try:
        app([str(argument) for argument in arguments], standalone_mode=False)
    except SystemExit as left:
        if left.code:
            raise


@row("`ppdinf demo`")
def demo():
    command("demo", "--output", "demo")


def saved(months):
    """Save a release of simulated cases of 67 counties; return its path."""
    cases = ppd.datasets.epidemic().cases
    table = cases.isel(month=slice(-months - 1, -1)) if months > 1 else cases.isel(month=-2, drop=True)
    table = table.drop_vars([name for name in table.coords if name not in (*table.dims, "population")])
    public = ppd.invariants.margin("month") if months > 1 else ppd.invariants.total()
    mechanism = ppd.GeneralizedLaplace(public & ppd.invariants.covariates("population"), epsilon="1/10")
    mechanism.release(table).save("cases.ppd")
    return "cases.ppd"


@row("`ppdinf infer`, 67 counties in one month")
def infer_month():
    command("infer", saved(1), "--exposure", "population", "--output", "report")


@row("`ppdinf infer`, 67 counties in 12 months")
def infer_year():
    command("infer", saved(12), "--exposure", "population", "--output", "report")


def counties(number, typical, epsilon="1/10", months=0):
    """Simulate counts of counties and release them; return release, populations, covariate and true counts."""
    rng = np.random.default_rng(SEED)
    persons = np.minimum(np.exp(rng.normal(10.2, 1.45, number)).astype(int) + 50, 10_000_000)
    x = rng.normal(0, 1, number)
    rate = np.exp(np.log(typical) - 10.2 + 0.3 * x + rng.normal(0, 0.3, number))
    expected = np.minimum(persons * rate, 1e5)
    if months:
        expected = expected[:, None] * np.exp(0.05 * np.arange(months))
    table = ppd.as_table(rng.poisson(expected), dims=["county", "month"] if months else ["county"])
    public = ppd.invariants.margin("month") if months else ppd.invariants.total()
    mechanism = ppd.GeneralizedLaplace(public, epsilon=epsilon)
    noisy = mechanism.simulate(table, draws=1, rng=SEED).squeeze("draw", drop=True)
    return ppd.Release(noisy, mechanism), persons, x, table.values


def sample(model):
    """Sample as a user does, and print the smallest effective sample size."""
    import arviz as az
    import pymc as pm

    begun = time.process_time()
    with model:
        idata = pm.sample(chains=2, cores=1, random_seed=SEED, progressbar=False, compute_convergence_checks=False)
    names = [variable.name for variable in model.free_RVs if variable.name in idata.posterior]
    found = az.summary(idata, var_names=names, kind="diagnostics", round_to="none")
    ess, seconds = float(found["ess_bulk"].min()), time.process_time() - begun
    print(f"figure: ESS {ess:.0f}, {ess / seconds:.0f} per CPU s, R-hat {found['r_hat'].max():.3f}")


def rate_model(family, release, persons, x, each=True, died=None):
    """Write a regression of counts on a covariate, with an effect of each county if `each`, and of deaths if given."""
    import pymc as pm

    with pm.Model(coords=release.coords) as model:
        log_rate = pm.Normal("level", -3, 2) + pm.Normal("slope", 0, 1) * x
        if each:
            log_rate = log_rate + pm.HalfNormal("spread", 1) * pm.Normal("z", 0, 1, dims="county")
        if family == "binomial":
            counts = pm.Binomial.dist(n=persons, p=pm.math.invlogit(log_rate))
        elif family == "negative binomial":
            counts = pm.NegativeBinomial.dist(mu=persons * pm.math.exp(log_rate), alpha=pm.Gamma("shape", 2, 0.2))
        else:
            counts = pm.Poisson.dist(persons * pm.math.exp(log_rate))
        noisy = ppd.PartiallyPrivate("cases", counts, release=release)
        if died is not None:
            pm.Binomial("deaths", n=noisy, p=pm.Beta("fatality", 1, 20), observed=died)
    return model


def natural(family, number, each):
    """Make a row that samples a regression of counts up to 100,000."""

    def run():
        release, persons, x, _ = counties(number, 2000)
        sample(rate_model(family, release, persons, x, each))

    run.__name__ = f"{family.replace(' ', '_')}_{number}"
    return row(f"{family} counts of {number:,} counties up to 100,000")(run)


for number in (67, 3143):
    natural("Poisson", number, True)
    natural("negative binomial", number, False)
    natural("binomial", number, True)


@row("deaths ~ binomial(noisy cases, p), 67 counties, cases in the thousands")
def deaths():
    release, persons, x, cases = counties(67, 2000)
    died = np.random.default_rng(SEED).binomial(cases, 0.02)
    sample(rate_model("negative binomial", release, persons, x, each=False, died=died))


@row("negative binomial, 67 counties in 12 months, county effects and trend")
def county_trends():
    import pymc as pm

    release, persons, _, _ = counties(67, 200, months=12)
    with pm.Model(coords=release.coords) as model:
        effect = pm.HalfNormal("spread", 1) * pm.Normal("z", 0, 1, dims="county")
        trend = pm.Normal("trend", 0, 0.5) * np.arange(12)
        mu = persons[:, None] * pm.math.exp(pm.Normal("level", -5, 2) + effect[:, None] + trend)
        ppd.PartiallyPrivate("cases", pm.NegativeBinomial.dist(mu=mu, alpha=pm.Gamma("shape", 2, 0.2)), release=release)
    sample(model)


@row("Poisson, 3,143 counties in 51 states with public totals, state and county effects", 600)
def states():
    import pymc as pm

    rng = np.random.default_rng(SEED)
    state = np.sort(np.concatenate([np.arange(51), rng.integers(0, 51, 3143 - 51)]))
    persons = np.exp(rng.normal(10.2, 1.45, 3143))
    rate = np.exp(-10.2 + rng.normal(0, 0.4, 51)[state] + rng.normal(0, 0.6, 3143))
    table = ppd.as_table(rng.poisson(persons * rate), dims=["county"]).assign_coords(state=("county", state))
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.groups("state"), epsilon="1/2")
    release = ppd.Release(mechanism.simulate(table, draws=1, rng=SEED).squeeze("draw", drop=True), mechanism)
    with pm.Model(coords=release.coords) as model:
        mu, ss, sc = pm.Normal("mu", -10, 2), pm.HalfNormal("ss", 1), pm.HalfNormal("sc", 1)
        zs, zc = pm.Normal("zs", 0, 1, shape=51), pm.Normal("zc", 0, 1, dims="county")
        counts = pm.Poisson.dist(persons * pm.math.exp(mu + ss * zs[state] + sc * zc))
        ppd.PartiallyPrivate("x", counts, release=release)
    sample(model)


@row("Poisson, 20 areas under a total, epsilon 1/4")
def areas():
    release, persons, x, _ = counties(20, 30, epsilon="1/4")
    sample(rate_model("Poisson", release, persons, x))


def gradient(family, epsilon):
    """Make a row that times one gradient of 67 counties under their total."""

    def run():
        release, persons, x, _ = counties(67, 100, epsilon=f"1/{epsilon}")
        model = rate_model(family, release, persons, x, each=family == "Poisson")
        f = model.logp_dlogp_function(ravel_inputs=True)
        point = model.initial_point() | {"level": np.log(100) - 10.2, "slope": 0.3}
        start = np.concatenate([np.ravel(value) for value in point.values()])
        points = start + 0.05 * np.random.default_rng(SEED).standard_normal((20, start.size))
        best = np.inf
        for _ in range(20):
            begun = time.process_time()
            for point in points:
                f(point)
            best = min(best, (time.process_time() - begun) / len(points))
        print(f"figure: {1e6 * best:,.0f} µs a gradient")

    run.__name__ = f"gradient_{family.replace(' ', '_')}_{epsilon}"
    return row(f"gradient, {family}, 67 counties under their total, epsilon 1/{epsilon}")(run)


for epsilon in (10, 100):
    gradient("Poisson", epsilon)
    gradient("negative binomial", epsilon)


@row("`denoise` of the README")
def denoise_readme():
    inv = ppd.invariants
    seen = ppd.Measurements(
        {"area": ["A", "B", "C"]},
        ppd.measured(inv.margin("area"), {"A": 31, "B": -2, "C": 12}, ppd.laws.DoubleGeometric("1/4")),
        public={inv.total(): 40},
    )
    print(ppd.denoise(seen, draws=500, rng=1, progressbar=False).summary().round(1))


def overlapping(deviation):
    """Make a row that denoises six overlapping sums of six cells."""

    def run():
        inv, law = ppd.invariants, ppd.laws.DiscreteGaussian(float(deviation))
        x = 100 * np.arange(1, 7).reshape(2, 3)
        noise = np.rint(np.random.default_rng(SEED).normal(0, deviation, 6)).astype(int)
        seen = ppd.Measurements(
            {"row": list("ab"), "column": list("xyz")},
            ppd.measured(inv.margin("row"), x.sum(1) + noise[:2], law),
            ppd.measured(inv.margin("column"), x.sum(0) + noise[2:5], law),
            ppd.measured(inv.total(), x.sum() + noise[5], law),
        )
        begun = time.process_time()
        ppd.denoise(seen, draws=500, rng=SEED, progressbar=False)
        print(f"figure: {time.process_time() - begun:.2f} CPU s in denoise")

    run.__name__ = f"denoise_overlapping_{deviation}"
    return row(f"`denoise`, six cells, six overlapping sums, standard deviation {deviation:,}")(run)


for deviation in (30, 3000):
    overlapping(deviation)


@row("`denoise` of a county of census queries, 2,016 cells")
def census():
    sys.path.append(str(Path(__file__).parent))  # last, so that it hides no module
    from denoise import county, published

    posterior = ppd.denoise(published(county(SEED), SEED, False), draws=200, rng=SEED, progressbar=False)
    print(f"figure: median ESS {posterior.convergence.ess_bulk.median():.0f}")


if __name__ == "__main__":
    ROWS[sys.argv[1]][2]()
