"""Six consecutive runs of the deep tier cover every deep test, and one run is a small part of them."""

import random

import pytest

from conftest import PACKAGES, TURNS, history, in_rotation, package_of

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
        ("tests/studies/test_pairs.py", "studies"),
    ],
)
def test_packages_of_paths(path, package):
    assert package_of(path) == package


def test_history_of_this_repository():
    number, changed = history()
    assert number >= 0
    assert all(isinstance(name, str) for name in changed)
