"""The reference: each public name has a page, a docstring and related names; a package index lists its files."""

import ast
import builtins
import doctest
import importlib
import inspect
import re
import sys
from pathlib import Path
from types import FunctionType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def generated_pages():
    pytest.importorskip("docutils")
    pytest.importorskip("sphinx")
    sys.path.insert(0, str(ROOT / "docs" / "_extensions"))
    try:
        yield importlib.import_module("generated_pages")
    finally:
        sys.path.pop(0)


def attribute(full):
    """Return the object with a full name, such as ``ppdinf.laws.Rounded``."""
    value = importlib.import_module("ppdinf")
    for part in full.split(".")[1:]:
        value = getattr(value, part)
    return value


def public_objects():
    """Yield the full name and the value of each public function and class, except errors and warnings."""
    package = importlib.import_module("ppdinf")
    modules = {"ppdinf": package}
    modules |= {f"ppdinf.{name}": getattr(package, name) for name in package.__all__
                if inspect.ismodule(getattr(package, name))}  # fmt: skip
    for place, module in modules.items():
        for name in module.__all__:
            value = getattr(module, name)
            error = inspect.isclass(value) and issubclass(value, Exception)
            if callable(value) and not error:
                yield f"{place}.{name}", value


def related(docstring):
    """Return the names in the section See Also."""
    section = re.search(r"^See Also\n-+\n(.*?)(?=\n\n\S|\Z)", docstring, flags=re.M | re.S)
    lines = section[1].splitlines() if section else []
    return [name.strip() for line in lines if not line.startswith(" ") for name in line.partition(" : ")[0].split(",")]


def test_each_public_name_is_related_to_others():
    lonely = [full for full, value in public_objects() if not related(inspect.getdoc(value) or "")]
    assert lonely == []


def test_each_public_name_has_an_example():
    assert [full for full, value in public_objects() if "Examples\n---" not in (inspect.getdoc(value) or "")] == []


def test_related_names_exist():
    assert related("See Also\n--------\nppdinf.denoise, ppdinf.missing\n") == ["ppdinf.denoise", "ppdinf.missing"]
    with pytest.raises(AttributeError, match="missing"):
        attribute("ppdinf.missing")
    for full, value in public_objects():
        for name in related(inspect.getdoc(value) or ""):
            assert attribute(name) is not value, f"{full} is related to itself"


def test_each_public_name_has_one_page(generated_pages):
    pages = [f"{package}.{name}" for package, (own, _) in generated_pages.entries().items() for name in own]
    assert len(pages) == len(set(pages))
    documented = {id(attribute(page)) for page in pages}
    assert [full for full, value in public_objects() if id(value) not in documented] == []


def test_the_page_of_a_class_describes_each_method_that_the_package_defines(generated_pages):
    """`Mechanism.release` is inherited, and `MutableMapping` is not a class of this package."""
    page = generated_pages.name_page("ppdinf", "GeneralizedLaplace")
    main, further = (part.partition(".. rubric::")[0] for part in page.split(".. rubric::")[1:3])
    assert ".. automethod:: GeneralizedLaplace.release\n" in main
    assert ".. automethod:: GeneralizedLaplace.plan_on\n" in further
    for package, (own, _) in generated_pages.entries().items():
        for name in own:
            kind = attribute(f"{package}.{name}")
            if not inspect.isclass(kind):
                continue
            page = generated_pages.name_page(package, name)
            methods = [key for base in kind.__mro__ if base.__module__.startswith("ppdinf.")
                       for key, value in vars(base).items() if not key.startswith("_")
                       and isinstance(value, FunctionType | classmethod | staticmethod)]  # fmt: skip
            assert [key for key in methods if f".. automethod:: {name}.{key}\n" not in page] == []


def test_a_result_without_a_section_is_in_the_signature(generated_pages):
    def shown(name):
        return generated_pages.result_in_signature(None, "function", name, attribute(name), None, "()", None)

    assert shown("ppdinf.invariants.total") == ("()", "Public")
    assert shown("ppdinf.denoise") is None


def test_methods_that_pages_name_exist(generated_pages):
    named = re.findall(r"\{meth\}`(ppdinf[\w.]+)`", (ROOT / "docs" / "how_to.md").read_text(encoding="utf-8"))
    assert len(named) >= 13
    described = set()
    for package, (own, _) in generated_pages.entries().items():
        for name in own:
            page = generated_pages.name_page(package, name)
            described |= {f"{package}.{method}" for method in re.findall(r"automethod:: (\S+)", page)}
    assert sorted(set(named) - described) == []


def test_a_constant_is_described_by_the_string_below_its_definition(generated_pages):
    page = generated_pages.name_page("ppdinf.census", "UNITS")
    assert ".. py:data:: UNITS\n\n   Housing units of the redistricting files.\n" in page
    assert "An instance of :py:obj:`ppdinf.census.Histogram`" in page
    overview = generated_pages.package_page("ppdinf.census", ["UNITS", "tree"], [])
    assert "   * - :py:obj:`UNITS`\n     - Housing units of the redistricting files.\n" in overview
    assert "\n   tree\n" in overview
    with pytest.raises(ValueError, match=r"no file .* defines Axis"):
        generated_pages.about_constant(importlib.import_module("ppdinf.census"), "Axis")


def test_the_page_of_the_command_line_has_each_option_of_each_command(generated_pages):
    """A second route: the options that the parser of each command accepts."""
    command_line = importlib.import_module("command_line")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", command_line.command_line_page(), flags=re.M | re.S))
    found = command_line.commands()
    assert {"ppdinf denoise", "ppdinf session begin"} < set(sections) == set(found) - {"ppdinf"}
    for name, section in sections.items():
        shown = [parameter for parameter in found[name][0].params if not parameter.hidden]
        options = [option for parameter in shown for option in parameter.opts if option[:2] == "--"]
        assert [option for option in options if not re.search(rf"^\| `{option}[ `]", section, flags=re.M)] == []
    assert "| `--rounded BASE` |" in sections["ppdinf denoise"]
    assert "requires `--data`" in sections["ppdinf demo"]  # outside of code, two hyphens become a dash
    assert "`ppdinf release --session FILE`" in sections["ppdinf session begin"]  # on two lines of the docstring
    assert "**" not in "".join(sections.values())
    assert "With `--cv 10% --at 50`," in sections["ppdinf plan"]
    assert (
        "| `--draws INTEGER` | Draws per chain, of two chains. [default: 1000; x>=10] |" in sections["ppdinf denoise"]
    )


def undefined(source):
    """Return the names that code uses and does not define."""
    defined, used = set(dir(builtins)), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else defined).add(node.id)
        elif isinstance(node, ast.alias):
            defined.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.arg):
            defined.add(node.arg if isinstance(node, ast.arg) else node.name)
    return used - defined


def test_examples_run_when_they_are_pasted(generated_pages):
    """Doctests run in the namespace of their module; a reader has what the example imports."""
    assert undefined("import numpy as np\nnp.sum(x)") == {"x"}
    incomplete = {}
    for package, (own, _) in generated_pages.entries().items():
        for name in own:
            value = attribute(f"{package}.{name}")
            main, further, _ = generated_pages.members_of(value) if inspect.isclass(value) else ([], [], [])
            for documented in (value, *(getattr(value, member) for member in (*main, *further))):
                examples = doctest.DocTestParser().get_examples(inspect.getdoc(documented) or "")
                if missing := undefined("\n".join(example.source for example in examples)):
                    incomplete[f"{package}.{name}", getattr(documented, "__name__", "")] = missing
    assert incomplete == {}


PACKAGE = ROOT / "ppdinf"
PACKAGES = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.relative_to(PACKAGE).as_posix())
def test_an_index_lists_its_files(package):
    index = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    files = [path for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    names = sorted(path.stem for path in files if not path.name.startswith("_"))
    assert [name for name in names if not re.search(rf"^{name} ", index, re.MULTILINE)] == []
