"""Published tables in the formats of their publishers: one natural command gives the bounds of integer programmes."""

import math
import re
import shlex
import tomllib
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from integer_programmes import programme
from test_cli import run

import ppdinf as ppd
from ppdinf.errors import CountError, LabelError
from ppdinf.measurements.window_sums import Window

SITUATIONS = tomllib.loads(Path(__file__).with_name("situations.toml").read_text(encoding="utf-8"))


def ends(text):
    """The smallest and largest number of ``7``, ``1-9`` and ``0+``."""
    low, dash, high = text.removesuffix("+").partition("-")
    return int(low), math.inf if text.endswith("+") else int(high) if dash else int(low)


def statements(situation):
    """Matrix and limits of everything that the table states, from the hand-written lines."""
    low, high = np.array([ends(text) for text in situation["allowed"].split()], dtype=float).T
    rows = []
    for line in situation.get("sums", ()):
        least, most, *terms = line.split()
        weights = np.zeros(low.size)
        for term in terms:
            weight, _, cell = term.rpartition("*")
            weights[int(cell)] += int(weight or 1)
        rows.append((weights, float(least), math.inf if most == "+" else float(most)))
    return low, high, rows


def audited(situation, folder):
    """The bounds of cells by the command, in the folder of the files."""
    for name, text in {situation["file"]: situation["text"], **situation.get("other", {})}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return run("audit", situation["file"], *shlex.split(situation["options"]), "--output", "bounds.csv", code=...)


@pytest.mark.quick_cases(12)
@pytest.mark.parametrize("name", SITUATIONS)
def test_first_natural_command(name, tmp_path, monkeypatch):
    situation = SITUATIONS[name]
    monkeypatch.chdir(tmp_path)
    text = audited(situation, tmp_path)
    if "refused" in situation:
        assert situation["refused"] in text
        return
    low, high, rows = statements(situation)
    counts = np.array(situation["counts"].split(), dtype=int)
    assert ((counts >= low) & (counts <= high)).all()
    assert all(least <= weights @ counts <= most for weights, least, most in rows)
    found = pd.read_csv("bounds.csv")
    np.testing.assert_array_equal(found[["lower", "upper"]].to_numpy(float).T, programme(low, high, rows))


@pytest.mark.parametrize("text", ["t:1", "t:3", "t:all", "t:2:change", "d=t:1:change"])
def test_windows_against_sums_of_lists(text):
    """The sums of 9 labels from the window's own words, with all labels before them."""
    window, x = Window.of(text), np.random.default_rng(1).integers(0, 20, size=20).tolist()
    before, n = window.earlier, 9
    for k, total in enumerate(window.matrix(n, before) @ x[: before + n]):
        end = before + k + 1
        if window.length is None:
            assert total == sum(x[:end])
        else:
            last, previous = x[end - window.length : end], x[end - 2 * window.length : end - window.length]
            assert total == sum(last) - window.is_change * sum(previous)
    assert window.matrix(n, before)[0, : before + 1].all()  # no earlier label is superfluous


REFUSED = {
    "date:7": ("a,date,n\nx,2021-01-01,5\nx,2021-01-02,6\nx,2021-01-05,7\n", "'date' has a gap before '2021-01-05'"),
    "month:2": ("a,month,n\nx,2021-01-01,5\nx,2021-02-01,6\nx,2021-04-01,7\n", "'month' has a gap before '2021-04-01'"),
    "date-7": ("a,date,n\nx,1,5\nx,2,6\n", "must be such as date:7, week:all or change=date:7:change, found 'date-7'"),
    "week:all": ("a,date,n\nx,1,5\nx,2,6\n", "'week' is not a dimension: state the columns of labels"),
    "d=date:1:change": ("a,date,n\nx,1,5\nx,2,6\n", "has no column 'd'"),
}


@pytest.mark.parametrize("over", REFUSED)
def test_sums_along_a_dimension_that_are_refused(over, tmp_path):
    text, message = REFUSED[over]
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(LabelError, match=re.escape(message)):
        ppd.read_published(tmp_path / "t.csv", value="n", over=over)


def test_months_in_any_order_and_percentages_of_other_columns(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("a,month,n\nx,2021-03-01,7\nx,2021-01-01,5\nx,2021-02-01,6\n")
    seen = ppd.read_published(file, over="month:2")
    assert seen.coords["month"].tolist() == ["1 before 2021-01-01", "2021-01-01", "2021-02-01", "2021-03-01"]
    file.write_text("a,month,p\nx,1,25\nx,2,75\n")
    with pytest.raises(LabelError, match="no column 'school'"):
        ppd.read_published(file, value="p", of="school")
    file.write_text("a,level,p\nx,1,25\nx,2,often\n")
    with pytest.raises(CountError, match=r"t\.csv line 3, column 'p': 'often' is neither a number nor a range"):
        ppd.read_published(file, value="p", of="total")


@pytest.mark.deep
@pytest.mark.interpreted
def test_posterior_of_rolling_sums_against_enumeration(tmp_path):
    """Sums of two labels, of which the first is hidden: uniform draws from all tables, false-alarm rate 1e-6."""
    (tmp_path / "t.csv").write_text("day,n\n1,*\n2,4\n3,3\n")
    seen = ppd.read_published(tmp_path / "t.csv", over="day:2", rule="suppressed(1, 2)")
    tables = [
        x for x in product(range(5), repeat=4) if (1 <= x[0] + x[1] <= 2, x[1] + x[2], x[2] + x[3]) == (True, 4, 3)
    ]
    draws = ppd.denoise(seen, draws=2000, rng=1, prior="flat", progressbar=False).draws.values.reshape(-1, 4)
    shares = (draws[:, None] == np.array(tables)).all(axis=2).mean(axis=0)
    assert shares.sum() == pytest.approx(1)
    p = 1 / len(tables)
    assert np.abs((shares - p) / np.sqrt(p * (1 - p) / 1000)).max() < 5  # a quarter of the draws, as if independent
