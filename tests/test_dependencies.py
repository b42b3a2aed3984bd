"""All private names of PyMC and PyTensor are imported in one file."""

import ast
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


def test_the_file_takes_nothing_that_is_not_used():
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py") if path != INSIDE]
    others = "\n".join(text for text in texts if "pymc_compat" in text)
    taken = {name.name for node in ast.walk(ast.parse(others)) if isinstance(node, ast.ImportFrom)
             and node.module == "ppdinf._internal.pymc_compat" for name in node.names}  # fmt: skip
    assert taken == set(pymc_compat.__all__)


def test_the_file_documents_each_private_name():
    assert [name for name in pymc_compat.PRIVATE if f"`{name}`" not in (pymc_compat.__doc__ or "")] == []
    assert len(pymc_compat.PRIVATE) <= 62
