"""Two tiers of tests: ``pytest`` runs the quick tests, ``pytest --deep`` those that take minutes; ``.ci/run`` both.

If a deep test has many cases, ``pytest --deep`` runs every third one, and ``pytest --deep --all`` all of them.
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
    parser.addoption("--all", action="store_true", help="with --deep: all cases of tests with many cases")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    deep = config.getoption("--deep")
    chosen = [item for item in items if (item.get_closest_marker("deep") is not None) == deep]
    if deep and not config.getoption("--all"):
        functions = [item.nodeid.partition("[")[0] for item in chosen]
        cases, number = Counter(functions), Counter[str]()
        for item, function in zip(tuple(chosen), functions, strict=True):
            if cases[function] > MANY and number[function] % 3:
                chosen.remove(item)
            number[function] += 1
    kept = {id(item) for item in chosen}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = sorted(chosen, key=lambda item: item.nodeid.startswith(LATER))


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
