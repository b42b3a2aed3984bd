"""Every benchmark finds its imports: renamed functions are detected before a benchmark is needed."""

import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_loads(path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    loaded = runpy.run_path(str(path), run_name="loaded")
    assert loaded["__doc__"].count("benchmarks/") >= 1, "the command is in the docstring"
