"""The installed package, the imports of the benchmarks, and the tiers of the tests."""

import os
import random
import re
import runpy
import stat
import subprocess
import sys
import zipfile
from collections import Counter
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


def faults_of_wheel(path):
    """Return what would not install on Linux, macOS and Windows, and files that are missing or private."""
    with zipfile.ZipFile(path) as wheel:
        entries = wheel.infolist()
        texts = {name: wheel.read(name) for name in wheel.namelist() if name.endswith((".py", ".j2", ".css"))}
    names = [entry.filename for entry in entries]
    faults = [f"link: {entry.filename}" for entry in entries if stat.S_ISLNK(entry.external_attr >> 16)]
    faults += [
        f"path: {name}" for name in names if not re.fullmatch(r"ppdinf(-[\w.]+dist-info)?/[\w./-]+", name, re.ASCII)
    ]
    faults += [f"path: {name}" for name in names if ".." in name or len(name) > 150]
    faults += [f"twice: {name}" for name, number in Counter(map(str.lower, names)).items() if number > 1]
    faults += [
        f"folder of a machine: {name}" for name, text in texts.items() if re.search(rb"/(home|work|Users)/\w", text)
    ]
    files = [path.relative_to(ROOT) for path in (ROOT / "ppdinf").rglob("*") if path.is_file()]
    own = [path.as_posix() for path in files if "__pycache__" not in path.parts]
    return faults + [f"missing: {name}" for name in own if name not in names]


def test_the_wheel_installs_on_every_system():
    path = os.environ.get("PPDINF_WHEEL")
    if not path:
        pytest.skip("PPDINF_WHEEL is not set")
    assert faults_of_wheel(path) == []


def test_faults_of_a_wheel_are_detected(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "ppdinf").mkdir()
    for name in ("page.j2", "a.py"):
        (tmp_path / "ppdinf" / name).touch()
    link = zipfile.ZipInfo("ppdinf/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "wheel.whl", "w") as wheel:
        for name, text in {
            "ppdinf/a.py": "'/home/me/x'",
            "ppdinf/A.py": "",
            "ppdinf/b:c.txt": "",
            "other/d.py": "",
        }.items():
            wheel.writestr(name, text)
        wheel.writestr(link, "a.py")
    assert faults_of_wheel(tmp_path / "wheel.whl") == [
        "link: ppdinf/link", "path: ppdinf/b:c.txt", "path: other/d.py", "twice: ppdinf/a.py",
        "folder of a machine: ppdinf/a.py", "missing: ppdinf/page.j2",
    ]  # fmt: skip


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


@pytest.mark.parametrize(("path", "package"), [
    ("ppdinf/noise/exact/cell_elimination.py", "noise"),
    ("tests/noise/test_single_sums.py", "noise"),
    ("tests/combinations/test_linked.py", "distributions"),
    ("ppdinf/cli/app.py", "cli"), ("tests/test_cli.py", "cli"), ("case_studies/covid/run.py", "studies"),
    ("tests/studies/test_noisy_pairs.py", "studies"),
])  # fmt: skip
def test_packages_of_paths(path, package):
    assert package_of(path) == package


def test_history_of_this_repository():
    number, changed = history()
    assert number >= 0
    assert all(isinstance(name, str) for name in changed)
