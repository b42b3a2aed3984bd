"""Ranges and suppression marks as published tables write them, in `measured`, in ``public=`` and in files."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from known_parameters import gaps_by_rate
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import CountError, InvariantError, LabelError, ModelError, PrivacyError
from ppdinf.tables.count_ranges import count_range, range_text

inv, laws = ppd.invariants, ppd.laws
INF = np.inf
AREAS = {"area": ["A", "B", "C"]}


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        (17, 17, 17), (17.0, 17, 17), (np.int32(3), 3, 3), ("17", 17, 17), ("17.0", 17, 17), (" 17 ", 17, 17),
        ("1-9", 1, 9), ("1 – 9", 1, 9), ("10 to 50", 10, 50), ("-3-5", -3, 5), ("-5--3", -5, -3), ("<5", -INF, 4),
        ("< 11", -INF, 10), ("<=4", -INF, 4), ("≤4", -INF, 4), (">99", 100, INF), (">=100", 100, INF),
        ("≥100", 100, INF), ("100+", 100, INF), ("100 or more", 100, INF), ("-7", -7, -7), ("0", 0, 0),
    ],
)  # fmt: skip
def test_grammar(text, low, high):
    assert count_range(text) == (low, high)
    assert count_range(range_text(low, high)) == (low, high)


@pytest.mark.parametrize(
    "text",
    ["S", "(D)", "", None, np.nan, "1,234", "1.5", 1.5, "9-1", "<five", "5<", True, "1e3", 2.0**60, "٣", "..", "1-"],
)
def test_other_values_are_refused(text):
    with pytest.raises(CountError):
        count_range(text)


def test_suppressed_values_have_the_type_and_labels_of_the_values():
    values, wanted = ["17", "S", None, np.nan, 0], ["17", "1-4", "1-4", "1-4", 0]
    series = pd.Series(values, index=list("vwxyz"))
    frame = series.to_frame("n")
    array = xr.DataArray(np.array(values, dtype=object), dims="area", coords={"area": list("vwxyz")})
    for given in (series, frame, array, np.array(values, dtype=object), values):
        found = ppd.suppressed(given, below=5, least=1, empty="suppressed")
        assert np.asarray(found, dtype=object).ravel().tolist() == wanted
    assert ppd.suppressed(dict(zip("ab", ["(D)", 3], strict=True))) == {"a": ">=0", "b": 3}
    assert ppd.suppressed(series.dropna(), below=5, least=1).index.equals(series.dropna().index)
    assert ppd.suppressed(["..", "c"], 5, marks=["c"]).tolist() == ["..", "0-4"]
    masked = np.ma.masked_array([3, 4], mask=[False, True])
    assert ppd.suppressed(masked, below=3, empty="suppressed").tolist() == [3, "0-2"]
    assert ppd.suppressed(["S"], below=1).tolist() == ["0"]
    with pytest.raises(CountError, match="empty"):
        ppd.suppressed(["S"], below=1, least=1)


def test_ranges_of_arrays():
    assert ppd.ranges([1, np.nan, 3, None], [9, 4, 3, None]).tolist() == ["1-9", "<=4", "3", ""]
    low, high = pd.Series({"A": 1, "B": 2}), pd.Series({"B": 3, "A": 4})
    with pytest.raises(CountError, match="same order"):
        ppd.ranges(low, high)
    assert ppd.ranges(low, high.loc[["A", "B"]]).to_dict() == {"A": "1-4", "B": "2-3"}
    with pytest.raises(CountError, match="empty"):
        ppd.ranges([4], [3])


def supports(seen):
    draws = ppd.denoise(seen, draws=300, rng=1, prior="flat", progressbar=False).draws.values
    return [sorted(set(column)) for column in draws.reshape(-1, draws.shape[-1]).T.tolist()]


def test_public_values_may_be_ranges_in_any_order():
    values = pd.Series({"C": "2-4", "A": 3.0, "B": "(D)"})
    with pytest.raises(CountError, match=r"'area=B': .*suppression mark"):
        ppd.Measurements(AREAS, public={inv.margin("area"): values})
    seen = ppd.Measurements(AREAS, public={inv.margin("area"): ppd.suppressed(values), inv.total(): 10})
    assert supports(seen) == [[3], [3, 4, 5], [2, 3, 4]]
    assert seen.public.names == ["area=A", "total"]
    assert seen.to_dataframe().released.to_dict() == {"area=B": ">=0", "area=C": "2-4"}


def test_nan_states_nothing_and_missing_labels_are_refused():
    seen = ppd.Measurements(AREAS, public={inv.margin("area"): [3, np.nan, "<3"], inv.total(): 5})
    assert supports(seen) == [[3], [0, 1, 2], [0, 1, 2]]
    nothing = ppd.Measurements(AREAS, public={inv.margin("area"): [None, np.nan, ""], inv.total(): 1})
    assert supports(nothing) == [[0, 1]] * 3
    for stated in ({"A": 3, "B": "<3"}, pd.Series({"A": 3, "B": "<3"})):
        with pytest.raises(LabelError, match="lack 'area=C'"):
            ppd.Measurements(AREAS, public={inv.margin("area"): stated})
        with pytest.raises(LabelError, match="lack 'area=C'"):
            ppd.Measurements(AREAS, ppd.measured(inv.margin("area"), stated, laws.Interval()))


def test_several_laws_in_one_table_are_stored_in_files(tmp_path):
    seen = ppd.Measurements(
        AREAS,
        ppd.measured(inv.margin("area"), ["1-9", "17", np.nan], laws.Interval()),
        ppd.measured(inv.margin("area"), [5, np.nan, 10], laws.Thresholded(laws.Rounded([5, 3, 10], ties="up"), 5)),
        ppd.measured(inv.total(), 0, laws.Clipped(laws.DoubleGeometric("1/2"))),
        ppd.measured(inv.total(), 3, laws.Thresholded(laws.RandomRounding(3), 3)),
        ppd.measured(inv.total(), np.nan, laws.Thresholded(laws.TransitionMatrix(np.eye(9)), 3)),
        public={inv.groups("area", {"A": "n", "B": "n", "C": "s"}): ["<30", 7]},
    )
    seen.save(tmp_path / "seen.ppd")
    again = ppd.read_measurements(tmp_path / "seen.ppd")
    assert again.equals(seen)
    x = np.arange(20)[None] + np.zeros((seen.entries.y.size, 1), dtype=int)
    np.testing.assert_array_equal(again.entries.log_weights(x), seen.entries.log_weights(x))
    assert again.to_dataframe().equals(seen.to_dataframe())


def test_marginal_likelihood_of_ranges():
    """The probability of a range of a Poisson count is a difference of its distribution function."""
    seen = ppd.Measurements({"area": ["A", "B"]}, ppd.measured(inv.margin("area"), ["2-4", "<3"], laws.Interval()))

    def log_mass(means):
        first, second = stats.poisson(means[0]), stats.poisson(means[1])
        return np.log(first.cdf(4) - first.cdf(1)) + second.logcdf(2)

    first, second = gaps_by_rate(seen, np.ones(2), log_mass)
    assert first == pytest.approx(second, abs=1e-9)


@pytest.mark.parametrize(
    ("values", "public", "error", "message"),
    [
        (["1-2", "1-2", "0"], {inv.total(): 5}, InvariantError, "'total' contradicts"),
        (["1-2", "1-2", "0"], {inv.cells({"area": "A"}): "5-7"}, InvariantError, "area=A"),
        ([">=5", "1-2", "0"], {}, ModelError, "area=A is unbounded"),
        (["1-2", "1,000", "0"], {}, CountError, r"'area=B': .*'1,000'"),
    ],
)
def test_contradictions_name_the_sums(values, public, error, message):
    def denoised():
        seen = ppd.Measurements(AREAS, ppd.measured(inv.margin("area"), values, laws.Interval()), public=public)
        ppd.denoise(seen, draws=10, progressbar=False)

    with pytest.raises(error, match=message):
        denoised()


def test_refusals():
    for wrong in (lambda: laws.Rounded(4), lambda: laws.Rounded(0), lambda: laws.Rounded(5, "inwards"),
                  lambda: laws.Rounded(4, ties="none"), lambda: laws.Clipped(laws.DoubleGeometric(1), 1.5),
                  lambda: laws.Clipped(laws.L2Laplace(1)), lambda: laws.Thresholded(laws.Interval(), 3),
                  lambda: laws.Clipped(laws.Thresholded(laws.DoubleGeometric(1), 3))):  # fmt: skip
        with pytest.raises(PrivacyError):
            wrong()
    seen = ppd.Measurements(AREAS, ppd.measured(inv.margin("area"), ["1-9", 3, "<5"], laws.Interval()))
    with pytest.raises(PrivacyError, match="cannot be simulated"):
        seen.entries.publish(np.zeros((1, 3), dtype=int), np.random.default_rng(1))
    with pytest.raises(CountError, match="multiple of 5"):
        ppd.Measurements(AREAS, ppd.measured(inv.margin("area"), [5, 3, 5], laws.Rounded(5)))


@pytest.mark.parametrize("law", [
    laws.Rounded(4, ties="up"), laws.Rounded(4, ties="down"), laws.Rounded(4, ties="even"), laws.Rounded(3),
    laws.Rounded(5, "up"), laws.Rounded(5, "down"), laws.Thresholded(laws.Rounded(5), 10),
], ids=str)  # fmt: skip
def test_rounding_and_its_ranges_agree(law):
    x = np.arange(-30, 31)
    y = law.publish(x, np.random.default_rng())
    possible = np.unique(y)
    np.testing.assert_array_equal(law.log_weight(possible[:, None], x) == 0, possible[:, None] == y)
    assert law.is_possible(possible).all()
    if isinstance(law, laws.Rounded) and law.ties == "even":
        np.testing.assert_array_equal(y, np.rint(x / 4) * 4)


def test_upper_ends_of_all_cells_restrict_the_moves():
    """Swaps of two rows and columns connect tables with lower bounds; upper bounds require longer cycles."""
    cells = np.full((3, 3), "0-2", dtype=object)
    public = {inv.margin("r", "c"): cells, inv.margin("r"): [3, 3, 2], inv.margin("c"): [3, 3, 2]}
    seen = ppd.Measurements({"r": range(3), "c": range(3)}, public=public)
    posterior = ppd.denoise(seen, draws=20, rng=1, prior="flat", progressbar=False)
    assert "lower and upper bounds on cells: alternating cycles" in posterior.plan
    assert posterior.draws.max() == 2


def test_contradictions_of_crossing_ranges_name_the_sums():
    rows = ppd.measured(inv.margin("r"), ["4-5", "<6"], laws.Interval())
    columns = ppd.measured(inv.margin("c"), [">=6", "5-6"], laws.Interval())
    seen = ppd.Measurements({"r": range(2), "c": range(2)}, rows, columns)
    with pytest.raises(InvariantError) as error:
        ppd.denoise(seen, draws=10, progressbar=False)
    assert all(f"'{name}'" in str(error.value) for name in ("r=0", "r=1", "c=0", "c=1"))
