"""l1 noise with public margins on tables of all shapes: sums are preserved, and the order of axes does not change the
law.

The sampler of two-way tables draws the longer side row by row, so that tall and wide tables take different paths.
Small tables are compared with an enumeration of the law. Larger tables are compared with the table whose axes are in
another order, in which every cell has the same law. There are fewer than 300 comparisons, each of which fails by
chance with probability at most 1e-6: the false alarm rate is at most 3e-4.
"""

import itertools
import math

import numpy as np
import pytest
from lattice_laws import fit, law_of
from scipy import stats

import ppdinf as ppd
from ppdinf.lattice import margin_matrix, structure
from ppdinf.laws import DoubleGeometric
from ppdinf.noise import sampler_plan
from ppdinf.noise.exact.scale_mixture import two_way_laplace
from ppdinf.noise.primitives.stream import seeded_stream

RARE = 1e-6
LAW = DoubleGeometric("3/2")
EPSILON = "1/4"
LONG = [(30, 12), (67, 6), (67, 24), (100, 3)]
SMALL = [(2, 2), (2, 3), (3, 2), (2, 5), (5, 2), (3, 3), (2, 2, 2), (3, 2, 2), (2, 3, 2), (2, 2, 3)]
PUBLIC = {
    "all pairs": [(0, 1), (0, 2), (1, 2)],
    "a pair and the third": [(0, 1), (2,)],
    "two pairs": [(0, 1), (1, 2)],
    "three single margins": [(0,), (1,), (2,)],
}


def noise_of(shape, generators, draws, seed):
    """Return noise of shape (draws, *shape); its public sums are checked to be zero."""
    public = None
    for generator in generators:
        margin = ppd.invariants.margin(*(f"dim_{k}" for k in generator))
        public = margin if public is None else public & margin
    released = ppd.GeneralizedLaplace(public, EPSILON).simulate(np.full(shape, 100), draws=draws, rng=seed)
    z = released.values - 100
    for generator in generators:
        assert not z.sum(axis=tuple(k + 1 for k in range(len(shape)) if k not in generator)).any(), (shape, generators)
    return z


def single_sums(dimensions):
    """Return the sets of axes that remain after sums over single axes."""
    return [tuple(k for k in range(dimensions) if k != axis) for axis in range(dimensions)]


def law(shape):
    """Return the law of noise with zero sums over single axes."""
    free = math.prod(n - 1 for n in shape)
    return law_of(margin_matrix(shape, single_sums(len(shape))), LAW, {1: 60, 2: 24, 4: 9}[free])


def p_value(one, other):
    """Return the smallest p-value of the total size of the noise and of each cell's, corrected for multiple tests."""
    one, other = one.reshape(len(one), -1), other.reshape(len(other), -1)
    size = stats.ks_2samp(np.abs(one).sum(axis=1), np.abs(other).sum(axis=1)).pvalue
    cells = [stats.ks_2samp(a, b, method="asymp").pvalue for a, b in zip(one.T, other.T, strict=True)]
    return 2 * min(size, len(cells) * min(cells))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("shape", [(10, 6), (6, 10), (9, 5)])
def test_sums_are_preserved(shape):
    noise_of(shape, [(0,), (1,)], 5, 1)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "shape", [(3, 2), (2, 3), (3, 3), *(pytest.param(shape, marks=pytest.mark.deep) for shape in [(2, 5), (5, 2)])]
)
def test_the_mixture_over_scales_has_the_law(shape, monkeypatch):
    """Small tables are drawn by the sampler of large tables."""
    monkeypatch.setattr(sampler_plan, "OFFERS", (two_way_laplace.offer,))
    found = sampler_plan.exact_or_refusal.__wrapped__(structure(margin_matrix(shape, single_sums(2))), LAW)
    assert found.sampler == "scale mixture"
    assert fit(found.draw(1_000, seeded_stream(3)), law(shape)) > RARE


@pytest.mark.deep
@pytest.mark.parametrize("shape", SMALL)
def test_small_tables_have_the_law(shape):
    found = sampler_plan.exact_noise(structure(margin_matrix(shape, single_sums(len(shape)))), LAW)
    assert fit(found.draw(5_000, seeded_stream(3)), law(shape)) > RARE


@pytest.mark.deep
@pytest.mark.parametrize("rows", range(2, 13))
def test_two_way_tables(rows):
    for columns in range(rows, 13):
        wide = noise_of((rows, columns), [(0,), (1,)], 200, 1)
        tall = noise_of((columns, rows), [(0,), (1,)], 200, 2)
        assert p_value(wide, tall.transpose(0, 2, 1)) > RARE, columns


@pytest.mark.deep
@pytest.mark.parametrize("shape", LONG)
def test_long_tables(shape):
    draws = 100 if math.prod(shape) > 1_000 else 300
    tall, wide = noise_of(shape, [(0,), (1,)], draws, 1), noise_of(shape[::-1], [(0,), (1,)], draws, 2)
    assert p_value(tall, wide.transpose(0, 2, 1)) > RARE


@pytest.mark.deep
@pytest.mark.parametrize("kind", PUBLIC)
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 7), (5, 2, 4)])
def test_three_way_tables_in_all_orders_of_axes(shape, kind):
    first = noise_of(shape, PUBLIC[kind], 200, 0)
    for seed, order in enumerate(itertools.permutations(range(3)), start=1):
        generators = [tuple(sorted(order.index(k) for k in generator)) for generator in PUBLIC[kind]]
        other = noise_of(tuple(shape[k] for k in order), generators, 200, seed)
        assert p_value(first, np.moveaxis(other, [1, 2, 3], [k + 1 for k in order])) > RARE, order
