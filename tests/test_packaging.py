"""The installed package, the imports of the benchmarks, and the tiers of the tests."""

import random
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import ppdinf as ppd
from conftest import PACKAGES, TURNS, history, in_rotation, package_of

ROOT = Path(__file__).parents[1]


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "ppdinf", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"ppdinf {ppd.__version__}"


def test_citation_names_the_papers_of_the_citation_file():
    titles = re.findall(r'title: "(.*)"', (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert len(titles) == 6
    cited = re.findall(r"^  title = \{(.*)\}", ppd.citation(), flags=re.M)
    assert sorted(cited) == sorted(titles)
    assert f"version = {{{ppd.__version__}}}" in ppd.citation()
    assert ppd.citation().count("{") == ppd.citation().count("}")


BENCHMARKS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_loads(path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    loaded = runpy.run_path(str(path), run_name="loaded")
    assert loaded["__doc__"].count("benchmarks/") >= 1, "the command is in the docstring"


NODES = [
    f"tests/{package}/test_{k}.py::test_{k}[{case}]" for package in "abcdefgh" for k in range(9) for case in range(7)
]


def runs(number, changed):
    return {node for node in NODES if in_rotation(node, number, frozenset(changed))}


def test_six_consecutive_runs_cover_every_test():
    rng = random.Random(1)
    for first in (0, 5, 1234):
        changes = [rng.sample("abcdefgh", rng.randrange(9)) for _ in range(TURNS)]
        assert set().union(*(runs(first + k, changes[k]) for k in range(TURNS))) == set(NODES)
        assert set().union(*(runs(first + k, changes[k]) for k in range(TURNS - 1))) != set(NODES)


def test_tests_of_changed_packages_run_and_a_sixth_of_the_others():
    for number in range(TURNS):
        chosen = runs(number, "ab")
        assert {node for node in NODES if node.startswith(("tests/a/", "tests/b/"))} <= chosen
        others = len(NODES) * 6 // 8
        assert abs(len(chosen) - 2 * 63 - others / 6) < 4 * (others / 6) ** 0.5  # false-alarm rate 1e-4; fixed names
        assert len(runs(number, "abcdefgh"[: PACKAGES + 1])) < len(NODES) / 2


@pytest.mark.parametrize(
    ("path", "package"),
    [
        ("ppdinf/noise/exact/independent.py", "noise"),
        ("tests/noise/test_single_sums.py", "noise"),
        ("tests/combinations/test_linked.py", "distributions"),
        ("ppdinf/cli/app.py", "cli"),
        ("tests/test_cli.py", "cli"),
        ("case_studies/covid/run.py", "studies"),
        ("tests/studies/test_noisy_pairs.py", "studies"),
    ],
)
def test_packages_of_paths(path, package):
    assert package_of(path) == package


def test_history_of_this_repository():
    number, changed = history()
    assert number >= 0
    assert all(isinstance(name, str) for name in changed)
