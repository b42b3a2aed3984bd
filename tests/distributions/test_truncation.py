"""Windows of counts: several measurements of one sum, cells without information, and the probability outside."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import gammaln, logsumexp

import ppdinf as ppd

inv, laws = ppd.invariants, ppd.laws

READINGS = {  # law, log weight of a measurement y of counts x
    "geometric": (laws.DoubleGeometric(1), lambda y, x: -abs(y - x) * 1.0),
    "wide": (laws.DoubleGeometric("1/20"), lambda y, x: -abs(y - x) / 20),
    "gaussian": (laws.DiscreteGaussian(variance=4), lambda y, x: -((y - x) ** 2) / 8),
    "staircase": (
        laws.Staircase("1/2", sensitivity=2, step=1),
        lambda y, x: -0.5 * np.where(abs(y - x) < 1, 0, 1 + (abs(y - x) - 1) // 2),
    ),
    "rounding": (laws.RandomRounding(5), lambda y, x: np.log(np.maximum(1 - abs(y - x) / 5, 1e-300))),
}
CASES = {  # measurements of one cell
    "agree": [("geometric", 20), ("geometric", 22)],
    "disagree": [("geometric", 10), ("geometric", 55)],
    "disagree by far": [("geometric", 10), ("geometric", 400)],
    "beyond what is possible": [("geometric", -60), ("geometric", -8)],
    "in threes": [("geometric", 10), ("geometric", 55), ("gaussian", 90)],
    "two against one": [("geometric", 10), ("geometric", 12), ("geometric", 60)],
    "gaussians": [("gaussian", 0), ("gaussian", 100)],
    "narrow and wide": [("geometric", 30), ("wide", 300)],
    "staircases": [("staircase", 10), ("staircase", 120)],
    "bounded": [("rounding", 10), ("geometric", 60)],
    "bounded twice": [("rounding", 10), ("rounding", 15), ("geometric", 90)],
}  # fmt: skip


def log_total_of(kind):
    return 0.0 if kind == "rounding" else logsumexp(READINGS[kind][1](0, np.arange(-900, 901)))


def flat_posterior(readings):
    x = np.arange(0, 3000)
    log = sum(READINGS[kind][1](y, x) for kind, y in readings)
    law = np.exp(log - logsumexp(log))
    mean = law @ x
    return mean, np.sqrt(law @ (x - mean) ** 2)


def seen_by(readings, statement, **more):
    parts = [ppd.measured(statement, [y], READINGS[kind][0]) for kind, y in readings]
    return ppd.Measurements({"a": ["A"]}, *parts, **more)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("statement", [inv.margin("a"), inv.linear(np.array([[1]]), ["one"])], ids=["cell", "sum"])
@pytest.mark.parametrize("case", CASES)
def test_measurements_of_one_count_are_combined(case, statement):
    """Six standard errors of the mean: a false alarm once in 1e8 for each of 22 cases."""
    mean, sd = flat_posterior(CASES[case])
    found = ppd.denoise(seen_by(CASES[case], statement), draws=1500, prior="flat", rng=1, progressbar=False)
    assert not any("the end of the range" in problem for problem in found.problems)
    assert float(found.draws.mean()) == pytest.approx(mean, abs=6 * sd / np.sqrt(3000))
    assert float(found.draws.std()) == pytest.approx(sd, rel=0.15, abs=0.01)


def log_marginal(seen, dist, point):
    with pm.Model(coords=seen.coords) as model:
        ppd.PartiallyPrivate("x", dist(), release=seen)
    logp = model.compile_fn(model.logp(vars=[model["x_release"]]), inputs=model.value_vars, mode="FAST_COMPILE")
    return float(logp(point))


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("case", ["disagree", "disagree by far", "in threes", "narrow and wide", "bounded"])
def test_the_density_of_contradictory_measurements(case):
    rate = 37.0
    x = np.arange(0, 3000)
    log_noise = sum(READINGS[kind][1](y, x) - log_total_of(kind) for kind, y in CASES[case])
    exact = logsumexp(log_noise + x * np.log(rate) - rate - gammaln(x + 1))
    found = log_marginal(
        seen_by(CASES[case], inv.margin("a")),
        lambda: pm.Poisson.dist(pm.Gamma("rate", 4, 0.1, default_transform=None)),
        {"rate": np.array(rate)},
    )
    assert found == pytest.approx(exact, abs=1e-8)
