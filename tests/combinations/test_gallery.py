"""Densities of models of PyMC's gallery with confidential tables, against sums over enumerated tables."""

import numpy as np
import pytest
from pymc.pytensorf import inputvars

from combinations.gallery import SITUATIONS
from combinations.named import NamedPosed

QUICK = {"mode": "FAST_COMPILE"}
HEAVY = [pytest.param(name, marks=() if name == "N-mixture" else pytest.mark.deep) for name in SITUATIONS]


@pytest.mark.parametrize("name", HEAVY)
def test_densities(name):
    """Differences between points; with another epsilon, or another joint density of a sampled table, they differ."""
    situation, rng = SITUATIONS[name], np.random.default_rng(1)
    sampled = situation.release.sampled_only
    (model, _), (unknowns, given) = situation.model(marginalize=not sampled), situation.unknowns()
    start, value, prior = unknowns.initial_point(), model.compile_logp(**QUICK), unknowns.compile_logp(**QUICK)
    outputs = unknowns.replace_rvs_by_values(list(given.values()))
    parameters, inputs = unknowns.compile_fn(outputs, **QUICK), [variable.name for variable in inputvars(outputs)]

    def log_joint(point, x, power=1.0):
        natural = dict(zip(given, parameters({name: point[name] for name in inputs}), strict=True))
        return power * situation.log_p(natural, x)

    def wrong_joint(point, x):
        return log_joint(point, x, power=1.1)

    right = NamedPosed.of(situation.release, log_joint)
    if sampled:
        wrong = NamedPosed.of(situation.release, wrong_joint)
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
