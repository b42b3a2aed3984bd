"""The size of package and tests has a budget, and statements become neither longer nor more nested to meet it."""

import ast
import inspect
import io
import tokenize
from pathlib import Path

import numpy as np
import pytest
from test_reference import public_objects

ROOT = Path(__file__).parents[1]
BUDGET = {
    "ppdinf": {"code lines": 37_235, "files": 317, "lines": 65_548},
    "tests": {"files": 199, "lines": 52_302},
}
"""What a change adds, it or something older pays for; lower these numbers when a change leaves room."""
LENGTHS, DEPTHS = (47, 109), (1, 3)
"""Median and 95th percentile of the characters of a statement, and of the blocks around it."""
LAYOUT = {*(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)}


def sources(folder):
    return [path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob("*.py"))]


def is_text(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def code_lines(text):
    """Count lines without docstrings, comments, imports and empty lines."""
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in LAYOUT
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        if is_text(node) or isinstance(node, ast.Import | ast.ImportFrom):
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def size(folder):
    texts = sources(folder)
    return {
        "code lines": sum(map(code_lines, texts)),
        "files": len(texts),
        "lines": sum(len(text.splitlines()) for text in texts),
    }


def statements(body, depth=0):
    """Yield the length of each statement without a block, and its depth; of one with a block only the depth."""
    for node in body:
        blocks = [block for field in ("body", "orelse", "finalbody") if (block := getattr(node, field, None))]
        blocks += [part.body for field in ("handlers", "cases") for part in getattr(node, field, [])]
        if not isinstance(node, ast.Import | ast.ImportFrom) and not is_text(node):
            yield None if blocks else len(ast.unparse(node)), depth
        for block in blocks:
            yield from statements(block, depth + 1)


def test_counts():
    lines = "if a:\n    b = 1\n    while c:\n        d = [1]"
    assert list(statements(ast.parse(lines).body)) == [(None, 0), (5, 1), (None, 1), (7, 2)]

    text = '"""One."""\n\nimport math\n\n\ndef f(\n    x,\n):\n    """Two."""\n    # three\n    return math.pi + x\n'
    assert code_lines(text) == 4


@pytest.mark.parametrize("folder", BUDGET)
def test_size_is_within_its_budget(folder):
    measured = size(folder)
    assert {name: measured[name] for name, most in BUDGET[folder].items() if measured[name] > most} == {}


def exported():
    """Return file and qualified name of what the reference shows: functions, classes with their bases, and members."""
    names = set()
    for _, value in public_objects():
        bases = (
            [base for base in value.__mro__ if base.__module__.startswith("ppdinf")] if inspect.isclass(value) else []
        )
        members = [getattr(member, "__func__", member) for base in bases for member in vars(base).values()]
        for found in (value, *bases, *members):
            found = inspect.unwrap(getattr(found, "fget", None) or getattr(found, "func", None) or found)
            if inspect.isclass(found) or inspect.isfunction(found):
                names.add((inspect.getsourcefile(found), found.__qualname__))
    return names


def definitions(tree, scope=""):
    for node in ast.iter_child_nodes(tree):
        name = f"{scope}.{node.name}".lstrip(".") if hasattr(node, "name") else scope
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, node
        yield from definitions(node, name)


def test_docstrings_of_internal_definitions_have_at_most_three_lines():
    """What follows is a comment at the step, or belongs to docs/mathematics; help texts of commands are docstrings."""
    public, long = exported(), []
    for path in sorted((ROOT / "ppdinf").rglob("*.py")):
        if path.name == "errors.py" or "cli" in path.parts:
            continue
        for name, node in definitions(ast.parse(path.read_text(encoding="utf-8"))):
            lines = node.body[0].end_lineno - node.body[0].lineno + 1 if is_text(node.body[0]) else 0
            if lines > 3 and (str(path), name) not in public:
                long.append(f"{path.relative_to(ROOT)}, {name}: {lines} lines")
    assert long == []


def test_statements_are_not_packed():
    lengths, depths = zip(
        *(pair for text in sources("ppdinf") for pair in statements(ast.parse(text).body)), strict=True
    )
    assert (np.percentile([length for length in lengths if length], (50, 95)) <= LENGTHS).all()
    assert (np.percentile(depths, (50, 95)) <= DEPTHS).all()
