"""Private names of PyMC and PyTensor are imported in one file, and imports inside functions are the exception."""

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


HEAVY = {
    *("arviz", "arviz_base", "arviz_plots", "arviz_stats", "matplotlib", "matplotlib.pyplot", "pymc", "pytensor"),
    *("numba", "numpy", "pandas", "scipy.stats", "xarray"),
    *("cryptography", "dp_accounting", "formulae", "jax", "jax.lax", "pyarrow", "pymc.sampling.jax"),  # optional
}
"""What takes a tenth of a second or more to load, or need not be installed."""


def imported(tree, modules):
    """Imports of a module outside of functions, and inside functions."""
    top, within = [], []

    def visit(node, found):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found += [alias.name for alias in child.names]
            elif isinstance(child, ast.ImportFrom):
                whole = [f"{child.module}.{alias.name}" for alias in child.names]
                found += [name if name in modules or name in HEAVY else child.module for name in whole]
            elif not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
                visit(child, within if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else found)

    visit(tree, top)
    return top, within


def loaded(start, imports):
    """All modules that a module imports, including their parents."""
    seen, left = set(), [start]
    while left:
        parts = left.pop().split(".")
        for name in (".".join(parts[: k + 1]) for k in range(len(parts))):
            if name not in seen:
                seen.add(name)
                left += imports.get(name, [])
    return seen


def idle_imports(package):
    """Imports inside functions of packages that import no slow module beyond those of the importing module."""
    files = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    found = {name: imported(ast.parse(path.read_text(encoding="utf-8")), files) for name, path in files.items()}
    imports = {name: top for name, (top, _) in found.items()}
    return [
        (name, target)
        for name, (_, within) in found.items()
        for target in within
        if not (loaded(target, imports) - loaded(name, imports)) & HEAVY
    ]


def test_imports_within_functions_load_something_heavy():
    assert idle_imports(PACKAGE) == []


def test_idle_imports_are_found(tmp_path):
    package = tmp_path / "small"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "above.py").write_text("import numpy\nfrom small import below\n")
    (package / "below.py").write_text("import pymc\n")
    (package / "here.py").write_text("import numpy\n\ndef one():\n    import math\n    from small.below import pymc\n")
    within = "def one():\n    from small import below\n    import arviz\n"
    (package / "there.py").write_text(f"import small.above\n\n{within}")
    assert set(idle_imports(package)) == {("small.here", "math"), ("small.there", "small.below")}
