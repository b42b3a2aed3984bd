"""Python blocks of README, docs and case studies, the gallery, and the R script run; no link is dead."""

import ast
import doctest
import inspect
import os
import re
import shutil
import subprocess
import sys
from functools import reduce
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from typer.main import get_command
from typer.testing import CliRunner

import ppdinf
import ppdinf as ppd
from ppdinf.cli import app

ROOT = Path(__file__).parents[1]
COPIES = ROOT / "docs" / "studies"  # written when the site is built
SITE = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent != COPIES]
PAGES = [ROOT / "README.md", *SITE, *sorted(ROOT.glob("case_studies/*/README.md"))]
LONG = [
    ROOT / "docs" / f"{name}.md"
    for name in ("comparing_models", "denoising", "errors_in_variables", "guarantees", "inference", "publishers")
]
LONG += [
    ROOT / "docs" / f"{name}.md" for name in ("mathematics/gauss_nodes", "recipes", "start/analyst", "start/reader")
]
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


def printed_by(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_import_is_light():
    code = "import sys, ppdinf; print(*{'pymc', 'xarray', 'numba', 'pandas'} & sys.modules.keys())"
    assert printed_by(code) == []


@pytest.mark.deep
def test_a_first_model_loads_no_library_that_it_does_not_use():
    """JAX is a lazy module of ArviZ: some functions of SciPy load it. It takes 0.8 CPU seconds, plots 0.5."""
    code = """
import sys
import pymc as pm
import ppdinf as ppd
release = ppd.Release([33, -2, 15], ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4"))
with pm.Model():
    ppd.PartiallyPrivate("cases", pm.Poisson.dist(pm.Gamma("rate", 2, 0.1, shape=3)), release=release)
print(*{"jax._src", "arviz_plots", "matplotlib"} & sys.modules.keys())
"""
    assert printed_by(code) == []


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


EXAMPLES = sorted((Path(__file__).parents[1] / "docs" / "examples").glob("*.py"))
LONGEST = 40
"""Lines of code, without blank lines, comments and the docstring."""
SEEDS = {"denoise": "rng", "simulate": "rng", "compare": "rng", "simulate_nmf": "rng", "default_rng": ""} | {
    "sample": "random_seed", "sample_confidential": "random_seed", "sample_posterior_predictive": "random_seed",
}  # fmt: skip
"""Functions that draw random numbers, and the argument that fixes them (the first argument if no name is given)."""


def code_lines(text):
    """Return the lines of code of an example."""
    docstring = ast.parse(text).body[0]
    rest = text.splitlines()[docstring.end_lineno :]
    return [line for line in rest if line.strip() and not line.lstrip().startswith("#")]


def faults(text):
    """Return every violation of the rules for examples."""
    tree, found = ast.parse(text), []
    title, *lines = (ast.get_docstring(tree) or "").split("\n")
    if not title or len(lines) < 3 or set(lines[0]) != {"="} or len(lines[0]) != len(title):
        found.append("the docstring must be a title, a line of = and a paragraph")
    if len(code_lines(text)) > LONGEST:
        found.append(f"{len(code_lines(text))} lines of code")
    if "plt.subplots" not in text.split("\n# %%\n")[-1]:
        found.append("the last cell must make a figure")
    for node in ast.walk(tree):
        name = ast.unparse(node) if isinstance(node, ast.Import | ast.ImportFrom | ast.Attribute) else ""
        if re.search(r"(?:^|[. ])_", name) or re.search(r"^from ppdinf|^import ppdinf\.", name):
            found.append(f"names must be public and begin with ppd: {name}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEEDS:
            seed = SEEDS[node.func.attr]
            if not (node.args if not seed else any(keyword.arg == seed for keyword in node.keywords)):
                found.append(f"no seed: {ast.unparse(node)[:60]}")
    return found


def test_there_are_fifteen_examples():
    assert len(EXAMPLES) == 15


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_rules(path):
    assert faults(path.read_text(encoding="utf-8")) == []


def test_faults_are_found():
    good = '"""\nTitle\n=====\n\nText.\n"""\nimport ppdinf as ppd\n\n# %%\n# Figure.\nplt.subplots()\n'
    assert faults(good) == []
    bad = [
        good.replace("=====", "==="), good.replace("plt.subplots()", "1"), good + "x = 1\n" * 39,
        good + "ppd.denoise(1)\n", good + "ppd._internal.x\n", good + "import ppdinf.laws\n",
        good + "from ppdinf import laws\n", good + "np.random.default_rng()\n",
    ]  # fmt: skip
    assert all(faults(text) for text in bad)


@pytest.mark.deep
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path, monkeypatch):
    """An example raises no warning, makes one figure, and its chains agree; the site runs all of them."""
    import arviz as az
    import matplotlib.pyplot as plt

    monkeypatch.setitem(os.environ, "MPLBACKEND", "Agg")
    namespace = {"__name__": "__main__"}
    exec(compile(path.read_text(encoding="utf-8"), path.name, "exec"), namespace)
    try:
        (figure,) = map(plt.figure, plt.get_fignums())
        assert all(axes.get_xlabel() or axes.get_ylabel() for axes in figure.axes if axes.axison)  # also color bars
    finally:
        plt.close("all")
    if "idata" in namespace:
        r_hat = az.rhat(namespace["idata"].posterior)
        assert max(float(r_hat[name].max()) for name in r_hat.data_vars) < 1.05
    if "posterior" in namespace:
        assert not any("disagree" in problem for problem in namespace["posterior"].problems)


SCRIPT = Path(__file__).parents[1] / "docs" / "r" / "denoise.R"
PAGE = SCRIPT.parents[1] / "r.md"
DRAWS = "20"


def commands():
    """Return the arguments of every call of `ppdinf` in the script: pairs of a text and the name of an R variable."""
    calls = re.findall(r"\bppdinf\((\".*)\)$", SCRIPT.read_text(encoding="utf-8"), flags=re.M)
    arguments = re.compile(r'"([^"]+)"|(\w+)(?=[,)]|$)')
    return [arguments.findall(call.partition(", creates")[0]) for call in calls]


@pytest.fixture
def release(tmp_path):
    persons = np.array([9000, 1500, 4000, 800])
    coords = {"county": list("ABCD"), "population": ("county", persons)}
    table = xr.DataArray([30, 4, 12, 0], coords=coords, dims="county")
    public = ppd.invariants.total() & ppd.invariants.covariates("population")
    path = tmp_path / "cases.ppd"
    ppd.GeneralizedLaplace(public, epsilon="1/2").release(table).save(path)
    return path


def test_the_options_of_its_commands_exist():
    assert [words[0][0] for words in commands()] == ["check", "denoise", "infer"]
    for words in commands():
        known = {option for parameter in get_command(app).commands[words[0][0]].params for option in parameter.opts}
        assert {text for text, _ in words if text.startswith("--")} <= known


@pytest.mark.deep
@pytest.mark.interpreted
def test_the_script_runs(release, tmp_path):
    results = tmp_path / "results"
    if shutil.which("Rscript") and shutil.which("ppdinf"):
        run = subprocess.run(["Rscript", SCRIPT, release, results, DRAWS], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert "estimate" in run.stdout
        assert (results / "counts.png").stat().st_size > 1000
    else:
        results.mkdir()
        value = {
            "release": release,
            "counts_file": results / "counts.csv",
            "draws": DRAWS,
            "report": results / "report",
        }
        for words in commands():
            done = CliRunner().invoke(app, [text or str(value[name]) for text, name in words])
            assert done.exit_code in (0, 1), done.output
            assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    counts = pd.read_csv(results / "counts.csv")
    assert {"county", "estimate", "lower", "upper"} <= set(counts.columns)
    assert (counts["lower"] <= counts["upper"]).all()
    assert len(pd.read_csv(results / "report" / "posterior.csv")) == 4


LABELS = ["01", "1", "NA", "1e3", "1000"]
COUNTS = pd.DataFrame({"age group": LABELS, "released": list("12345"), "estimate": ["1.5", "2.5", "3.5", "4.5", "5.5"]})
COPY = """#!/bin/sh
case $1 in
denoise) cp estimates "$4" ;;
infer) mkdir -p "$6" && cp rates "$6/posterior.csv" ;;
esac
"""


def code(source):
    """Return R code that reads and joins the tables: the script, or the first blocks of the page."""
    if source == "script":
        return SCRIPT.read_text(encoding="utf-8")
    return "".join(re.findall(r"^```r\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)[:2])


def joined(text, folder):
    """Run R code that names its join `counts`, with a command that only copies its results; return rows and output."""
    public = ppd.invariants.total() & ppd.invariants.covariates("population")
    coords = {"age group": LABELS, "population": ("age group", np.arange(5) + 100)}
    table = xr.DataArray([1, 2, 3, 4, 5], coords=coords, dims="age group")
    ppd.Release(table, ppd.GeneralizedLaplace(public, epsilon=1)).save(folder / "cases.ppd")
    results = COUNTS[["age group", "estimate"]].assign(sd=1, lower=1, upper=9, margin_of_error=4)
    results.to_csv(folder / "estimates", index=False)
    pd.DataFrame({"age group": LABELS, "posterior_rate": [6.5, 7.5, 8.5, 9.5, np.nan]}).to_csv(
        folder / "rates", index=False
    )
    (folder / "ppdinf").write_text(COPY)
    (folder / "ppdinf").chmod(0o755)
    (folder / "run.R").write_text(f'{text}\nwrite.csv(counts, "joined.csv", row.names = FALSE)\n', encoding="utf-8")
    run = subprocess.run(
        ["Rscript", "run.R", "cases.ppd", "results"], cwd=folder, capture_output=True, text=True, check=True,
        env=os.environ | {"PATH": os.pathsep.join([str(folder), os.environ["PATH"]])},
    )  # fmt: skip
    rows = pd.read_csv(folder / "joined.csv", dtype=str, keep_default_na=False)
    rows.columns = rows.columns.str.replace(".", " ")
    return rows.filter(COUNTS.columns).sort_values("released", ignore_index=True), run.stdout


@pytest.mark.skipif(not shutil.which("Rscript"), reason="R is not installed")
@pytest.mark.parametrize("source", ["script", "page"])
def test_rows_are_joined_by_labels_as_they_are_written(source, tmp_path):
    rows, output = joined(code(source), tmp_path)
    pd.testing.assert_frame_equal(rows, COUNTS)
    assert source == "page" or re.search(r"^1 +01 +6\.5$", output, flags=re.M), output


@pytest.mark.skipif(not shutil.which("Rscript"), reason="R is not installed")
def test_a_join_by_numbers_is_wrong(tmp_path):
    """As numbers, "01" and "1" are one label, and 1e3 and 1000 are another."""
    right = code("page")
    wrong = right.replace('colClasses = "character", na.strings = character(), ', "")
    assert wrong != right
    assert len(joined(wrong, tmp_path)[0]) == 9  # two pairs are joined in four ways each
