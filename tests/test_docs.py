"""Every Python block of the README, the docs and the case studies runs, in order, page by page; no link is dead."""

import doctest
import inspect
import os
import re
from functools import reduce
from importlib.util import find_spec
from pathlib import Path

import pytest

import ppdinf

ROOT = Path(__file__).parents[1]
COPIES = ROOT / "docs" / "studies"  # written when the site is built
SITE = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent != COPIES]
PAGES = [ROOT / "README.md", *SITE, *sorted(ROOT.glob("case_studies/*/README.md"))]
LONG = [ROOT / "docs" / f"{name}.md" for name in ("errors_in_variables", "guarantees", "inference", "measurements")]
LONG += [ROOT / "docs" / f"{name}.md" for name in ("mathematics/gauss_nodes", "start/analyst", "start/reader")]
MARKS = {ROOT / "README.md": pytest.mark.compiled} | dict.fromkeys(LONG, pytest.mark.deep)


def name(page):
    return page.relative_to(ROOT).as_posix()


EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=name)


@pytest.mark.parametrize("page", [pytest.param(page, marks=MARKS.get(page, ())) for page in PAGES], ids=name)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "MPLBACKEND", "Agg")
    namespace = {"__name__": "__main__"}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S):
        if "ppd.census" in block and not find_spec("pyarrow"):
            continue  # an optional package, which .ci/run installs
        if block.startswith(">>>"):  # a session: its output is compared
            session = doctest.DocTestParser().get_doctest(block, namespace, page.name, str(page), 0)
            doctest.DebugRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(session, clear_globs=False)
            namespace |= session.globs
        else:
            exec(compile(block, page.name, "exec"), namespace)


@EACH_PAGE
def test_links_lead_to_files(page):
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@EACH_PAGE
def test_named_tests_exist(page):
    """A page may name the test of a statement, as ``tests/file.py`` or ``tests/file.py::test``."""
    for file, test in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text(encoding="utf-8")):
        assert (ROOT / file).exists(), file
        assert f"def {test}" in (ROOT / file).read_text(encoding="utf-8"), test


@EACH_PAGE
def test_named_objects_exist(page):
    """Roles such as {func}`ppdinf.denoise` or {meth}`ppdinf.Session.open` name public objects."""
    roles = re.findall(r"\{(\w+)\}`(ppdinf[\w.]*)(?: <(ppdinf[\w.]*)>)?`", page.read_text(encoding="utf-8"))
    for role, name, target in roles:
        named = reduce(getattr, name.split(".")[1:], ppdinf)
        found = reduce(getattr, target.split(".")[1:], ppdinf) if target else named
        assert name.startswith(target), name
        assert inspect.isclass(found) == (role == "class"), name
        assert inspect.ismodule(found) == (role == "mod"), name


def test_every_mechanism_is_in_the_table_of_guarantees():
    from ppdinf import mechanisms

    table = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8").partition("## Mechanisms")[2]
    assert [name for name in mechanisms.__all__ if f"`{name}`" not in table] == ["ErrorPlan", "Mechanism"]


def test_import_is_light():
    import subprocess
    import sys

    code = "import sys, ppdinf; print(*{'pymc', 'xarray', 'numba', 'pandas'} & sys.modules.keys())"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


@pytest.mark.deep
def test_a_first_model_loads_no_library_that_it_does_not_use():
    """JAX is a lazy module of ArviZ: some functions of SciPy load it. It takes 0.8 CPU seconds, plots 0.5."""
    import subprocess
    import sys

    code = """
import sys
import pymc as pm
import ppdinf as ppd
release = ppd.Release([33, -2, 15], ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4"))
with pm.Model():
    ppd.PartiallyPrivate("cases", pm.Poisson.dist(pm.Gamma("rate", 2, 0.1, shape=3)), release=release)
print(*{"jax._src", "arviz_plots", "matplotlib"} & sys.modules.keys())
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


@pytest.mark.parametrize("page", ["inference.md", "measurements.md"])
def test_a_csv_of_noisy_counts_takes_under_fifteen_lines(page):
    """From published noisy numbers to a posterior; `test_code_blocks_run` runs the lines."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    (block,) = [own for own in blocks if "read_csv" in own]
    assert "DoubleGeometric" in block
    assert len([line for line in block.splitlines() if line.strip()]) < 15


def test_commands_exist():
    """Every `ppdinf` command that a page names is a command."""
    from typer.main import get_command

    from ppdinf.cli import app

    commands = get_command(app).commands
    for page in PAGES:
        for words in re.findall(r"(?:^|`)ppdinf ([a-z][a-z ]*)", page.read_text(encoding="utf-8"), flags=re.M):
            first, *rest = words.split()
            assert first in commands, f"{page.name}: {words}"
            if rest and hasattr(commands[first], "commands"):
                assert rest[0] in commands[first].commands, f"{page.name}: {words}"
