"""The rule of a publisher who suppresses counts and rounds others: every printed text means its preimage."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from known_parameters import gaps_by_rate
from scipy import stats
from test_cli import run

import ppdinf as ppd
from ppdinf import read_published
from ppdinf.errors import CountError, LabelError, PrivacyError
from ppdinf.tables.count_ranges import count_range

inv, laws = ppd.invariants, ppd.laws
COUNTS = np.arange(61)


def nearest(x, base):
    return base * ((x + base // 2) // base)


def test_rounded_and_suppressed_cells_in_a_file(tmp_path):
    """The printed 0 is 0, because 1 and 2 would be suppressed; the sum of 120 cells has narrower bounds."""
    x = np.random.default_rng(1).negative_binomial(0.5, 0.07, size=120)
    shown = np.where((x > 0) & (x < 8), "*", nearest(x, 5).astype(str))
    cells, rounded = tmp_path / "cells.csv", tmp_path / "total.csv"
    pd.DataFrame({"p": [f"P{k}" for k in range(120)], "n": shown}).to_csv(cells, index=False)
    options = {"value": "n", "dims": ["p"], "rule": ppd.rules.rounded(5).then(ppd.rules.suppressed(1, 7))}
    seen = read_published(cells, **options)
    found = ppd.identified_bounds(seen)
    low = np.where(shown == "*", 1, np.where(x == 0, 0, np.maximum(nearest(x, 5) - 2, 8)))
    high = np.where(shown == "*", 7, np.where(x == 0, 0, nearest(x, 5) + 2))
    np.testing.assert_array_equal(found.lower, low)
    np.testing.assert_array_equal(found.upper, high)
    assert not found.disclosed.any()  # the zeros are published
    bounds = ppd.identified_bounds(seen, of=inv.total())
    assert (bounds.lower.item(), bounds.upper.item()) == (low.sum(), high.sum())
    text = run("audit", cells, "--value", "n", "--dims", "p", "--rounded", 5, "--suppressed", "1-7")
    assert f"{(low < high).sum()} have more than one possible count" in text
    rounded.write_text(f"n\n{nearest(x.sum(), 5)}\n")
    again = ppd.identified_bounds(read_published(cells, **options, sums=[rounded]), of=inv.total())
    assert again.upper.item() == min(nearest(x.sum(), 5) + 2, high.sum())


@pytest.mark.parametrize("law", [laws.RandomRounding(3), laws.DoubleGeometric("1/2"), laws.Rounded(10, ties="up")])
def test_posterior_excludes_suppressed_counts(law):
    """Three cells with a public sum, against all tables; 2,000 exact draws, false-alarm rate 1e-6."""
    numbers, total = [0, "*", 9 if law != laws.Rounded(10, ties="up") else 10], 13
    rule = laws.Suppressed(law, below=3, least=1)
    plain = ppd.Measurements({"p": [0]}, ppd.measured(inv.margin("p"), [0], law)).entries
    last = ppd.Measurements({"p": [0]}, ppd.measured(inv.margin("p"), [numbers[2]], law)).entries
    log_p = plain.log_weights(COUNTS[None])[0], last.log_weights(COUNTS[None])[0]
    tables = [
        (a, b, total - a - b)
        for b in (1, 2)
        for a in range(total - b + 1)
        if a not in (1, 2) and total - a - b not in (1, 2)
    ]
    weights = np.exp([log_p[0][a] + log_p[1][c] for a, _, c in tables])
    tables, weights = np.array(tables)[weights > 0], weights[weights > 0] / weights.sum()
    seen = ppd.Measurements(
        {"p": list("ABC")}, ppd.measured(inv.margin("p"), numbers, rule), public={inv.total(): total}
    )
    posterior = ppd.denoise(seen, draws=1000, rng=1, prior="flat", progressbar=False)
    assert "exactly" in posterior.plan
    draws = posterior.draws.values.reshape(-1, 3)
    shares = (draws[:, None] == tables).all(axis=2).mean(axis=0)
    assert shares.sum() == pytest.approx(1)
    z = (shares - weights) / np.sqrt(weights * (1 - weights) / len(draws) + 1e-6)
    assert np.abs(z).max() < 5.5


def test_three_states():
    shown = ["S", None, "31"]
    with pytest.raises(CountError, match="empty='suppressed', 'missing' or 'zero'"):
        ppd.suppressed(shown, below=10, least=1)
    for empty, wanted in (("missing", None), ("suppressed", "1-9"), ("zero", "0")):
        for marks in ("S", {"S"}):
            found = ppd.suppressed(shown, below=10, least=1, marks=marks, empty=empty)
            assert found.tolist() == ["1-9", wanted, "31"]
    with pytest.raises(CountError, match="'suppressed', 'missing' or 'zero', found 'hidden'"):
        ppd.suppressed(shown, empty="hidden")
    rule = {"below": 8, "least": 1}
    for empty, bounds in (("missing", [0, np.inf]), ("suppressed", [1, 7]), ("zero", [0, 0])):
        law = laws.Suppressed(laws.Rounded(5), **rule, empty=empty)
        for values in ({"A": 10, "B": np.nan}, {"A": 10}, pd.Series({"B": None, "A": "10"}), [10, ""], [10, pd.NA],
                       xr.DataArray([10, np.nan], dims="p")):  # fmt: skip
            seen = ppd.Measurements({"p": ["A", "B"]}, ppd.measured(inv.margin("p"), values, law))
            assert ppd.identified_bounds(seen).loc["B", ["lower", "upper"]].tolist() == bounds
    asked = ppd.measured(inv.margin("p"), [10, np.nan], laws.Suppressed(laws.Rounded(5), **rule))
    with pytest.raises(CountError, match="'p=B': the value is empty: state"):
        ppd.Measurements({"p": ["A", "B"]}, asked)


@pytest.mark.parametrize(
    ("values", "marks", "wanted"),
    [
        (["9", "999", "12"], "999", ["9", "0-4", "12"]),
        ([9, -999999, 12], {-999999}, [9, "0-4", 12]),
        ([9.0, -999999.0, 12.0], -999999, [9.0, "0-4", 12.0]),
        (["9", "-999999", "12"], [-999999], ["9", "0-4", "12"]),
        ([9, 999, 12], "999", [9, "0-4", 12]),
        (["9", " ps ", "n"], ("PS", "N"), ["9", "0-4", "0-4"]),
        (["9", "[REDACTED]", "suppressed"], None, ["9", "0-4", "0-4"]),
        (["9", "<10", "12"], "<10", ["9", "0-4", "12"]),
        (["9", "0", "12"], {0}, ["9", "0-4", "12"]),
    ],
)  # fmt: skip
def test_marks_are_whole_texts_and_numbers(values, marks, wanted):
    given = {} if marks is None else {"marks": marks}
    assert ppd.suppressed(values, below=5, **given).tolist() == wanted
    law = laws.Suppressed(laws.Rounded(3), below=5, **given)
    seen = ppd.Measurements({"p": list("ABC")}, ppd.measured(inv.margin("p"), values, law))
    found = ppd.identified_bounds(seen)
    assert found.upper.tolist() == [4 if value == "0-4" else int(float(value)) + 1 for value in wanted]


def test_a_rule_that_contradicts_the_file_is_refused(tmp_path):
    with pytest.raises(CountError, match="'3' is published, but counts from 1 to 9 are suppressed"):
        ppd.suppressed(["S", "3"], below=10, least=1)
    with pytest.raises(CountError, match="0 is published"):
        ppd.suppressed([0, "S"], below=10)
    assert ppd.suppressed([0, 3, "S"]).tolist() == [0, 3, ">=0"]  # secondary suppression
    file = tmp_path / "n.csv"
    file.write_text("p,n\nA,S\nB,3\n")
    options = ["--value", "n", "--dims", "p", "--suppressed", "1-9"]
    assert "n.csv line 3, column 'n': '3' is impossible for every count" in run("audit", file, *options, code=1)
    file.write_text("p,n\nA,S\nB,5\n")
    text = run("audit", file, *options, "--rounded", 5, code=1)
    assert "n.csv line 3, column 'n': '5' is impossible for every count" in text


def test_rules_in_files(tmp_path):
    rule = laws.Suppressed(laws.Clipped(laws.DoubleGeometric("1/4"), at=0), below=10, least=1, empty="missing")
    seen = ppd.Measurements(
        {"p": list("ABCD")},
        ppd.measured(inv.margin("p"), [0, "*", 17, None], rule),
        ppd.measured(inv.total(), 30, laws.Suppressed(laws.TransitionMatrix(np.eye(40)), below=3)),
        ppd.measured(inv.margin("p"), ["S", 10, 0, 9], laws.Suppressed(laws.Rounded([5, 5, 3, 3]), below=3, least=1)),
        ppd.measured(inv.margin("p"), ["1-3", 8, 4, 2], laws.DoubleGeometric(1)),
    )
    seen.save(tmp_path / "seen.ppd")
    again = ppd.read_measurements(tmp_path / "seen.ppd")
    assert again.equals(seen)
    x = COUNTS[None] + np.zeros((seen.entries.y.size, 1), dtype=int)
    np.testing.assert_array_equal(again.entries.log_weights(x), seen.entries.log_weights(x))


def test_empty_values_and_absent_rows_of_files(tmp_path):
    cells, total = tmp_path / "cells.csv", tmp_path / "total.csv"
    cells.write_text("p,q,n\nA,x,S\nA,y,12\nB,x,\nB,y,10\nC,x,0\n")  # no row for C, y
    total.write_text("n\n31\n")
    options = ["--value", "n", "--dims", "p,q", "--suppressed", "1-4", "--public", total]
    text = run("audit", cells, *options, code=1)
    assert (
        "no row for p=C, q=y: state what absent rows mean by --empty suppressed, --empty missing or --empty zero"
        in text
    )
    out = tmp_path / "out.csv"
    for empty, code, upper in (
        ("zero", 1, [9, 12, 0, 10, 0, 0]), ("missing", 0, [4, 12, 8, 10, 0, 8]), ("suppressed", 0, [4, 12, 4, 10, 0, 4])
    ):  # fmt: skip
        if empty == "zero":
            total.write_text("n\n26\n")
            upper = [4, 12, 0, 10, 0, 0]
        run("audit", cells, *options, "--empty", empty, "--output", out, code=code)
        assert pd.read_csv(out).upper.tolist() == upper
        total.write_text("n\n31\n")
    cells.write_text("p,q,n\nA,x,S\nA,y,12\nB,x,\nB,y,10\nC,x,0\nC,y,7\n")
    assert "cells.csv line 4, column 'n': the value is empty: state" in run("audit", cells, *options, code=1)
    text = run("audit", cells, "--value", "n", "--dims", "p,q", "--empty", "suppressed", code=1)
    assert "needs the range of suppressed counts" in text
    cells.write_text("state,county,n\nX,A,S\nX,B,4\nY,C,S\n")
    with pytest.raises(LabelError, match="If 'state' depends on 'county'"):
        read_published(cells, value="n", dims=["state", "county"], rule=ppd.rules.suppressed(1, 3), empty="suppressed")


def test_marks_in_files_of_exact_sums_and_other_marks(tmp_path):
    cells, public = tmp_path / "cells.csv", tmp_path / "public.csv"
    cells.write_text("p,q,n\nA,x,S\nA,y,12\nB,x,0\nB,y,S\n")
    public.write_text("q,n\nx,S\ny,14\n")
    options = ["--value", "n", "--dims", "p,q", "--suppressed", "1-2"]
    text = run("audit", cells, *options, "--public", public, code=1)
    assert "public.csv line 2" not in text
    public.write_text("q,n\nx,N\ny,14\n")
    text = run("audit", cells, *options, "--public", public, code=1)
    assert "public.csv line 2, column 'n': 'N' is not an integer" in text
    assert "--marks N" in text
    public.write_text("q,n\nx,-9\ny,14\n")
    cells.write_text("p,q,n\nA,x,-9\nA,y,12\nB,x,0\nB,y,N\n")
    text = run("audit", cells, *options, "--public", public, "--marks", "N,-9", code=1)
    assert "determined B y 2" in " ".join(text.split()).replace("p q ", "")
    text = run("audit", cells, "--value", "n", "--dims", "p,q", "--marks", "N,-9")  # any count
    assert "4 cells; 2 have more than one possible count" in text


@pytest.mark.parametrize("name", ["cells.txt", "cells.tsv", "cells.dat", "cells"])
@pytest.mark.parametrize("separator", ["\t", ";", "|", ","])
def test_other_names_and_separators_of_files(name, separator, tmp_path):
    file = tmp_path / name
    file.write_text("p,n\nA,17\nB,1-9\n".replace(",", separator), encoding="utf-8-sig")
    assert "2 cells; 1 has more than one" in run("audit", file, "--value", "n", "--dims", "p")
    assert "2 cells; 1 has more than one" in run("audit", file, "--value", "n")


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("3 or fewer", -np.inf, 3), ("Fewer than 10", -np.inf, 9), ("less than 5", -np.inf, 4),
        ("100000 or More", 100000, np.inf), ("at most 4", -np.inf, 4), ("More than 99", 100, np.inf), ("5 TO 9", 5, 9),
    ],
)  # fmt: skip
def test_ranges_in_words(text, low, high):
    assert count_range(text) == (low, high)


@pytest.mark.parametrize(("text", "words"), [("GE95", "percentage"), ("LT50", "percentage"), ("12 %", "percentage"),
                                             ("NA", "--marks NA"), ("..", r"--marks \.\.")])  # fmt: skip
def test_other_texts_are_refused_with_a_remedy(text, words):
    with pytest.raises(CountError, match=words):
        count_range(text)


def test_probabilities_of_numbers_and_marks_sum_to_one():
    """For suppressed and other counts, so that laws can be compared."""
    rule, values = laws.Suppressed(laws.DoubleGeometric("1/2"), below=3, least=1), ["*", *range(-90, 100)]
    entries = ppd.Measurements({"p": range(191)}, ppd.measured(inv.margin("p"), values, rule)).entries
    total = np.zeros(191)
    for form, rows in entries.forms:
        total[rows] = form.log_total(1)
    weights = entries.log_weights(np.tile(np.arange(6), (191, 1)))
    np.testing.assert_allclose(np.exp(weights - total[:, None]).sum(axis=0), 1)


@pytest.mark.parametrize("law", [laws.RandomRounding(5), laws.Rounded(10, ties="up"), laws.DoubleGeometric(1)], ids=str)
def test_marginal_likelihood_in_a_model(law):
    """Three Poisson counts with one rate, summed over all counts; a printed 0 can be 0, 3 or 4, but not 1 or 2."""
    rule, texts = laws.Suppressed(law, below=3, least=1), ["0", "*", "10"]
    seen = ppd.Measurements({"p": list("ABC")}, ppd.measured(inv.margin("p"), texts, rule))
    numbers = ppd.Measurements({"p": list("ABC")}, ppd.measured(inv.margin("p"), [0, None, 10], law)).entries
    weights = np.exp(numbers.log_weights(np.tile(COUNTS, (2, 1)))) * ~np.isin(COUNTS, [1, 2])
    weights = np.stack([weights[0], np.isin(COUNTS, [1, 2]), weights[1]])

    def log_mass(means):
        return np.log((stats.poisson.pmf(COUNTS, means[:, None]) * weights).sum(axis=1)).sum()

    values = gaps_by_rate(seen, np.array([1.0, 2.0, 3.0]), log_mass, (0.0, 0.7, 1.5))
    np.testing.assert_allclose(values, values[0], atol=1e-8)


def test_rules_that_are_refused():
    for wrong in (
        lambda: laws.Suppressed(laws.Interval(), 5), lambda: laws.Suppressed(laws.L2Laplace(1), 5),
        lambda: laws.Suppressed(laws.Thresholded(laws.Rounded(5), 5), 5),
        lambda: laws.Suppressed(laws.Rounded(5), 1, 1), lambda: laws.Suppressed(laws.Suppressed(laws.Rounded(5), 5), 5),
    ):  # fmt: skip
        with pytest.raises(PrivacyError):
            wrong()
