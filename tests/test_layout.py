"""Every package index lists its files, and imports inside functions are the exception."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "ppdinf"
PACKAGES = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)


def docstring(path):
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.relative_to(PACKAGE).as_posix())
def test_an_index_lists_its_files(package):
    index = docstring(package / "__init__.py")
    files = [path for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    names = sorted(path.stem for path in files if not path.name.startswith("_"))
    assert [name for name in names if not re.search(rf"^{name} ", index, re.MULTILINE)] == []


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
