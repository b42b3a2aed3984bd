"""All private names of PyMC and PyTensor are imported in one file."""

import ast
import re
from pathlib import Path

from ppdinf._internal import pymc_compat

PACKAGE = Path(pymc_compat.__file__).parents[1]
INSIDE = Path(pymc_compat.__file__)


def inner_imports(text):
    """Submodules of PyMC and PyTensor that a module imports, except for the documented `pytensor.tensor`."""
    found = []
    if "pymc." not in text and "pytensor." not in text:
        return found
    for node in ast.walk(ast.parse(text)):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        inner = [name for name in names if name.startswith(("pymc.", "pytensor.")) and name != "pytensor.tensor"]
        found += inner
    return found


def test_one_file_reaches_into_pymc_and_pytensor():
    assert inner_imports("from pymc.pytensorf import compile") == ["pymc.pytensorf"]
    reaching = [path for path in PACKAGE.rglob("*.py") if inner_imports(path.read_text(encoding="utf-8"))]
    assert reaching == [INSIDE]


def names_of_the_file():
    """Return the module of each name that the file imports or defines; "" for its own names."""
    names = {}
    for node in ast.parse(INSIDE.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module.startswith(("pymc", "pytensor")):
            names |= {alias.asname or alias.name: node.module for alias in node.names}
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names[node.targets[0].id] = ""
        elif isinstance(node, ast.FunctionDef):
            names[node.name] = "pymc.sampling.jax"
    return names


def test_the_file_takes_nothing_that_is_not_used():
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py") if path != INSIDE]
    others = "\n".join(text for text in texts if "pymc_compat" in text)
    taken = {name.name for node in ast.walk(ast.parse(others)) if isinstance(node, ast.ImportFrom)
             and node.module == "ppdinf._internal.pymc_compat" for name in node.names}  # fmt: skip
    assert taken == set(names_of_the_file())


DOCUMENTED = {
    *("", "pymc", "pymc.distributions.transforms", "pymc.logprob", "pymc.model.fgraph", "pymc.step_methods"),
    *("pytensor.compile", "pytensor.gradient", "pytensor.graph", "pytensor.scalar", "pytensor.tensor"),
    "pytensor.tensor.elemwise",
}
"""Packages with documented names; `inputvars` and `join_nonshared_inputs` are documented names of another one."""


def test_the_file_documents_each_private_name():
    private = {name for name, module in names_of_the_file().items() if module not in DOCUMENTED}
    private -= {"inputvars", "join_nonshared_inputs", "compile_interpreted"}
    listed = re.findall(r"^`.*$", pymc_compat.__doc__, flags=re.MULTILINE)
    assert private == {name for line in listed for name in re.findall(r"`(\w+)`", line)}
    assert len(private) <= 62
