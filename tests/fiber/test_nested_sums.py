"""Nested sums against enumeration, and against groups of cells with one sum each."""

import numpy as np
import pytest
from nested_enumeration import Problem

from ppdinf.fiber.nested_sums import LogTable, NestedSums


def plan_of(p, scale=1.0, without=(), **changes):
    """The plan of an enumerated problem; laws tabulated to different extents, with exact tails."""
    v, e = p.variance * scale, p.epsilon * scale
    laws = [
        LogTable([-2 / v, -0.5 / v, 0.0, -0.5 / v], left=(2 / v, 1 / v), right=(1 / v, 1 / v)),
        LogTable([0.0], left=(e, 0), right=(e, 0)),
        LogTable(p.matrix),
        LogTable([0.0, 0.0, -e], left=(0, 0), right=(e, 0)),
    ]
    shifts = [2, 0, 4, 1]
    least, most = p.least.copy(), p.most.copy()
    for v in without:
        least[v], most[v] = -(2**40), 2**40
    sums, values, law = np.array(p.measured, dtype=np.int64).reshape(-1, 3).T
    arguments = {"low": p.low, "width": p.width, "node": p.node, "parent": p.parent, "least": least, "most": most}
    measured = sums, values - np.array(shifts)[law], law
    return NestedSums(**arguments, measured=measured, laws=laws, **changes)


def problems(number, seed, **changes):
    rng = np.random.default_rng(seed)
    found = 0
    while found < number:
        p = Problem(rng, forest=found % 3 == 0, **changes)
        if p.value() > -np.inf:
            found += 1
            yield p


def moments(p):
    q = p.posterior()
    cells, sums = q @ p.tables, q @ p.sums_of
    marginals = np.zeros(p.log_weight.size)
    for i in range(p.low.size):
        np.add.at(marginals, p.start[i] + p.tables[:, i] - p.low[i], q)
    return marginals, cells, q @ p.tables**2 - cells**2, sums, q @ p.sums_of**2 - sums**2


@pytest.mark.parametrize("far", [0, 40])
def test_agrees_with_enumeration(far):
    for p in problems(150, seed=far, contradiction=far):
        evaluated = plan_of(p).evaluate(p.log_weight, p.slope)
        assert evaluated.value.sum() == pytest.approx(p.value(), rel=1e-12, abs=1e-9)
        assert (evaluated.bound <= 1e-10).all()
        for found, right in zip(evaluated.posteriors(), moments(p), strict=True):
            np.testing.assert_allclose(found, right, rtol=0, atol=1e-9)
