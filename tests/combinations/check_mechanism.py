"""Draws, releases and densities of a mechanism against the enumerator."""

import numpy as np

from combinations.composition import HEADER
from combinations.enumerator import Listed
from combinations.outcomes import ALARM, FaultError, run_code


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
