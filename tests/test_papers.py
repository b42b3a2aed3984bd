"""The page of the papers' algorithms: its examples run, and what its tables name exists."""

import re
from functools import reduce
from pathlib import Path

import pytest

import ppdinf as ppd

DOCS = Path(__file__).parents[1] / "docs"
PAGE, ITEMS = ((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("papers", "paper_items"))


def rows(page, heading):
    """Return the cells of the rows of the tables below a heading."""
    lines = [line for line in page.partition(heading)[2].splitlines() if re.match(r"\| (?!in the paper|item)", line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


EXAMPLES = [cells[2] for cells in rows(PAGE, "# The papers' algorithms") if cells[2].startswith("`")]


@pytest.fixture(scope="module")
def namespace():
    names = {}
    exec(re.search(r"^```python\n(.*?)^```", PAGE, flags=re.M | re.S)[1], names)
    return names


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_run(example, namespace):
    assert eval(example.strip("`"), dict(namespace)) is not None


KEYS = [f"{paper}{k + 1}" for paper, number in zip("PISCK", (37, 22, 18, 18, 20), strict=True) for k in range(number)]


def test_every_item_of_the_papers_has_code_and_a_test_that_exist():
    """An item without code is open. Its tests contain its functions. `test_docs` checks that files exist."""
    items = rows(ITEMS, "# Items of the papers")
    assert [cells[0] for cells in items] == KEYS
    for key, _, code, test, _, status in items:
        assert re.match(r"done|half: |open(; |$)", status), key
        assert (code == "–") == (test == "–") == status.startswith("open"), key
        tests = "".join((DOCS.parent / place).read_text(encoding="utf-8") for place in re.findall(r"`(.+?)`", test))
        for name in re.findall(r"`ppd\.([\w.]+)`", code):
            assert reduce(getattr, name.split("."), ppd), key
            assert name.split(".")[-1] in tests, (key, name)
        for place in re.findall(r"`((?:case_studies|ppdinf)/[\w/]+\.py)`", code):
            assert (DOCS.parent / place).exists(), place
