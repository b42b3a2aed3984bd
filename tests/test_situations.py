"""Published tables in the formats of their publishers: one natural command gives the bounds of integer programmes."""

import math
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from integer_programmes import programme
from test_cli import run

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
