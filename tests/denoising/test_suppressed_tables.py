"""Posteriors of suppressed tables against enumeration; scores above 6 by chance once in 200,000 runs of 20 tables."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from known_parameters import QUIET
from measured_tables import Suppressed, largest_z, listed
from scipy import stats
from scipy.special import gammaln

import ppdinf as ppd
from ppdinf.denoising import table_gibbs
from ppdinf.denoising.count_windows import published_windows
from ppdinf.denoising.denoised import Denoised
from ppdinf.denoising.learned_prior import FixedPrior
from ppdinf.denoising.table_gibbs import TableGibbs
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.errors import InvariantError

inv, laws = ppd.invariants, ppd.laws
WAYS = ("laws", "public", "bounds", "ranges", "holes")
LISTED = 5000
SCORE = 6.0
MARGINS = inv.margin("r") & inv.margin("c")


def stated(problem, way, rng):
    """Published statements of a table, and the possible counts of each cell."""
    (r, c), n = problem.shape, int(problem.table.sum()) + 2
    frame = {"r": list(range(r)), "c": list(range(c))}
    public = {inv.margin("r"): problem.rows.tolist(), inv.margin("c"): problem.columns.tolist()}
    shown, counts = np.flatnonzero(~problem.hidden.ravel()), problem.table.ravel()
    if way == "laws":
        y = np.where(problem.hidden, np.nan, problem.table)
        seen = ppd.Measurements(frame, exactly(y, np.eye(n)), public=public)
        return seen, problem.supports()
    if way in ("public", "bounds"):
        if shown.size:
            public[inv.linear(np.eye(r * c, dtype=int)[shown], [f"cell {k}" for k in shown])] = counts[shown].tolist()
        if way == "public":
            return ppd.Measurements(frame, public=public, bounds=inv.nonnegative()), problem.supports()
        most = int(counts.max())
        seen = ppd.Measurements(frame, public=public, bounds=inv.between(0, most))
        return seen, problem.supports([range(most + 1)] * counts.size)
    # a hidden count was published as a code for a range of counts, or for every count with the same remainder
    codes = rng.integers(0, 2, n) if way == "holes" else np.searchsorted(rng.integers(1, n, 3), np.arange(n), "right")
    codes = codes if way == "holes" else np.searchsorted(np.sort(rng.integers(1, n, 3)), np.arange(n), "right")
    matrix = np.zeros((n, n + 4))
    matrix[np.arange(n), n + codes] = 0.5
    matrix[np.arange(n), np.arange(n)] = 0.5
    y = np.where(problem.hidden, n + codes[problem.table], problem.table)
    same = [np.flatnonzero(codes == codes[count]).tolist() for count in counts]
    return ppd.Measurements(frame, exactly(y, matrix), public=public), problem.supports(same)


def exactly(y, matrix):
    return ppd.measured(inv.margin("r", "c"), y, laws.TransitionMatrix(matrix))


def denoised(seen, draws, seed=1):
    found = ppd.denoise(seen, draws=draws, tune=draws // 5, rng=seed, progressbar=False, prior="flat")
    return found.draws.values.reshape(2, draws, -1), found


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(20))
def test_suppressed_tables_against_all_tables(seed):
    """In each statement of a table with a limited number of completions."""
    problem, rng, scores = Suppressed(seed), np.random.default_rng(1000 + seed), {}
    for way in WAYS:
        seen, supports = stated(problem, way, rng)
        tables = listed(problem.shape, problem.rows, problem.columns, supports, LISTED)
        if tables is not None:
            scores[way] = largest_z(denoised(seen, 1000, seed)[0], tables)
    assert scores  # of some tables no way leaves at most `LISTED` completions
    assert max(scores.values()) < SCORE, max(scores, key=scores.get)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("prior", ["flat", "learned"])
def test_a_suppressed_cell_is_not_reported_as_disclosed(prior):
    y = np.full((3, 3), np.nan)
    y[0, 2], y[1, 0], y[2, 1] = 7, 9, 11
    public = {inv.margin("r"): [18, 17, 20], inv.margin("c"): [17, 21, 17]}
    seen = ppd.Measurements({"r": list("abc"), "c": list("xyz")}, exactly(y, np.eye(40)), public=public)
    found = ppd.denoise(seen, draws=400, rng=1, progressbar=False, prior=prior)
    corner = found.draws.sel(r="a", c="x").values
    assert sorted(set(corner.ravel().tolist())) == list(range(9))[-len(set(corner.ravel().tolist())) :]
    if prior == "flat":
        tables = listed((3, 3), [18, 17, 20], [17, 21, 17], [range(40) if np.isnan(v) else [int(v)] for v in y.ravel()])
        assert largest_z(found.draws.values.reshape(2, 400, 9), tables) < SCORE
        assert found.problems == []


def p_value_of_tables(log_h, draws):
    """Compare the tables under a fixed prior with all tables by chi-square; a cell is rounded, another one known."""
    rows, columns = [4, 4, 5], [5, 4, 4]
    rounded = ppd.measured(inv.linear(np.eye(9, dtype=int)[:1]), [3], laws.RandomRounding(3))
    public = {inv.margin("r"): rows, inv.margin("c"): columns, inv.linear(np.eye(9, dtype=int)[8:]): [1]}
    observed = ObservedMeasurements(ppd.Measurements({"r": range(3), "c": range(3)}, rounded, public=public))
    tables = TableGibbs(observed, published_windows(observed))
    prior, chain = FixedPrior(log_h[: tables.largest + 1], np.zeros(9)), tables.chain(np.random.default_rng(1))
    assert tables.constant
    assert tables.free == 8
    found = np.empty((draws, 9), dtype=int)
    for n in range(draws):
        chain.advance(prior, tune=False)
        found[n] = chain.table
    listed_tables = listed((3, 3), rows, columns, [range(1, 6), *[range(8)] * 7, [1]])
    law = np.exp(log_h[listed_tables].sum(axis=1)) * (3 - abs(listed_tables[:, 0] - 3))
    counts = (found[:, None] == listed_tables).all(axis=2).sum(axis=0)
    expected = draws * law / law.sum()
    assert len(listed_tables) > 25
    assert expected.min() > 2
    return stats.chisquare(counts, expected).pvalue if counts.sum() == draws else 0.0


FIXED = {"flat": np.zeros(20), "poisson": -gammaln(np.arange(20) + 1.0)}


@pytest.mark.parametrize("prior", FIXED)
def test_batches_of_tables_under_a_fixed_prior(prior):
    """Chi-square against all tables; false alarms 1 in 1,000."""
    assert p_value_of_tables(FIXED[prior], 8000) > 1e-3


@pytest.mark.parametrize("prior", FIXED)
def test_batches_without_the_weights_of_cells_are_detected(prior, monkeypatch):
    right = table_gibbs.cell_weights
    monkeypatch.setattr(table_gibbs, "cell_weights", lambda *given: (w := right(*given))._replace(flat=w.flat | True))
    assert p_value_of_tables(FIXED[prior], 8000) < 1e-9


@pytest.mark.quick_cases(0)
def test_nearly_known_cells_do_not_disconnect_the_others():
    y = np.full((3, 3), np.nan)
    y[0, 0], y[1, 1], y[2, 2] = 7, 9, 11
    law = laws.DiscreteGaussian(variance=0.01)
    seen = ppd.Measurements(
        {"r": range(3), "c": range(3)}, ppd.measured(inv.margin("r", "c"), y, law),
        public={inv.margin("r"): [18, 17, 20], inv.margin("c"): [17, 21, 17]}, bounds=inv.nonnegative(),
    )  # fmt: skip
    supports = [range(40) if np.isnan(v) else [int(v)] for v in y.ravel()]
    tables = listed((3, 3), [18, 17, 20], [17, 21, 17], supports)
    assert largest_z(denoised(seen, 800)[0], tables) < SCORE


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("seed", range(4))
def test_margins_in_ranges_and_cells_with_holes(seed):
    """Row sums are randomly rounded to multiples of 3, column sums are exact, and cells are published by parity."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 6, (2, 3) if seed % 2 else (3, 2))
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    rounded = rows // 3 * 3 + 3 * (rng.random(rows.size) < rows % 3 / 3)
    parity = np.zeros((40, 2))
    parity[np.arange(40), np.arange(40) % 2] = 1
    hidden = rng.random(table.shape) < 0.7
    y = np.where(hidden, np.nan, table % 2)
    seen = ppd.Measurements(
        {"r": range(table.shape[0]), "c": range(table.shape[1])},
        exactly(y, parity), ppd.measured(inv.margin("r"), rounded, laws.RandomRounding(3)),
        public={inv.margin("c"): columns.tolist()}, bounds=inv.nonnegative(),
    )  # fmt: skip
    of_columns = [
        [x for x in itertools.product(range(column + 1), repeat=rows.size) if sum(x) == column] for column in columns
    ]
    counts = np.array([np.transpose(x).ravel() for x in itertools.product(*of_columns)])
    counts = counts[((counts % 2 == table.ravel() % 2) | hidden.ravel()).all(axis=1)]
    weights = np.maximum(1 - abs(counts.reshape(-1, *table.shape).sum(axis=2) - rounded) / 3, 0).prod(axis=1)
    tables, law = counts[weights > 0], weights[weights > 0] / weights.sum()
    assert largest_z(denoised(seen, 800)[0], tables, law) < SCORE


@pytest.mark.parametrize("seed", [0, 3])
def test_supports_too_large_for_exact_draws(seed, monkeypatch):
    """Blocks of cells are drawn jointly, and chains start from different tables."""
    monkeypatch.setattr("ppdinf.fiber.gibbs.fiber.EDGES", 0)
    problem = Suppressed(seed, largest=4, most=8)
    seen, supports = stated(problem, "holes", np.random.default_rng(seed))
    tables = listed(problem.shape, problem.rows, problem.columns, supports)
    draws, found = denoised(seen, 150)
    assert found.problems or largest_z(draws, tables) < SCORE


def walked(model, draws, tune=50):
    idata = pm.sample(draws, tune=tune, chains=2, cores=1, random_seed=1, model=model, **QUIET)
    return idata.posterior["x"].values.reshape(2, draws, -1), idata


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("shape", "rows", "columns", "p"),
    [
        ((2, 3), [5, 2], [2, 2, 3], [0.2, 0, 0.3, 0.3, 0.2]),
        ((3, 3), [6, 5, 7], [7, 5, 6], [0.3, 0, 0, 0.5, 0.1, 0.1, 0]),
        ((2, 4), [9, 7], [4, 5, 2, 5], [0.2, 0.3, 0, 0, 0.4, 0.1]),
    ],
)
def test_only_sums_and_a_support_with_holes(shape, rows, columns, p):
    frame = ppd.as_table(np.zeros(shape, dtype=int), dims=("r", "c"))
    public = MARGINS.on(frame, values=[*rows, *columns])
    support = [k for k, share in enumerate(p) if share > 0]
    tables = listed(shape, rows, columns, [support] * (shape[0] * shape[1]))
    with pm.Model(coords={"r": range(shape[0]), "c": range(shape[1])}) as model:
        x = ppd.models.ConstrainedCounts("x", pm.Categorical.dist(p), public, marginalize=False)
    assert tuple(x.owner.op.start.ravel().tolist()) in set(map(tuple, tables.tolist()))
    law = np.array(p)[tables].prod(axis=1)
    draws, idata = walked(model, 800)
    assert largest_z(draws, tables, law / law.sum()) < SCORE
    assert not any("constant" in problem for problem in diagnosed(idata, model))


def diagnosed(idata, model):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ppd.diagnose(idata, model).problems


def test_a_table_that_exact_sums_fix_under_overlapping_noisy_sums():
    seen = ppd.Measurements(
        {"r": ["A"], "c": [2000]},
        exactly({("A", 2000): 2}, np.eye(4)), ppd.measured(inv.linear([[1], [2]]), [5, 8], laws.L2Laplace("1/4")),
        public={inv.total(): 2},
    )  # fmt: skip
    assert (denoised(seen, 50)[0] == 2).all()


@pytest.mark.parametrize(("cells", "largest", "agree"), [(2000, 1.025, True), (2000, 1.05, False), (1, 1.025, False)])
def test_the_largest_r_hat_of_many_cells_may_be_larger(cells, largest, agree):
    r_hat = np.full(cells, 1.001)
    r_hat[-1] = largest
    at = pd.DataFrame({"ess_bulk": 900.0, "r_hat": r_hat}, index=[f"count[{k}]" for k in range(cells)])
    draws, none = xr.DataArray(np.zeros((2, 4, cells)), dims=("chain", "draw", "cell")), np.full(cells, -1)
    nothing = SimpleNamespace(entries=SimpleNamespace(y=np.zeros(0)), parts=())
    posterior = SimpleNamespace(convergence=at, draws=draws, _flat=draws.values, _ends=(none, none), data=nothing)
    found = Denoised.problems.fget(posterior)
    assert (found == []) == agree


def test_no_table_in_the_support_is_refused():
    frame = ppd.as_table(np.zeros((2, 2), dtype=int), dims=("r", "c"))
    public = MARGINS.on(frame, values=[3, 3, 3, 3])
    with pm.Model(coords={"r": range(2), "c": range(2)}), pytest.raises(InvariantError, match="no starting table"):
        ppd.models.ConstrainedCounts("x", pm.Categorical.dist([0.4, 0, 0.3, 0, 0.3]), public, marginalize=False)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_three_way_tables_with_known_cells(order):
    """All margins of two dimensions are exact, and every count is at most 2; two cells are published exactly."""
    sizes = {"a": 2, "b": 3, "c": 3}
    shape = tuple(sizes[dim] for dim in order)
    table = np.random.default_rng(4).integers(0, 3, shape)
    pairs = [inv.margin(*pair) for pair in itertools.combinations(order, 2)]
    axes = [tuple(k for k in range(3) if order[k] not in pair) for pair in itertools.combinations(order, 2)]
    public = {pair: table.sum(axis=axis).tolist() for pair, axis in zip(pairs, axes, strict=True)}
    seen = ppd.Measurements({dim: range(sizes[dim]) for dim in order}, public=public, bounds=inv.between(0, 2))
    tables = np.array(list(boxes(shape, 2, table, axes)))
    draws, found = denoised(seen, 400)
    assert largest_z(draws, tables) < SCORE
    assert found.problems == []


def boxes(shape, most, table, axes):
    """Yield all tables with counts from 0 to `most` and the margins of a table, slice by slice of the first axis."""
    slices = np.array(list(itertools.product(range(most + 1), repeat=int(np.prod(shape[1:])))))
    slices = slices.reshape(-1, *shape[1:])
    columns, rows = slices.sum(axis=1), slices.sum(axis=2)
    fits = [(columns == one.sum(axis=0)).all(axis=1) & (rows == one.sum(axis=1)).all(axis=1) for one in table]
    inner = [slices[fit] for fit in fits]
    for parts in itertools.product(*inner):
        x = np.array(parts)
        if (x.sum(axis=0) == table.sum(axis=0)).all():
            yield x.ravel()
