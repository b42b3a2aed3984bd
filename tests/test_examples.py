"""The examples of the gallery: short, with fixed seeds and public names, from a published table to one figure."""

import ast
import os
import re
from pathlib import Path

import pytest

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
