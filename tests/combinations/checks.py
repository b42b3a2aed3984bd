"""Run a composition and compare draws of `denoise`, and draws and densities of mechanisms, with the enumerator."""

import numpy as np

from combinations.check_posterior import check_posterior, repeated
from combinations.composition import ALARM, HEADER, SECONDS, FaultError, ReportedError, outcome, run_code
from combinations.enumerator import Listed

FLAT = """
with pm.Model(coords=seen.coords) as model:
    level = pm.Normal("level", 0, 1)
    ppd.PartiallyPrivate("x", pm.DiscreteUniform.dist(0, 1000, shape={shape}), release=seen)
"""
TILTED = FLAT.replace("pm.DiscreteUniform.dist(0, 1000,", "pm.Poisson.dist(0.3,")


def check_denoised(composition, *, model=None, number=400):
    """Check draws, summaries and sums of `ppdinf.denoise` with a flat prior, and draws of a model with this prior."""
    import ppdinf as ppd

    namespace = {}
    exec(HEADER, namespace)
    yield 1
    stage, posed = composition.stages[0], composition.stages[0].posed
    run_code(stage, namespace)
    posterior = ppd.denoise(namespace["seen"], draws=number, prior="flat", rng=composition.seed, progressbar=False)
    draws = posterior.draws
    if draws.dims != ("chain", "draw", *posed.frame.dims):
        raise FaultError(f"draws have the dimensions {draws.dims}")
    listed = Listed.of(posed.system, posed.published)
    flat = draws.values.reshape(2, number, -1)
    # contradicting numbers have a posterior, which must be right in spite of the reported problem
    problems = [problem for problem in posterior.problems if not problem.startswith("the draws contradict")]
    try:
        compare_draws(flat, listed, f"denoise, {posterior.plan}", exact="exactly" in posterior.plan)
    except FaultError:
        if problems:
            raise ReportedError("; ".join(problems)) from None
        raise
    check_summaries(posterior, posed, flat)
    if model is not None and not problems:
        exec(model.format(shape=posed.frame.shape), namespace)
        tables, exact = modelled(namespace["model"], composition.seed, 2 * number)
        compare_draws(tables.reshape(*tables.shape[:2], -1), listed, "a flat model", exact)


def modelled(model, seed, number):
    """Return tables of the model's posterior, shape (chain, draw, ...), and whether they are independent."""
    import pymc as pm

    import ppdinf as ppd

    if [v.name for v in model.value_vars] == ["level"]:  # nothing that the table depends on
        idata = repeated({"level": np.array(0.0)}, number)
        return ppd.sample_confidential(idata, model, name="x", random_seed=seed).values, True
    idata = pm.sample(number, tune=300, chains=2, cores=1, random_seed=seed, progressbar=False, quiet=True,
                      compute_convergence_checks=False, model=model)  # fmt: skip
    if "x" in idata.posterior:
        return idata.posterior["x"].values, False
    return ppd.sample_confidential(idata, model, name="x", random_seed=seed).values, False


def compare_draws(draws, listed, what, exact):
    """Compare means with those of listed tables, and the distribution of exact draws, shape (chain, draw, cell)."""
    import arviz as az

    tables = draws.reshape(-1, draws.shape[-1])
    p = listed.p_value(tables) if exact else None
    mean, sd = listed.moments()
    wrong = p is not None and p < ALARM
    for cell in range(mean.size):
        values = draws[..., cell].astype(float)
        if values.std() == 0:
            wrong |= sd[cell] > 0.35 or abs(values.mean() - mean[cell]) > 0.05
            continue
        effective = float(min(az.ess(values), len(tables)))
        wrong |= abs(values.mean() - mean[cell]) > 6.5 * max(sd[cell], values.std() / 3) / np.sqrt(effective)
    if wrong or listed.p_value(tables[:1]) == 0.0:
        raise FaultError(f"{what}: p = {p}; means {tables.mean(axis=0).tolist()}, expected {mean.round(3).tolist()}, "
                         f"sd {sd.round(3).tolist()}")  # fmt: skip


def check_summaries(posterior, posed, flat):
    """Check that estimates, sums by label and probabilities are those of the draws."""
    import ppdinf as ppd

    table = posterior.summary()
    if not np.allclose(table["estimate"].to_numpy(), flat.mean(axis=(0, 1))):
        raise FaultError(f"summary: {table}")
    dim = posed.frame.dims[0]
    one = posterior.sums(ppd.invariants.margin(dim))
    axes = [d for d in posed.frame.dims if d != dim]
    right = posterior.draws.sum(axes)
    if posed.frame.shape[0] == 1:  # a single sum has no dimension
        right = right.isel({dim: 0}, drop=True)
    elif list(one[dim].values) != list(posed.frame.labels[0]):
        raise FaultError(f"sums for every {dim}: {one}")
    if not (one == right).all():
        raise FaultError(f"sums for every {dim}: {one}")
    more = one.isel({dim: 0}) > one.isel({dim: -1}) if dim in one.dims else one > 1
    if not np.isclose(posterior.summary(more)["estimate"].to_numpy().ravel()[0], float(more.mean())):
        raise FaultError("the summary of a comparison is not its probability")


def check_mechanism(composition, *, dist=False):
    """Check public sums of draws and of a release, the distribution of draws, and densities."""
    namespace = {}
    exec(HEADER, namespace)
    yield 1
    stage, drawn, truth = composition.stages[0], composition.stages[0].posed, composition.truth
    run_code(stage, namespace)
    table, mechanism = namespace["table"], namespace["mechanism"]
    listed = drawn.enumerable or drawn.bounded or drawn.cellwise is not None
    number = 1200 if listed else 300 if drawn.alike and truth.size < 50 else 5
    noisy = mechanism.simulate(table, draws=number, rng=composition.seed)
    if noisy.dims != ("draw", *table.dims) or any(list(noisy[d].values) != list(table[d].values) for d in table.dims):
        raise FaultError(f"simulate returns dimensions {noisy.dims} or other labels")
    y = noisy.values.reshape(number, -1)
    check_kept(drawn, truth, y, "simulate")
    release = mechanism.release(table)
    check_kept(drawn, truth, np.reshape(release.table.values, (1, -1)), "release")
    if drawn.cellwise is not None:
        cells = [((k,), np.arange(len(drawn.cellwise))[:, None], drawn.cellwise[x]) for k, x in enumerate(truth)]
        law = Listed([(c, t, np.log(p)) for c, t, p in cells])
    elif drawn.bounded:
        law = Listed([(tuple(range(truth.size)), *drawn.releases(truth))])
    elif drawn.enumerable:
        z, p = drawn.noise()
        law = Listed([(tuple(range(truth.size)), z + truth, np.log(p))])
    else:
        law = None
    if law is not None:
        p = law.p_value(y)
        if p < ALARM:
            raise FaultError(
                f"law of simulate: p = {p:.1e}; means {y.mean(axis=0)}, sd {y.std(axis=0)}, expected {law.moments()}"
            )
    elif drawn.alike and not drawn.real:
        check_alike(y - truth)
    if drawn.weigh is not None or drawn.cellwise is not None:
        check_logp(mechanism, drawn, table, truth, y, dist)


def check_kept(drawn, truth, y, what):
    off = np.abs(y @ drawn.rows.T - drawn.rows @ truth).max(initial=0)
    if off > (1e-6 if drawn.real else 0):
        raise FaultError(f"{what}: public sums are off by up to {off}")
    if (drawn.bounded or drawn.post) and (y < 0).any():
        raise FaultError(f"{what}: negative counts")


def check_alike(z):
    """Check noise of cells with identical distributions: means of 0, and equal mean size in both halves."""
    error = z.std() / np.sqrt(len(z)) + 1e-9
    size = np.abs(z)
    half = z.shape[1] // 2
    if half == 0:
        return
    differences = size[:, :half].mean(axis=1) - size[:, -half:].mean(axis=1)
    far = np.abs(z.mean(axis=0)).max() / error
    apart = abs(differences.mean()) / (differences.std() / np.sqrt(len(z)) + 1e-9)
    if far > 7 or apart > 6.5:
        raise FaultError(
            f"noise of cells with the same law differs: means {far:.1f} errors from 0, sizes {apart:.1f} apart"
        )


def check_logp(mechanism, drawn, table, truth, y, dist):
    """Check `logp` and `dist` at pairs of releases and tables, against the distribution with its normalizer."""
    rows = y[:3].astype(int)
    others = [truth, *rows] if not drawn.bounded and drawn.cellwise is None else [truth, *rows[:2]]
    found, expected = [], []
    for x in others:
        if drawn.cellwise is not None and x.max() >= len(drawn.cellwise):
            continue
        for one in rows:
            found.append(log_density(mechanism, table, one, x, dist))
            if drawn.cellwise is not None:
                expected.append(float(np.log(drawn.cellwise[x, one]).sum()))
            elif drawn.bounded:
                released, log_p = drawn.releases(x)
                expected.append(float(log_p[(released == one).all(axis=1)][0]))
            else:
                expected.append(float(drawn.weigh((one - x)[None])[0]))
    off = np.array(found) - np.array(expected)
    if not np.allclose(off, off[0], atol=1e-6):
        raise FaultError(f"{'dist' if dist else 'logp'}: differences {found}, expected {expected}")


def log_density(mechanism, table, y, x, dist):
    y, x = (table.copy(data=np.reshape(values, table.shape)) for values in (y, x))
    if not dist:
        return float(mechanism.logp(y, x))
    import pymc as pm
    import pytensor.tensor as pt

    labels = table.drop_vars([name for name in table.coords if name not in table.dims])
    variable = mechanism.dist(pt.constant(x.values), labels=table if list(table.coords) else labels)
    return float(pm.logp(variable, y.values).eval())


CHECKS = {"posterior": check_posterior, "denoise": check_denoised, "mechanism": check_mechanism}


def run(composition, seconds=SECONDS):
    """Check a composition; expensive checks run for some compositions only, by number."""
    seed = composition.seed
    options = {}
    if composition.way == "posterior":
        begins = any(f in composition.features for f in ("way: latent multinomial", "dependent: missing values"))
        options = {
            "gradient": seed % 3 == 0,
            "draws": seed % 7 == 0,
            "sampling": (begins and seed % 2 == 0) or seed % 41 == 0,
        }
    elif composition.way == "mechanism":
        options = {"dist": seed % 4 == 0}
    elif seed % 20 == 18:
        options = {"model": FLAT}
    return outcome(composition, CHECKS[composition.way](composition, **options), seconds)
