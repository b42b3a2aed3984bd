"""The house as a reader finds it: every room says its rule and what each of its files is for."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "ppdinf"
ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)


def docstring(path):
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(PACKAGE).as_posix())
def test_a_room_lists_its_files(room):
    said = " ".join(docstring(room / "__init__.py").split())
    assert "Rule: " in said
    for path in sorted(room.iterdir()):
        if path.suffix == ".py" and not path.name.startswith("_"):
            line = f"- `{path.stem}`: {docstring(path).partition('\n')[0]}"
        elif (path / "__init__.py").exists():
            line = f"- `{path.name}/`: {docstring(path / '__init__.py').partition('\n')[0]}"
        else:
            continue
        assert " ".join(line.split()) in said, f"the docstring of {room.name}/__init__.py lacks the line\n{line}"
