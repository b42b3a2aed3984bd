"""Densities of models of PyMC's gallery with confidential tables, against sums over enumerated tables."""

import numpy as np
import pytest
from pymc.pytensorf import inputvars
from situations import SITUATIONS

QUICK = {"mode": "FAST_COMPILE"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "N-mixture" else pytest.mark.deep) for name in SITUATIONS]
)
def test_densities(name):
    """Differences between points; with another epsilon, or another joint density of a sampled table, they differ."""
    situation, rng = SITUATIONS[name], np.random.default_rng(1)
    walked = situation.release.walked_only
    (model, _), (unknowns, given) = situation.model(marginalize=not walked), situation.unknowns()
    start, value, prior = unknowns.initial_point(), model.compile_logp(**QUICK), unknowns.compile_logp(**QUICK)
    outputs = unknowns.replace_rvs_by_values(list(given.values()))
    parameters, inputs = unknowns.compile_fn(outputs, **QUICK), [variable.name for variable in inputvars(outputs)]
    points = [
        {name: at + 0.4 * rng.normal(size=at.shape) if at.dtype.kind == "f" else at for name, at in start.items()}
        for _ in range(3)
    ]
    found, right, wrong = [], [], []
    listed, faulty = situation.release.listed(), situation.release.listed(times=1.5)
    table = listed.tables[len(listed.tables) // 2]
    for point in points:
        at = point | {"x": table.reshape(situation.release.release().shape)} if walked else point
        found.append(float(value(at)))
        natural = dict(zip(given, parameters({name: point[name] for name in inputs}), strict=True))
        if walked:
            log_joint = situation.log_p(natural, table[None])[0]
            right.append(log_joint + prior(point))
            wrong.append(1.1 * log_joint + prior(point))
        else:
            right.append(listed.log_marginal(situation.log_p(natural, listed.tables)) + prior(point))
            wrong.append(faulty.log_marginal(situation.log_p(natural, faulty.tables)) + prior(point))
    np.testing.assert_allclose(np.diff(found), np.diff(right), rtol=1e-7, atol=1e-7)
    assert np.abs(np.diff(found) - np.diff(wrong)).max() > 1e-4
