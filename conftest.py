"""Two tiers of tests: ``pytest`` runs the quick one, ``pytest --deep`` what takes minutes; ``.ci/run`` runs both."""

from importlib.util import find_spec

import pytest

# examples that need an optional package run where it is installed
collect_ignore_glob = [] if find_spec("pyarrow") else ["ppdinf/census/*"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="run the tests marked deep, and no others")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    deep = config.getoption("--deep")
    kept = [item for item in items if (item.get_closest_marker("deep") is not None) == deep]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept
