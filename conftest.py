"""Two tiers of tests: ``pytest`` runs the quick tests, ``pytest --deep`` those that take minutes; ``.ci/run`` both.

If a deep test has many cases, ``pytest --deep`` runs every third one, and ``pytest --deep --all`` all of them. A test
marked ``quick_cases(n)`` has n quick cases; its other cases are deep tests that ``pytest --deep`` always runs. ``pytest
--all`` runs all of its cases with the quick tests.
"""

import gc
import os
import sys
from collections import Counter
from collections.abc import Generator
from functools import cache
from importlib.util import find_spec
from typing import Any

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

MANY = 6  # number of cases of a deep test above which a third of them runs

# examples that need an optional package run where it is installed
collect_ignore_glob = [
    *(["ppdinf/census/*", "ppdinf/denoising/denoise_parts.py"] if not find_spec("pyarrow") else []),
    *(["ppdinf/plots/area_map.py"] if not find_spec("geopandas") else []),
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="run the tests marked deep instead of the others")
    parser.addoption("--all", action="store_true", help="all cases of tests with many cases")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    deep, every_case = config.getoption("--deep"), config.getoption("--all")
    groups = [(item.nodeid.partition("[")[0], item.get_closest_marker("deep") is not None) for item in items]
    cases, before = Counter(groups), Counter[tuple[str, bool]]()
    chosen = set[pytest.Item]()
    for item, group in zip(items, groups, strict=True):
        number = before[group]
        before[group] += 1
        if group[1]:
            in_tier = deep and (every_case or cases[group] <= MANY or number % 3 == 0)
        elif (quick := item.get_closest_marker("quick_cases")) and (deep or not every_case):
            (share,) = quick.args  # quick cases are spread evenly over all cases
            in_tier = (number * share % cases[group] < share) != deep
        else:
            in_tier = not deep
        if in_tier:
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
