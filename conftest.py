"""Two tiers of tests: ``pytest`` runs the quick tests, ``pytest --deep`` those that take minutes; ``.ci/run`` both."""

import gc
import os
import sys
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

# The second of two workers starts in the middle of the list of tests. The folders there share few kernels with the
# first folders, so that with cold caches each worker compiles kernels that the other worker then loads.
LATER = ("ppdinf", *(f"tests/{folder}" for folder in ("lattice", "noise", "plots", "privacy", "releases", "test_")))

# examples that need an optional package run where it is installed
collect_ignore_glob = [] if find_spec("pyarrow") else ["ppdinf/census/*"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="run the tests marked deep instead of the others")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    deep = config.getoption("--deep")
    tiers: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        tiers[item.get_closest_marker("deep") is not None].append(item)
    config.hook.pytest_deselected(items=tiers[not deep])
    items[:] = sorted(tiers[deep], key=lambda item: item.nodeid.startswith(LATER))


def pytest_collection_finish() -> None:
    """Collect garbage less often, because modules such as PyMC are kept until the process ends.

    Objects are not frozen: Hypothesis requests the referrers of its generator, and the collector omits frozen objects.
    """
    gc.collect()
    gc.set_threshold(20_000, 20, 20)


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
