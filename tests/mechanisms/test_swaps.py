"""K-norm noise for swaps of two records: the norm by linear programmes, its law, and losses of all pairs of tables."""

import itertools

import numpy as np
import pytest
import xarray as xr
from chi_square import p_value
from grids import box
from scipy.optimize import linprog

import ppdinf as ppd
from ppdinf.errors import PrivacyError, PrivacyWarning
from ppdinf.noise.primitives.stream import seeded_stream

inv = ppd.invariants
TWO_MARGINS = inv.margin("a") & inv.margin("b")
CASES = {
    "2 x 3": ((2, 3), TWO_MARGINS),
    "3 x 3": ((3, 3), TWO_MARGINS),
    "2 x 2 x 2": ((2, 2, 2), inv.margin("a", "b") & inv.margin("b", "c")),
    "rows": ((2, 3), inv.margin("a")),
}


def labelled(shape, cells=1):
    return xr.DataArray(np.broadcast_to(cells, shape), dims=list("abc")[: len(shape)])


def swaps(A):
    """Changes by two records with the same sums, by enumeration of all pairs of pairs."""
    unit = np.eye(A.shape[1], dtype=int)
    pairs = [unit[i] + unit[j] for i, j in itertools.combinations_with_replacement(range(len(unit)), 2)]
    return np.array([p - q for p in pairs for q in pairs if (p != q).any() and (A @ p == A @ q).all()])


def gauge(moves, z):
    """Smallest sum of weights of moves that add up to z."""
    return linprog(np.ones(len(moves)), A_eq=moves.T, b_eq=z).fun


@pytest.mark.parametrize(("shape", "public"), CASES.values(), ids=CASES)
def test_the_norm_counts_swaps(shape, public):
    """The norm of two single changes is smaller for some noise, and at most equal: its mechanism needs more noise."""
    table, rng = labelled(shape), np.random.default_rng(1)
    A = public.on(table).A.toarray()
    moves = swaps(A)
    law = ppd.KNorm(public, 1, neighbours="swapped").law(public.on(table))
    single = ppd.KNorm(public, "1/2").law(public.on(table))
    smaller = 0
    for z in rng.integers(-3, 4, (12, len(moves))) @ moves:
        size = gauge(moves, z)
        assert -law.log_density(z.astype(float)) == pytest.approx(size)
        smaller += -single.log_density(z.astype(float)) < size - 1e-9
        assert -single.log_density(z.astype(float)) <= size + 1e-9
    assert smaller > 0 or shape == (2, 2, 2)


@pytest.mark.parametrize("epsilon", [1, "1/2"])
def test_noise_has_its_stated_law_on_a_coarse_grid(epsilon):
    """In two rows the norm is a quarter of the l1 norm; the law of two single changes is rejected."""
    table, step, draws = labelled((2, 3), 5), 0.5, 40_000
    k = np.arange(-80, 81) * step
    a, b = np.meshgrid(k, k, indexing="ij")
    size = (abs(a) + abs(b) + abs(a + b)) / 2
    p = np.exp(-float(ppd.KNorm(TWO_MARGINS, epsilon).epsilon) * size)
    p_values = []
    for loss, neighbours in ((epsilon, "swapped"), ("1/2" if epsilon == 1 else "1/4", "replaced")):
        mechanism = ppd.KNorm(TWO_MARGINS, loss, neighbours=neighbours, grid="1/2")
        noise = mechanism.draw(TWO_MARGINS.on(table), 0, draws, seeded_stream(3)).reshape(-1, 2, 3)
        assert (noise.sum(axis=1) == 0).all()
        assert (noise.sum(axis=2) == 0).all()
        place = np.rint(noise[:, 0, :2] / step).astype(int) + 80
        p_values.append(p_value(np.ravel_multi_index(place.T, p.shape), p / p.sum(), 10))
    assert p_values[0] > 1e-6 > p_values[1]


@pytest.mark.parametrize("case", ["2 x 3", "3 x 3", "rows"])
def test_losses_of_all_pairs_of_tables(case):
    """All tables with the margins of one with four records: exp(epsilon) within swaps, attained, and beyond it."""
    shape, public = CASES[case]
    table = np.zeros(shape, dtype=int)
    np.fill_diagonal(table, 1)
    table[0, 2] += 1
    table[1, 2] += 1
    system = public.on(labelled(shape, table))
    A, x = system.A.toarray(), table.ravel()
    tables = np.array([t for t in box(0, 3, x.size) if t.sum() == x.sum() and (A @ t == A @ x).all()])
    law = ppd.KNorm(public, "3/4", neighbours="swapped").law(system)
    released = tables[::3] + np.random.default_rng(2).integers(-4, 5, (len(tables[::3]), len(swaps(A)))) @ swaps(A)
    log_p = np.array([[law.log_density((y - t).astype(float)) for t in tables] for y in released])
    loss = abs(log_p[:, :, None] - log_p[:, None]).max(axis=0)
    records = abs(tables[:, None] - tables).sum(axis=-1) // 2
    assert loss[records <= 2].max() == pytest.approx(0.75)
    assert (loss <= 0.75 * np.maximum(records - 1, records > 0) + 1e-9).all() or case == "rows"
    assert records.max() > 2
    assert loss.max() > 0.75 + 1e-6


def test_guarantees_of_swaps():
    release = ppd.KNorm(TWO_MARGINS, "1/2", neighbours="swapped").release(labelled((2, 3), 5))
    assert (release.guarantee.nearest, float(release.guarantee.unit_loss.loss)) == (1, 0.5)
    assert "two records replaced such that every public sum is kept" in release.guarantee.describe()
    two = ppd.privacy.compose(release.guarantee, ppd.KNorm(TWO_MARGINS, "1/4", neighbours="swapped").guarantee)
    assert two.loss() == 0.75
    with pytest.warns(PrivacyWarning, match="fix 6 of 6 cells"):
        fixed = ppd.KNorm(inv.margin("a", "b"), 1, neighbours="swapped").release(labelled((2, 3), 5))
    assert fixed.guarantee.nearest is None


@pytest.mark.parametrize(
    ("public", "shape", "match"),
    [
        (inv.margin("a", "b") & inv.margin("b", "c") & inv.margin("a", "c"), (2, 2, 2), "do not connect all tables"),
        (inv.Public(), (2, 2), "state the total, disjoint sums or"),
        (inv.total(weights="size"), (3,), "do not connect all tables"),
    ],
)
def test_sums_that_swaps_do_not_connect_are_refused(public, shape, match):
    table = labelled(shape).assign_coords(size=("a", [1, 2, 4])) if len(shape) == 1 else labelled(shape)
    public = public & inv.covariates("size") if len(shape) == 1 else public
    with pytest.raises(PrivacyError, match=match):
        ppd.KNorm(public, 1, neighbours="swapped").release(table)


def test_swaps_of_answers_are_refused():
    with pytest.raises(PrivacyError, match="give no query"):
        ppd.KNorm(inv.total(), 1, neighbours="swapped", query=[[1, 1]])
    with pytest.raises(PrivacyError, match="neighbours must be one of"):
        ppd.SubspaceLaplace(inv.total(), 1, neighbours="swapped")
