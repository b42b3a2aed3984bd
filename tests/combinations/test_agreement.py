"""`denoise` with a flat prior and `PartiallyPrivate` with a flat data model agree on random measurements.

The counts of each cell are compared by a chi-square test of two samples, which alarms at 1e-8. Draws of chains are
thinned to half of their effective number. 100 measurements have some 450 cells: a false alarm has probability 5e-6.
"""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from combinations.check_posterior import repeated
from combinations.composition import HEADER
from combinations.generator import compose
from combinations.outcomes import FaultError, ReportedError, outcome, run_code

ALARM = 1e-8  # of one cell
MEASURED = range(3, 500, 5)  # seeds of the first 100 compositions without a data model
FLAT = """
with pm.Model(coords=seen.coords) as model:
    level = pm.Normal("level", 0, 1)
    ppd.PartiallyPrivate("x", pm.DiscreteUniform.dist(0, 1000, shape={shape}), release=seen)
"""
TILTED = FLAT.replace("pm.DiscreteUniform.dist(0, 1000,", "pm.Poisson.dist(0.3,")


def independent(draws):
    """Tables as rows: chains of shape (chain, draw, cell), thinned."""
    import arviz as az

    flat = draws.reshape(-1, draws.shape[-1])
    moving = draws[..., flat.std(axis=0) > 0].astype(float)
    least = min((float(az.ess(moving[..., k])) for k in range(moving.shape[-1])), default=len(flat))
    return flat if least > 0.8 * len(flat) else flat[:: int(np.ceil(2 * len(flat) / least))]


def modelled(namespace, frame, seed, draws):
    """Tables of the model's posterior, of shape (chain, draw, cell)."""
    import pymc as pm

    import ppdinf as ppd

    model = namespace["model"]
    if [v.name for v in model.value_vars] == ["level"]:  # nothing that the table depends on
        idata = repeated({"level": np.array(0.0)}, draws)
    else:
        idata = pm.sample(draws, tune=300, chains=2, cores=1, random_seed=seed, progressbar=False, quiet=True,
                          compute_convergence_checks=False, model=model)  # fmt: skip
    if "x" in idata.posterior:
        found = idata.posterior["x"]
    else:
        found = ppd.sample_confidential(idata, model, name="x", random_seed=seed)
    return found.values.reshape(*found.shape[:2], frame.size)


def p_value(one, two):
    """Chi-square test of two samples of counts; values that are rare in both are taken together."""
    values, place = np.unique(np.concatenate([one, two]), return_inverse=True)
    seen = np.array([np.bincount(place[: one.size], minlength=values.size),
                     np.bincount(place[one.size :], minlength=values.size)])  # fmt: skip
    often = seen.sum(axis=0) * min(one.size, two.size) >= 10 * (one.size + two.size)
    classes = np.column_stack([seen[:, often], seen[:, ~often].sum(axis=1)])
    classes = classes[:, classes.sum(axis=0) > 0]
    return float(chi2_contingency(classes, correction=False).pvalue) if classes.shape[1] > 1 else 1.0


def check_agreement(composition, number, model=FLAT):
    """Compare every cell of a composition that has measurements alone."""
    import ppdinf as ppd

    namespace, stage = {}, composition.stages[0]
    exec(HEADER, namespace)
    yield 1
    run_code(stage, namespace)
    frame = stage.posed.frame
    exec(model.format(shape=frame.shape), namespace)
    posterior = ppd.denoise(namespace["seen"], draws=number, prior="flat", rng=composition.seed, progressbar=False)
    if problems := [problem for problem in posterior.problems if not problem.startswith("the draws contradict")]:
        raise ReportedError("; ".join(problems))
    one = independent(posterior.draws.values.reshape(2, number, -1))
    two = independent(modelled(namespace, frame, composition.seed, 2 * number))
    for cell in range(frame.size):
        p = p_value(one[:, cell], two[:, cell])
        if p < ALARM:
            means = one.mean(axis=0).round(2).tolist(), two.mean(axis=0).round(2).tolist()
            raise FaultError(f"cell {cell}: p = {p:.1e} ({len(one)} and {len(two)} tables); means {means}")


def agreement(seeds, number, model=FLAT):
    found = []
    for seed in seeds:
        composition = compose(seed)
        found.append(outcome(composition, check_agreement(composition, number, model)))
    print(dict(Counter(one.kind for one in found)))
    return found


def assert_agreement(found):
    faults = [one for one in found if one.kind == "fault"]
    if faults:
        pytest.fail("\n\n".join(map(str, faults)), pytrace=False)
    assert sum(one.kind != "right" for one in found) <= 0.1 * len(found)


@pytest.mark.deep
@pytest.mark.interpreted
@pytest.mark.parametrize("seed", [MEASURED[0], MEASURED[2]])
def test_another_data_model_is_told_apart(seed):
    """Measurements that leave the counts open enough for the data model to matter."""
    (found,) = agreement([seed], 400, TILTED)
    assert "p = " in found.words


@pytest.mark.deep
@pytest.mark.interpreted
def test_denoised_tables_and_modelled_tables_agree_on_many_measurements():
    assert_agreement(agreement(MEASURED[:15], 800))
