"""Two tiers of tests: ``pytest`` runs the quick one, ``pytest --deep`` what takes minutes; ``.ci/run`` runs both."""

import gc
import os
import sys
from collections.abc import Generator
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest

# Bytecode is kept whatever the environment says: compiling PyMC's sources anew takes every process ten CPU seconds.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# PyTensor notes where every variable was made, for its messages, and takes a twentieth of the time of a model for that;
# where a graph is not compiled it compiles single functions in C, which from cold takes longer than evaluating them.
os.environ["PYTENSOR_FLAGS"] = ",".join(filter(None, ("traceback__limit=0,cxx=", os.environ.get("PYTENSOR_FLAGS"))))

# The second worker begins in the middle of the list of tests: with rooms that share few kernels with the first ones, so
# that from cold caches each of the two workers compiles what the other one then loads.
LATER = ("ppdinf", *(f"tests/{room}" for room in ("lattice", "noise", "plots", "privacy", "releases", "test_")))

# examples that need an optional package run where it is installed
collect_ignore_glob = [] if find_spec("pyarrow") else ["ppdinf/census/*"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="run the tests marked deep, and no others")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    deep = config.getoption("--deep")
    tiers: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        tiers[item.get_closest_marker("deep") is not None].append(item)
    config.hook.pytest_deselected(items=tiers[not deep])
    items[:] = sorted(tiers[deep], key=lambda item: item.nodeid.startswith(LATER))


def pytest_collection_finish() -> None:
    """Modules of PyMC and the like live as long as the process: they are gone through for garbage less often.

    Not frozen: Hypothesis asks the collector who refers to its generator, and the collector does not look at what is
    frozen.
    """
    gc.collect()
    gc.set_threshold(20_000, 20, 20)


@cache
def interpreter() -> Any:
    """All of PyTensor's rewriting but what serves compiled loops, then NumPy, one operation after another."""
    from pytensor.compile.mode import Mode
    from pytensor.graph.rewriting.db import RewriteDatabaseQuery
    from pytensor.link.vm import VMLinker

    rewriting = RewriteDatabaseQuery(
        include=["fast_run", "py_only"], exclude=["fusion", "inplace", "cxx_only", "BlasOpt"]
    )
    return Mode(VMLinker(use_cloop=False, c_thunks=False), rewriting)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Quick tests evaluate PyTensor's graphs by NumPy: of most they ask less than it takes numba to compile them.

    As compiled by default, as users have them: deep tests but those marked ``interpreted``, tests marked ``compiled``,
    among them the README, and modes that a test asks for by name.
    """
    kinds = {mark.name for mark in item.iter_markers()}
    if "compiled" in kinds or ("deep" in kinds and "interpreted" not in kinds):
        return (yield)
    import pytensor

    with pytensor.config.change_flags(mode=interpreter()):
        return (yield)
