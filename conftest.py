"""Two tiers of tests: ``pytest`` runs the quick tests, ``pytest --deep`` tests that take minutes; ``.ci/run`` both.

``pytest --deep`` runs the deep tests of the packages that the commits of the last half day changed, and a sixth of the
others. The number of the last commit decides which sixth, so that six consecutive commits run them all. If many
packages changed, a third of their tests runs. ``pytest --deep --all`` runs every deep test; with paths, all of their
deep tests run.

A test marked ``quick_cases(n)`` has n quick cases; its other cases are deep tests. ``pytest --all`` runs all of its
cases with the quick tests.
"""

import gc
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

# Bytecode is always written: compiling the sources of PyMC again takes every process 10 CPU seconds.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# PyTensor records where every variable was created, for its messages, which takes 5 % of the time of a model. Graphs
# that are not compiled contain single functions in C, whose compilation takes longer than their evaluation.
os.environ["PYTENSOR_FLAGS"] = ",".join(filter(None, ("traceback__limit=0,cxx=", os.environ.get("PYTENSOR_FLAGS"))))

# Garbage is collected less often, because modules such as PyMC are kept until the process ends.
gc.set_threshold(20_000, 20, 20)

# The second of two workers starts in the middle of the list of tests. The folders there share few kernels with the
# first folders, so that with cold caches each worker compiles kernels that the other worker then loads.
LATER = ("ppdinf", *(f"tests/{folder}" for folder in ("lattice", "noise", "plots", "privacy", "releases", "test_")))

TURNS = 6  # runs of `pytest --deep` in which every deep test runs at least once
PACKAGES = 4  # changed packages, at most, of which all deep tests run
MANY = 20  # changed packages, at most, of which a third of the deep tests runs
RECENT = 12 * 3600  # age in seconds of commits, relative to the last one, whose changes are tested
SUBJECTS = {"combinations": "distributions"}  # the package that a folder of tests is about

# examples that need an optional package run where it is installed
collect_ignore_glob = [
    *(["ppdinf/census/*", "ppdinf/denoising/denoise_parts.py"] if not find_spec("pyarrow") else []),
    *(["ppdinf/plots/uncertainty.py"] if not find_spec("geopandas") else []),
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="run deep tests instead of the others")
    parser.addoption("--all", action="store_true", help="every test of the tier, with all of its cases")


def package_of(path: str) -> str:
    """Return the package that a file of the repository belongs to, or that a test is about."""
    top, _, rest = path.partition("/")
    name = rest.partition("/")[0].removesuffix(".py").removeprefix("test_")
    return "studies" if top == "case_studies" else SUBJECTS.get(name, name)


@cache
def history() -> tuple[int, frozenset[str]]:
    """Return the number of the last commit, and the packages that recent commits changed; 0 and none without git."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True).stdout

    number, seconds = git("rev-list", "--count", "HEAD"), git("log", "-1", "--format=%ct")
    if not number:
        return 0, frozenset()
    paths = git("log", f"--since={int(seconds) - RECENT}", "--format=", "--name-only").split("\n")
    return int(number), frozenset(package_of(x) for x in paths if x.startswith(("ppdinf/", "tests/", "case_studies/")))


def in_rotation(nodeid: str, number: int, changed: frozenset[str]) -> bool:
    """Return whether a deep test runs at the commit with this number."""
    of_changed = TURNS if len(changed) <= PACKAGES else 2 if len(changed) <= MANY else 1
    shares = of_changed if package_of(nodeid.partition("::")[0]) in changed else 1
    return (crc32(nodeid.encode()) - number) % TURNS < shares


def rotates(config: pytest.Config) -> bool:
    """Return whether a part of the deep tests was requested, without a path."""
    everywhere = set(config.getini("testpaths")) <= set(config.args)
    return bool(config.getoption("--deep") and not config.getoption("--all") and everywhere)


def pytest_report_header(config: pytest.Config) -> str | None:
    if not rotates(config):
        return None
    number, changed = history()
    names = f"the packages {', '.join(sorted(changed))}" if len(changed) <= PACKAGES else f"{len(changed)} packages"
    share = "a third of" if len(changed) > PACKAGES else "all"
    of_changed = f"{share} tests of {names}, which changed, and " * (0 < len(changed) <= MANY)
    return f"deep tests: {of_changed}sixth {number % TURNS + 1} of {TURNS} of the other tests"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    deep, every_case = config.getoption("--deep"), config.getoption("--all")
    groups = [item.nodeid.partition("[")[0] for item in items if not item.get_closest_marker("deep")]
    cases, before = Counter(groups), Counter[str]()
    chosen, turn = set[pytest.Item](), history() if rotates(config) else None
    for item in items:
        is_deep = item.get_closest_marker("deep") is not None
        if not is_deep:
            group = item.nodeid.partition("[")[0]
            number, before[group] = before[group], before[group] + 1
            if (quick := item.get_closest_marker("quick_cases")) and (deep or not every_case):
                (share,) = quick.args  # quick cases are spread evenly over all cases
                is_deep = number * share % cases[group] >= share
        if is_deep == deep and (turn is None or in_rotation(item.nodeid, *turn)):
            chosen.add(item)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = sorted(filter(chosen.__contains__, items), key=lambda item: item.nodeid.startswith(LATER))


def pytest_collection_finish() -> None:
    """Move all modules to the oldest generation of the garbage collector.

    Objects are not frozen: Hypothesis requests the referrers of its generator, and the collector omits frozen objects.
    """
    gc.collect()


@cache
def interpreter() -> Any:
    """Return the mode that evaluates graphs by NumPy, after all rewrites that do not serve compiled loops."""
    from pytensor.compile.mode import Mode
    from pytensor.graph.rewriting.db import RewriteDatabaseQuery
    from pytensor.link.vm import VMLinker

    rewriting = RewriteDatabaseQuery(
        include=["fast_run", "py_only"], exclude=["fusion", "inplace", "cxx_only", "BlasOpt"]
    )
    return Mode(VMLinker(use_cloop=False, c_thunks=False), rewriting)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Evaluate the graphs of quick tests by NumPy, which for most graphs takes less time than their compilation.

    Graphs are compiled by default in deep tests that are not marked ``interpreted`` and in tests marked ``compiled``,
    such as the README. A mode that a test names is used.
    """
    kinds = {mark.name for mark in item.iter_markers()}
    if "compiled" in kinds or ("deep" in kinds and "interpreted" not in kinds):
        return (yield)
    import pytensor

    with pytensor.config.change_flags(mode=interpreter()):
        return (yield)
