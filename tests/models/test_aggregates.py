"""Ranks against counting by hand, probabilities and their Monte Carlo errors against newly simulated chains."""

import numpy as np
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf import invariants as inv
from ppdinf.errors import InvariantError, LabelError, ModelError
from ppdinf.models import aggregate, ranks, summary

RNG = np.random.default_rng(1)
SAMPLE = ("chain", "draw")


def mean_rank(numbers, k):
    """Return the rank of entry k: one more than the number of smaller entries, and half of the other equal entries."""
    if np.isnan(numbers[k]):
        return np.nan
    return 1 + np.sum(numbers < numbers[k]) + (np.sum(numbers == numbers[k]) - 1) / 2


@pytest.mark.parametrize("dims", [("chain", "draw", "a", "b"), ("b", "draw", "a", "chain")])
@pytest.mark.parametrize("kind", ["int64", "int8", "float64", "nan"])
def test_ranks_agree_with_counting(dims, kind):
    numbers = RNG.integers(-3, 4, size=(2, 5, 4, 3)).astype("float64" if kind == "nan" else kind)
    if kind == "nan":
        numbers[RNG.random(numbers.shape) < 0.2] = np.nan
    coords = {"a": list("wxyz"), "state": ("a", list("AABB"))}
    draws = xr.DataArray(numbers, dims=(*SAMPLE, "a", "b"), coords=coords, name="persons").transpose(*dims)
    for dim, axis in (("a", 2), ("b", 3)):
        expected = np.apply_along_axis(lambda row: [mean_rank(row, k) for k in range(row.size)], axis, numbers)
        found = ranks(draws, dim)
        xr.testing.assert_identical(found, draws.copy(data=found.values))  # labels and dimensions are unchanged
        np.testing.assert_array_equal(found.transpose(*SAMPLE, "a", "b"), expected)
    with pytest.raises(LabelError, match="no dimension 'county'"):
        ranks(draws, "county")


def test_sums_are_exact_or_refused():
    """Weights near the largest 64-bit integer, against integers of Python."""
    cells = [[2048, 1026, 2**50], [0, 5, 7]]
    draws = xr.DataArray(np.array([cells]), dims=("chain", "draw", "a"))
    weights = [[2**53, -(2**53), 8], [1, 1, 2**13], [2**20, 3, -1]]
    exact = [[sum(w * x for w, x in zip(row, own, strict=True)) for row in weights] for own in cells]
    assert 2048 * 2**53 > 2**63 > exact[0][0]
    assert aggregate(draws, inv.linear(weights[::2])).values[0].tolist() == [row[::2] for row in exact]
    assert exact[0][1] > 2**63
    with pytest.raises(InvariantError, match="the sum 'second' exceeds 64-bit integers in a draw"):
        aggregate(draws, inv.linear(weights, ["first", "second", "third"]))
    assert aggregate(draws[:, 1:], inv.linear(weights)).values[0].tolist() == exact[1:]


def test_comparisons_have_a_probability_with_labels():
    posterior = ppd.denoise(
        ppd.Measurements(
            {"area": list("ABC")},
            ppd.measured(ppd.invariants.margin("area"), [31, 4, 12], ppd.laws.DoubleGeometric("1/4")),
            public={ppd.invariants.total(): 45},
        ),
        draws=200,
        rng=1,
        progressbar=False,
    )
    areas = posterior.sums(ppd.invariants.margin("area"))
    one = posterior.summary(areas.sel(area="A") > areas.sel(area="C"))
    assert list(one.columns) == ["estimate", "monte_carlo_error"]
    assert one["estimate"].item() == float((areas.sel(area="A") > areas.sel(area="C")).mean())
    several = posterior.summary(areas > 10)
    assert list(several.index) == ["A", "B", "C"]
    assert several["estimate"].tolist() == (areas > 10).mean(SAMPLE).values.tolist()
    assert ((several["monte_carlo_error"] > 0) & (several["monte_carlo_error"] < 0.1)).all()
    largest = posterior.summary(ranks(areas, "area") == 3)
    assert largest["estimate"].sum() == pytest.approx(1, abs=0.05)  # ties are the difference
    pairs = posterior.summary(areas > areas.rename(area="other"))
    assert pairs.index.names == ["area", "other"]
    assert pairs.loc[("A", "B"), "estimate"] > 0.9 > 0.1 > pairs.loc[("B", "A"), "estimate"]
    with pytest.raises(ModelError, match=r"numbers or bool.*draws == label"):
        posterior.summary(areas.idxmax("area"))
    assert posterior.summary(areas.idxmax("area") == "A")["estimate"].item() > 0.5


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("p", "stay"), [(0.5, 0.0), (0.1, 0.0), (0.3, 0.8)], ids=["even", "rare", "slow"])
def test_the_monte_carlo_error_is_the_standard_deviation_of_the_probability(p, stay):
    """Chains of bool that repeat or draw anew: their means over 1,000 posteriors of 2 x 500 draws."""
    rng, posteriors, shape = np.random.default_rng(1), 1000, (2, 500, 1000)
    true = rng.random(shape) < p
    for t in range(1, shape[1]):
        true[:, t] = np.where(rng.random((2, posteriors)) < stay, true[:, t - 1], true[:, t])
    found = summary(xr.DataArray(true, dims=(*SAMPLE, "posterior")))
    spread = float(np.sqrt(np.mean((found["estimate"] - p) ** 2)))
    # the sd over 1,000 posteriors has an error of 2.2 %, and estimates of slow chains are off by some percent
    assert float(found["monte_carlo_error"].mean()) == pytest.approx(spread, rel=0.12)


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (1, 4), (4, 100)])
@pytest.mark.parametrize("value", [True, False])
def test_equal_draws_have_a_positive_error(shape, value):
    found = summary(xr.DataArray(np.full(shape, value), dims=SAMPLE)).iloc[0]
    assert found["estimate"] == value
    n = np.prod(shape)
    expected = np.sqrt((n + 1) / (n + 2) ** 2 / n) if shape[1] > 3 else np.nan
    assert found["monte_carlo_error"] == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint64"])
def test_integers_of_every_size_are_summarized_alike(kind):
    low = 0 if kind.startswith("u") else -100
    draws = xr.DataArray(RNG.integers(low, 100, size=(2, 200, 3)), dims=(*SAMPLE, "area"))
    assert summary(draws.astype(kind)).astype(float).equals(summary(draws).astype(float))


@pytest.mark.parametrize("kind", ["reals", "integers with ties"])
def test_simultaneous_intervals_contain_all_numbers_together(kind):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(2, 500, 6)) @ rng.normal(size=(6, 6)) * 4
    values = values if kind == "reals" else np.rint(values).astype(np.int64)
    draws = xr.DataArray(values, dims=("chain", "draw", "area"))

    def inside(table):
        return ((values >= table.lower.to_numpy()) & (values <= table.upper.to_numpy())).all(axis=-1).mean()

    found = summary(draws, 0.9, simultaneous=True)
    assert 0.9 <= inside(found) < 0.92
    assert inside(summary(draws, 0.9)) < 0.8, "intervals that hold alone do not hold together"
    if kind == "reals":
        flat = np.sort(values.reshape(-1, 6), axis=0)
        k = int(np.flatnonzero((flat == found.lower.to_numpy()).all(axis=1))[0]) + 1
        np.testing.assert_array_equal(flat[-k], found.upper)
        narrower = found.assign(lower=flat[k], upper=flat[-k - 1])
        assert inside(narrower) < 0.9, "the next narrower intervals contain too few draws"
    one = summary(draws.isel(area=[0]), 0.9, simultaneous=True)
    np.testing.assert_allclose(one.margin_of_error, summary(draws.isel(area=[0]), 0.9).margin_of_error, rtol=0.03)
