"""Random combinations of features, and models of PyMC's gallery, against sums over enumerated tables.

The deep tier checks 300 compositions. Thresholds are those for 1,000, which take three times as long.

For a fault, the seed and the code are printed; ``PYTHONPATH=.:tests python -m combinations SEED`` prints and checks
one composition. Chi-square tests have the threshold 1e-7, comparisons of means 6.5 standard errors. With fewer than
1,500 tests in 1,000 compositions, a false alarm occurs for one of 5,000 sets of seeds; seeds are fixed.
"""

from collections import Counter
from functools import partial

import numpy as np
import pytest
from pymc.pytensorf import inputvars

from combinations.checks import TILTED, check_denoised, run
from combinations.composition import outcome
from combinations.gallery import SITUATIONS
from combinations.generator import compose
from combinations.named import NamedPosed

REFUSED = 0.12  # largest share of compositions that are refused by name
QUICK, DEEP, ALL = 4, 300, 1000  # the deep tier repeats the first
BATCH = 12


def check(seeds):
    outcomes = [run(compose(seed)) for seed in seeds]
    faults = [one for one in outcomes if one.kind == "fault"]
    print(f"seeds {seeds.start} to {seeds.stop - 1}: {dict(Counter(one.kind for one in outcomes))}")
    if faults:
        pytest.fail("\n\n".join(map(str, faults)), pytrace=False)
    return outcomes


def test_random_combinations():
    check(range(QUICK))


@pytest.mark.deep
@pytest.mark.interpreted
@pytest.mark.parametrize("first", range(0, DEEP, BATCH))
def test_many_random_combinations(first):
    outcomes = check(range(first, first + BATCH))
    assert sum(one.kind in ("refused", "reported") for one in outcomes) <= 3 * REFUSED * len(outcomes)


@pytest.mark.deep
@pytest.mark.interpreted
@pytest.mark.parametrize("seed", [3, 13])
def test_another_data_model_is_detected(seed):
    """Measurements that leave the counts open enough for the data model to matter."""
    composition = compose(seed)
    result = outcome(composition, check_denoised(composition, model=TILTED))
    assert result.kind == "fault"
    assert result.words.startswith("a flat model: p = ")


@pytest.mark.deep
def test_compositions_have_every_feature():
    """Compositions are inexpensive: all 1,000, and the frequency of each feature."""
    number = Counter(feature for seed in range(ALL) for feature in compose(seed).features)
    tail_probability = {
        feature: n for feature, n in number.items() if n < 3 and not feature.startswith(("shape", "late"))
    }
    assert not tail_probability, tail_probability
    for word in WORDS:
        assert any(word in feature and n >= 8 for feature, n in number.items()), word


WORDS = [
    "nested", "margins", "weighted", "mapped groups", "cells", "linear", "all pairs", "(1, 3)", "(5, 2)", "(2, 2, 2)",
    "holes", "exact readings", "rounding", "thresholded", "missing readings", "repeated readings",
    "contradicting readings", "between", "at least", "inequality", "zeros", "constant index", "shared index",
    "latent index", "chain", "missing values", "potential, two cells", "set_data", "change: do", "observe", "copy",
    "pickle", "two releases", "fiber", "released", "denoise", "mechanism: l1", "wasserstein", "outer",
    "suppressed readings", "cells that nothing measures",
]  # fmt: skip


EAGER = {"mode": "FAST_COMPILE"}
HEAVY = [pytest.param(name, marks=() if name == "N-mixture" else pytest.mark.deep) for name in SITUATIONS]


@pytest.mark.parametrize("name", HEAVY)
def test_densities(name):
    """Differences between points; with another epsilon, or another joint density of a sampled table, they differ."""
    situation, rng = SITUATIONS[name], np.random.default_rng(1)
    sampled = situation.release.sampled_only
    (model, _), (unknowns, given) = situation.model(marginalize=not sampled), situation.unknowns()
    start, value, prior = unknowns.initial_point(), model.compile_logp(**EAGER), unknowns.compile_logp(**EAGER)
    outputs = unknowns.replace_rvs_by_values(list(given.values()))
    parameters, inputs = unknowns.compile_fn(outputs, **EAGER), [variable.name for variable in inputvars(outputs)]

    def log_joint(point, x, power=1.0):
        natural = dict(zip(given, parameters({name: point[name] for name in inputs}), strict=True))
        return power * situation.log_p(natural, x)

    right = NamedPosed.of(situation.release, log_joint)
    if sampled:
        wrong = NamedPosed.of(situation.release, partial(log_joint, power=1.1))
        table = right.table_list()[len(right.table_list()) // 2]
    else:
        wrong, table = NamedPosed.of(situation.release, log_joint, times=1.5), None
    densities = []
    for _ in range(3):
        point = {
            name: at + 0.4 * rng.normal(size=at.shape) if at.dtype.kind == "f" else at for name, at in start.items()
        }
        given_table = {} if table is None else {"x": table.reshape(right.frame.shape)}
        densities.append(
            [value(point | given_table), *(one.log_density(point, table) + prior(point) for one in (right, wrong))]
        )
    found, expected, faulty = np.diff(np.array(densities, dtype=float), axis=0).T
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
    assert np.abs(found - faulty).max() > 1e-4
