"""Draws and summaries of `ppdinf.denoise` against the enumerator."""

import numpy as np

from combinations.composition import HEADER
from combinations.enumerator import Listed
from combinations.outcomes import ALARM, FaultError, ReportedError, run_code


def check_denoised(composition):
    """Check draws, summaries and sums of `ppdinf.denoise` with a flat prior."""
    import arviz as az

    import ppdinf as ppd

    namespace = {}
    exec(HEADER, namespace)
    yield 1
    stage, posed = composition.stages[0], composition.stages[0].posed
    run_code(stage, namespace)
    posterior = ppd.denoise(namespace["seen"], draws=400, prior="flat", rng=composition.seed, progressbar=False)
    draws = posterior.draws
    if draws.dims != ("chain", "draw", *posed.frame.dims):
        raise FaultError(f"draws have the dimensions {draws.dims}")
    listed = Listed.of(posed.system, posed.published)
    flat = draws.values.reshape(2, 400, -1)
    p = listed.p_value(flat.reshape(800, -1)) if "exactly" in posterior.plan else None
    mean, sd = listed.moments()
    wrong = p is not None and p < ALARM
    for cell in range(posed.frame.size):
        values = flat[..., cell].astype(float)
        if values.std() == 0:
            wrong |= sd[cell] > 0.35 or abs(values.mean() - mean[cell]) > 0.05
            continue
        effective = float(min(az.ess(values), 800))
        wrong |= abs(values.mean() - mean[cell]) > 6.5 * max(sd[cell], values.std() / 3) / np.sqrt(effective)
    # contradicting numbers have a posterior, which must be right in spite of the reported problem
    problems = [problem for problem in posterior.problems if not problem.startswith("the draws contradict")]
    if wrong and problems:
        raise ReportedError("; ".join(problems))
    if wrong or listed.p_value(flat.reshape(800, -1)[:1]) == 0.0:
        raise FaultError(f"denoise: p = {p}, {posterior.plan}; means {flat.mean(axis=(0, 1)).tolist()}, expected "
                         f"{mean.round(3).tolist()}, sd {sd.round(3).tolist()}")  # fmt: skip
    check_summaries(posterior, posed, flat)


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
