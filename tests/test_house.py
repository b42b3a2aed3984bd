"""The house as a reader finds it: every room says its rule and what each of its files is for."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "ppdinf"
ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)


def docstring(path):
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(PACKAGE).as_posix())
def test_a_room_lists_its_files(room):
    said = docstring(room / "__init__.py")
    assert "\nRule: " in said
    files = [path for path in room.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    names = sorted(path.stem for path in files if not path.name.startswith("_"))
    assert [name for name in names if not re.search(rf"\b{name}\b", said)] == []
