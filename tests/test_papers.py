"""The page of the papers' algorithms: its examples run, and what its tables name exists."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "papers.md").read_text(encoding="utf-8")


def rows(heading):
    """Return the cells of the rows of the tables below a heading."""
    lines = [line for line in PAGE.partition(heading)[2].splitlines() if re.match(r"\| (?!in the paper)", line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


EXAMPLES = [cells[2] for cells in rows("# The papers' algorithms") if cells[2].startswith("`")]


@pytest.fixture(scope="module")
def namespace():
    names = {}
    exec(re.search(r"^```python\n(.*?)^```", PAGE, flags=re.M | re.S)[1], names)
    return names


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_run(example, namespace):
    assert eval(example.strip("`"), dict(namespace)) is not None
