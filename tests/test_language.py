"""Plain technical English in everything a reader sees: pages, docstrings, error messages and the help of commands."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "studies"),  # copies
    *sorted(ROOT.glob("case_studies/*/README.md")),
    *sorted((ROOT / "ppdinf" / "report").glob("*.j2")),
]
FOLDERS = sorted(path.parent for path in (ROOT / "ppdinf").rglob("__init__.py"))
LONGEST = 40
"""Words in a sentence."""

BANNED = {
    "private vocabulary": (
        r"told|tells|tell|whatever|whole numbers?|summed out|walked|quarter turns|room for|tapes?|coins"
    ),
    "inverted or old-fashioned": (
        r"likewise|thereby|nevertheless|in place of|beside|but for|of these|once more|such as has|it comes to"
        r"|gone on from|some \d+"
    ),
    "metaphor of a building": r"house|rooms?|floors?|doors?|roads?|gestures?",
    "living machines": r"promises?|promised|asked|asks|forgets?|looks? at|looked at",
    "negated noun": r"is none|are none|is no(?! longer)|are no(?! longer)",
}
PATTERNS = {reason: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for reason, words in BANNED.items()}
DECIMAL = re.compile(r"(?<![\w.\])}])\.\d")
NOT_PROSE = re.compile(
    r"```.*?```|^ *(?:>>>|\.\.\.).*?(?=^\s*$|\Z)|``[^`]*``|`[^`]*`|\$\$.*?\$\$|https?://\S+|^ *\|.*$",
    re.DOTALL | re.MULTILINE,
)
"""Code, mathematics, addresses and rows of tables."""


def prose(text):
    """Return a text without code, tables and addresses."""
    return NOT_PROSE.sub(" x ", text)


def sentences(text):
    """Split a text without code into sentences; headings, list items and indented formulas end one."""
    for paragraph in re.split(r"\n\s*\n|\n\s*(?=[-*#|]\s)|\n\s*(?=\d+\.\s)|\n[-=~]{3,}\n", text):
        for sentence in re.split(r"(?<=[.!?:;])\s+", paragraph):
            words = re.findall(r"[A-Za-z][\w'-]*", sentence)
            if words:
                yield sentence.strip(), len(words)


def faults(text):
    """Return every violation in a text, with the words around it."""
    plain = prose(text)
    found = []
    for reason, pattern in (*PATTERNS.items(), ("decimal without a leading zero", DECIMAL)):
        for match in pattern.finditer(plain):
            around = plain[max(match.start() - 30, 0) : match.end() + 30]
            found.append(f"{reason}: ...{' '.join(around.split())}...")
    found += [f"{n} words: {' '.join(s.split())[:80]}..." for s, n in sentences(plain) if n > LONGEST]
    return found


def docstrings(tree):
    """Return the docstrings of a module, of what is public in it, and of the rest."""
    nodes = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef))]
    for node in nodes:
        text = ast.get_docstring(node)
        if text:
            yield getattr(node, "name", "module"), text


def literal(node):
    """Return the fixed text of a string, with x for the values in it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
    return ""


def messages(tree):
    """Return every other text of at least three words: messages, help of options, labels of figures."""
    nodes = list(ast.walk(tree))
    statements = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # docstrings, and notes on constants
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        text = literal(node) if isinstance(node, ast.Constant | ast.JoinedStr) else ""
        if text.count(" ") >= 2 and id(node) not in statements | parts:
            yield f"line {node.lineno}", text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages(page):
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"<style>.*?</style>|</?[a-z][^>]*>|\{[{%].*?[}%]\}", "\n\n", text, flags=re.DOTALL)  # templates
    assert faults(re.sub(r"^ {4}.*$", "\n\n", text, flags=re.MULTILINE)) == []  # formulas are indented


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(ROOT).as_posix())
def test_docstrings_and_messages(folder):
    found = []
    for path in sorted(folder.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, text in (*docstrings(tree), *messages(tree)):
            found += [f"{path.name}, {name}: {fault}" for fault in faults(text)]
    assert found == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_text_of_examples(path):
    text = path.read_text(encoding="utf-8")
    comments = re.sub(r"^(?!# ).*$", "", text, flags=re.MULTILINE)  # the text between cells of code
    parts = [comments.replace("# %%", "").replace("\n# ", "\n"), *(part for _, part in docstrings(ast.parse(text)))]
    assert [fault for part in parts for fault in faults(part)] == []


def test_faults_are_found():
    """One example of each rule is found, and plain sentences are not."""
    bad = ["What is told of it.", "A door to the house.", "About .27 s.", "That is none of ours.", "one " * 41]
    assert all(faults(text) for text in bad)
    assert faults("The error is 0.27 s. See `room.floor` and version 1.2.\n\n    x = .5\n") != []
    assert faults("Return the log likelihood of each block. The entries sum to 1.") == []
