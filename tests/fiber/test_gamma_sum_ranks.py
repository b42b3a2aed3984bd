"""Ranks of the parameters of negative binomial tables under wide noise and their exact total, by nodes of panels.

Level and shape are on a grid, so that the posterior follows from the log coefficients alone. p-values of both ranks
are above 1e-5: a false alarm in 50,000 runs.
"""

import numpy as np
import pytest
from scipy.special import gammaln

from ppdinf.diagnostics.calibration import calibrate, uniformity
from ppdinf.fiber.sums_of_gamma_ratios.gamma_ratios import ALPHA, ETA, LOW, PARAMETERS, GammaRatios
from ppdinf.fiber.sums_of_gamma_ratios.gamma_sums import evaluate_ratios
from ppdinf.fiber.sums_of_gamma_ratios.panel_sums import by_panels
from ppdinf.fiber.sums_of_gamma_ratios.panels import panel_rules

D, EPSILON, RARE = 20, 1 / 15, 1e-5
SIZES = np.linspace(0.3, 2.0, D)
LEVELS, SHAPES = np.log(np.linspace(30, 90, 7)), np.exp(np.linspace(np.log(1.2), np.log(12), 6))
GRID = np.array([(level, shape) for level in LEVELS for shape in SHAPES])
RULES = panel_rules()


def simulate(rng):
    """Draw parameters, a table, and its release; noise whose sum is 0 by rejection."""
    level, shape = GRID[rng.integers(len(GRID))]
    x = rng.poisson(rng.gamma(shape, SIZES * np.exp(level) / shape))
    while True:
        z = np.diff(rng.geometric(1 - np.exp(-EPSILON), (2000, D, 2)))[..., 0]
        if (z.sum(axis=1) == 0).any():
            break
    return {"level": level, "shape": shape}, (x + z[(z.sum(axis=1) == 0).argmax()], x.sum())


def segments_of(y, epsilon):
    """Return the log noise of each cell as segments, and the first segment of each cell."""
    reach, first, segment = int(30 / epsilon), [0], []
    for at in y:
        low = max(at - reach, 0)
        segment += [[low, at, at, 0, epsilon, 0]] if low <= at else []
        segment.append([max(at + 1, low), max(at + reach, 5), at, 0, -epsilon, 0])
        first.append(len(segment))
    return np.array(first), np.array(segment, float)


def cells_of(level, shape, segments):
    mu, p = SIZES * np.exp(level), np.zeros((D, PARAMETERS))
    p[:, LOW], p[:, ALPHA], p[:, ETA] = 1, shape, np.log(mu / (mu + shape))
    normaliser = np.sum(shape * np.log(shape / (mu + shape)) - gammaln(shape))
    return GammaRatios(p, np.array([1, 0, 0]), *segments), normaliser


def infer(given, rng, *, epsilon=EPSILON):
    """Draw parameters on the grid given a release and the total."""
    y, total = given
    segments, log_p = segments_of(y, epsilon), np.empty(len(GRID))
    for k, (level, shape) in enumerate(GRID):
        cells, normaliser = cells_of(level, shape, segments)
        value, out = np.zeros(2), np.zeros((D, PARAMETERS))
        evaluate_ratios(cells, RULES, np.zeros(D, np.int64), np.array([total]), True, value, out)
        log_p[k] = value[0] + normaliser
    p = np.exp(log_p - log_p.max())
    chosen = GRID[rng.choice(len(GRID), size=40, p=p / p.sum())]
    return {"level": chosen[:, 0], "shape": chosen[:, 1]}


def p_values(data_sets, **wrong):
    found = calibrate(simulate, lambda given, rng: infer(given, rng, **wrong), replicates=data_sets, rng=1)
    return {name: uniformity(ranks) for name, ranks in found.items()}


@pytest.mark.quick_cases(0)
def test_nodes_are_used():
    rng, by_nodes = np.random.default_rng(1), []
    for _ in range(5):
        _, (y, total) = simulate(rng)
        for level, shape in GRID[::4]:
            cells, _ = cells_of(level, shape, segments_of(y, EPSILON))
            out = np.zeros((D, PARAMETERS))
            by_nodes.append(not np.isnan(by_panels(cells, RULES, np.arange(D), total, False, out)))
    assert np.mean(by_nodes) > 0.9


@pytest.mark.deep
def test_ranks_are_uniform():
    found = p_values(400)
    assert min(found.values()) > RARE, found


@pytest.mark.deep
def test_another_scale_of_the_noise_is_detected():
    assert min(p_values(400, epsilon=1.6 * EPSILON).values()) < RARE
