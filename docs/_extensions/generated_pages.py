"""Sphinx extension that writes pages from the package: API reference, command line, README of each case study.

It also links ``ppd.name`` in the text of every page to the reference.

The API reference has one page per public package and one per public name, so that it is complete by construction.
A name that ``import ppdinf as ppd`` provides as ``ppd.name`` is documented under that name only.
"""

import ast
import importlib
import inspect
import re
from itertools import pairwise
from pathlib import Path

from command_line import command_line_page
from docutils import nodes
from sphinx.addnodes import pending_xref

import ppdinf

DOCS = Path(__file__).parents[1]
STUDIES = DOCS.parent / "case_studies"


def public_names(module):
    """Return the public names of a package, sorted by name."""
    return sorted(module.__all__, key=lambda name: (name.lower(), name))


def public_packages():
    """Return the public packages, which the package ``ppdinf`` lists among its names."""
    return [name for name in public_names(ppdinf) if inspect.ismodule(getattr(ppdinf, name))]


def entries():
    """Return for each documented package its own names, and the full names of what another page documents."""
    modules = {"ppdinf": ppdinf} | {f"ppdinf.{package}": getattr(ppdinf, package) for package in public_packages()}
    documented, pages = {}, {}
    for package, module in modules.items():
        own, elsewhere = [], []
        for name in public_names(module):
            value = getattr(module, name)
            if inspect.ismodule(value) and package == "ppdinf":
                continue
            if id(value) in documented:
                elsewhere.append(documented[id(value)])
            else:
                own.append(name)
                documented[id(value)] = f"{package}.{name}"
        pages[package] = (own, elsewhere)
    return pages


def summary(title, names):
    """Return a table of names, each with a page."""
    rows = "\n".join(f"   {name}" for name in names)
    return f"{title}\n\n.. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{rows}\n"


def package_page(package, own, elsewhere):
    """Return the page of a package: its first paragraph and a table of its names."""
    module = importlib.import_module(package)
    introduction = inspect.getdoc(module).partition("\n\n")[0]
    parts = [f"{package}\n{'=' * len(package)}\n", introduction + "\n", f".. module:: {package}\n"]
    constants = [name for name in own if is_constant(getattr(module, name))]
    if others := [name for name in own if name not in constants]:
        parts.append(summary("", others))
    if constants:
        rows = "\n".join(f"   * - :py:obj:`{name}`\n     - {about_constant(module, name)}" for name in constants)
        pages = "\n".join(f"   generated/{package}.{name}" for name in constants)
        parts.append(f".. list-table::\n   :widths: 25 75\n\n{rows}\n\n.. toctree::\n   :hidden:\n\n{pages}\n")
    if elsewhere:
        links = ", ".join(f":py:obj:`{name}`" for name in elsewhere)
        parts.append(f"Also in this package: {links}.\n")
    return "\n".join(parts)


def is_constant(value):
    """Return whether a public name is neither a function nor a class nor a module."""
    return not (callable(value) or inspect.ismodule(value))


def about_constant(module, name):
    """Return the string below the definition of a constant in a file of its package."""
    for file in Path(module.__file__).parent.rglob("*.py"):
        for node, following in pairwise(ast.parse(file.read_text(encoding="utf-8")).body):
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
                return " ".join(following.value.value.split())
    raise ValueError(f"no file of {module.__name__} defines {name}")


def name_page(package, name):
    """Return the page of a public name; the page of a class describes every method."""
    module = importlib.import_module(package)
    value, title = getattr(module, name), f"{package}.{name}"
    parts = [f"{title}\n{'=' * len(title)}\n", f".. currentmodule:: {package}\n"]
    if inspect.ismodule(value):
        return "\n".join([*parts, f".. automodule:: {value.__name__}\n   :members:\n"])
    if is_constant(value):
        kind = f"An instance of :py:obj:`{package}.{type(value).__name__}`."
        return "\n".join([*parts, f".. py:data:: {name}\n\n   {about_constant(module, name)}\n\n   {kind}\n"])
    if not inspect.isclass(value):
        return "\n".join([*parts, f".. autofunction:: {name}\n"])
    if issubclass(value, Exception):
        return "\n".join([*parts, f".. autoexception:: {name}\n"])
    main, further, attributes = members_of(value)
    parts.append(f".. autoclass:: {name}\n")
    for heading, methods in ("Methods", main), ("Further methods", further):
        if methods:
            parts += [f".. rubric:: {heading}\n", *(f".. automethod:: {name}.{method}\n" for method in methods)]
    if attributes:
        rows = "\n".join(f"   ~{name}.{attribute}" for attribute in attributes)
        parts.append(f".. rubric:: Attributes\n\n.. autosummary::\n\n{rows}\n")
    return "\n".join(parts)


def members_of(kind):
    """Return the names of the public methods and attributes of a class that this package defines.

    Returns
    -------
    main : list of str
        Methods whose docstring describes parameters, the result or an example: what users call.
    further : list of str
        Methods with a short docstring: what other parts of the package and new subclasses call.
    attributes : list of str
        Attributes and properties; parameters of the class that become attributes are described with the class.
    """
    described, sections = inspect.getdoc(kind) or "", re.compile(r"^(Parameters|Returns|Examples)\n-", flags=re.M)
    main, further, attributes = [], [], []
    for member in (name for name in dir(kind) if not name.startswith("_")):
        owner = next(base for base in kind.__mro__ if member in vars(base))
        if not owner.__module__.startswith("ppdinf."):
            continue
        value = inspect.getattr_static(kind, member)
        if callable(value) or isinstance(value, classmethod | staticmethod):
            (main if sections.search(inspect.getdoc(value) or "") else further).append(member)
        elif not re.search(rf"^{member}\b.* : ", described, flags=re.M):
            attributes.append(member)
    return main, further, attributes


def write(path, text):
    """Write a page unless the file already has this text, so that Sphinx rebuilds only what changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def write_pages(app):
    """Write the pages before Sphinx reads its sources."""
    pages = entries()
    current = {f"{package}.{name}.rst" for package, (own, _) in pages.items() for name in own}
    for stale in (DOCS / "api" / "generated").glob("*.rst"):
        if stale.name not in current:
            stale.unlink()
    for package, (own, elsewhere) in pages.items():
        write(DOCS / "api" / f"{package}.rst", package_page(package, own, elsewhere))
        for name in own:
            write(DOCS / "api" / "generated" / f"{package}.{name}.rst", name_page(package, name))
    write(DOCS / "api" / "command_line.md", command_line_page())
    tree = "\n".join(f"   {page}" for page in [*pages, "command_line"])
    title = "API reference"
    rows = "\n".join(f"   * - :doc:`{package}`\n     - {one_line(package)}" for package in pages)
    rows += "\n   * - :doc:`command line <command_line>`\n     - All commands and their options."
    table = f".. list-table::\n   :widths: 25 75\n\n{rows}\n"
    toctree = f".. toctree::\n   :hidden:\n\n{tree}\n"
    write(DOCS / "api" / "index.rst", f"{title}\n{'=' * len(title)}\n\n{table}\n{toctree}")
    for readme in sorted(STUDIES.glob("*/README.md")):
        study = readme.parent.name
        text = readme.read_text(encoding="utf-8")
        text = re.sub(r"\]\(([\w-]+\.png)\)", rf"](../../case_studies/{study}/\1)", text)
        text = re.sub(r"\]\(\.\./(\w+)/README\.md\)", r"](\1.md)", text).replace("](../../docs/", "](../")
        write(DOCS / "studies" / f"{study}.md", text)


def one_line(package):
    """Return the first sentence of a package's docstring."""
    return inspect.getdoc(importlib.import_module(package)).partition("\n")[0]


def links_to_studies(app, name, source):
    """Replace links to the README of a case study by links to its page."""
    source[0] = re.sub(r"\]\(\.\./case_studies/(\w+)/(?:README\.md)?\)", r"](studies/\1.md)", source[0])


def alternative_texts(app, name, source):
    """Describe a figure without titles by the title of its example; Sphinx-Gallery uses the name of the file."""
    if name.startswith("gallery/") and (title := re.search(r"^(.+)\n=+$", source[0], flags=re.M)):
        file = name.removeprefix("gallery/").replace("_", " ")
        source[0] = re.sub(rf"^(\s*:alt: ){file}$", lambda found: found[1] + title[1], source[0], flags=re.M)


def links_to_reference(app, document):
    """Let code in the text that begins with ``ppd.name`` link to the page of the name."""
    for literal in list(document.findall(nodes.literal)):
        name = re.match(r"ppd((?:\.\w+)+)", literal.astext())
        if name and not isinstance(literal.parent, nodes.reference | pending_xref):
            link = pending_xref(
                "", refdomain="py", reftype="obj", reftarget="ppdinf" + name[1], refexplicit=True, refwarn=False
            )
            link["refdoc"] = app.env.docname
            literal.replace_self(link)
            link += literal


def result_in_signature(app, what, name, value, options, signature, annotation):
    """Show the type of a result in the signature if the docstring has no section about it."""
    result = getattr(value, "__annotations__", {}).get("return")
    if (
        what in ("function", "method")
        and result not in (None, "None")
        and "Returns\n---" not in (inspect.getdoc(value) or "")
    ):
        return signature, str(result)
    return None


def setup(app):
    """Register the extension."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-signature", result_in_signature)
    app.connect("config-inited", lambda app, config: write_pages(app))
    app.connect("source-read", links_to_studies)
    app.connect("source-read", alternative_texts)
    app.connect("doctree-read", links_to_reference)
    return {"parallel_read_safe": True}
