"""The models of docs/recipes.md have the densities of sums over all confidential tables, by independent formulas."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"
EPSILON = 1 / 2


@pytest.fixture(scope="module")
def recipes():
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S):
        exec(block, names)
    return names


def convolved(groups):
    """Sum the product of cells over all counts with a public sum, one group after the other; groups are independent."""
    density = 0.0
    for published, total, pmfs in groups:
        ways = np.zeros(total + 1)
        ways[0] = 1
        for y, pmf in zip(published, pmfs, strict=True):
            x = np.arange(total + 1)
            ways = np.convolve(ways, pmf(x) * np.exp(-EPSILON * abs(x - y)))[: total + 1]
        density += np.log(ways[total])
    return density


def poisson(means):
    return [stats.poisson(mean).pmf for mean in means]


def expected(name, p):
    """Return the log likelihood of a recipe at parameters, up to the normalizer of the noise."""
    if name == "removal":
        caught = p["p"] * (1 - p["p"]) ** np.arange(3)
        means = np.multiply.outer(p["abundance"], caught).T
        published = np.array([[21, 14], [9, 8], [6, 1]])
    elif name == "recapture":
        a, b = p["p"]
        means, published = [p["persons"] * np.array([a * (1 - b), (1 - a) * b, a * b])], np.array([[31, 24, 9]])
    elif name == "nowcast":
        pairs = [(w, d) for w, d in product(range(4), range(3)) if w + d < 4]
        means = [[p["weekly"][w] * p["share"][d] for w, d in pairs]]
        published = np.array([[30, 9, 2, 35, 12, 4, 41, 10, 38]])
    elif name == "accuracy":
        q = p["prevalence"] * p["sensitivity"] + (1 - p["prevalence"]) * (1 - p["specificity"])
        laws = [stats.binom(n, share).pmf for n, share in zip((400, 250, 610), q, strict=True)]
        return convolved([((31, 12, 66), 109, laws)])
    elif name == "misclassified":
        means = [p["persons"] @ np.array([[0.9, 0.1, 0.0], [0.05, 0.9, 0.05], [0.0, 0.2, 0.8]])]
        published = np.array([[52, 31, 17]])
    elif name == "ecological":
        size, income = [(40, 60), (25, 15), (70, 20), (10, 50)], [-1.0, 0.2, 0.9, -0.1]
        density = 0.0
        for sizes, at, votes in zip(size, income, (45, 18, 50, 31), strict=True):
            share = 1 / (1 + np.exp(-p["level"] - p["slope"] * at))
            first, second = (stats.binom.pmf(range(n + 1), n, q) for n, q in zip(sizes, share, strict=True))
            density += np.log(np.convolve(first, second)[votes])
        return density
    else:
        means = np.exp(p["log_season"] + p["trend"] * np.array([[-2], [-1], [0]]))
        means[2] *= np.exp(p["crisis"])
        published = np.array([[30, 24, 19], [33, 22, 20], [29, 41, 36]])
    return convolved([(y, y.sum(), poisson(row)) for y, row in zip(published, means, strict=True)])


RECIPES = ("removal", "recapture", "nowcast", "accuracy", "misclassified", "excess", "ecological")


@pytest.mark.deep
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_the_density_of_the_sum_over_tables(recipes, name):
    model = recipes[name]
    free = model.free_RVs
    density = model.compile_fn([model.logp(), model.logp(vars=free)], mode="FAST_COMPILE", on_unused_input="ignore")
    values = model.replace_rvs_by_values(free)
    parameters = model.compile_fn(values, inputs=model.value_vars, mode="FAST_COMPILE", on_unused_input="ignore")
    rng, found, right = np.random.default_rng(1), [], []
    for _ in range(4):
        point = {k: v + 0.2 * rng.normal(size=np.shape(v)) for k, v in model.initial_point().items()}
        posterior, prior = density(point)
        found.append(posterior - prior)
        right.append(expected(name, dict(zip([rv.name for rv in free], parameters(point), strict=True))))
    found, right = np.array(found), np.array(right)
    assert np.ptp(right) > 0.1
    np.testing.assert_allclose(found - found[0], right - right[0], atol=1e-8)
