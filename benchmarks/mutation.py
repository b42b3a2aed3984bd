"""Mutation run: small wrong edits of one file at a time, which tests should detect.

Run with ``python benchmarks/mutation.py --most 10`` (minutes per file; compiled kernels take longer). An edit changes
one comparison, sign, operator, number or truth value. The package and its tests are first copied to a separate folder;
the checkout is not modified. Surviving edits are printed with their line for inspection: some are equivalent to the
original, such as a tolerance that is twice as wide.
"""

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = {
    "ppdinf/_internal/rationals.py": "tests/test_input_values.py",
    "ppdinf/privacy/budget.py": "tests/privacy/test_budget.py tests/sessions/test_session.py",
    "ppdinf/privacy/composition.py": "tests/privacy/test_composition.py tests/privacy/test_unit_loss.py",
    "ppdinf/privacy/guarantee.py": "tests/privacy/test_guarantee.py tests/privacy/test_pufferfish.py",
    "ppdinf/privacy/zcdp.py": "tests/privacy/test_gaussian_calibration.py",
    "ppdinf/privacy/restatement.py": "tests/privacy/test_composition.py tests/privacy/test_budget.py",
    "ppdinf/laws/double_geometric.py": "tests/laws/test_laws.py",
    "ppdinf/laws/discrete_gaussian.py": "tests/laws/test_laws.py",
    "ppdinf/noise/primitives/integers.py": "tests/noise/test_integers.py",
    "ppdinf/noise/exact/variable_elimination.py": "tests/noise/test_elimination.py",
    "ppdinf/noise/exact/klein.py": "tests/noise/test_gaussian.py tests/noise/test_exact_samplers.py",
    "ppdinf/noise/exact/rejection.py": "tests/noise/test_exact_samplers.py",
    "ppdinf/noise/exact/single_sums.py": "tests/noise/test_single_sums.py",
    "ppdinf/fiber/sums_given_totals/totals.py": "tests/fiber/test_totals.py",
    "ppdinf/fiber/nested_sums/upward_pass.py": "tests/fiber/test_nested_sums.py",
    "ppdinf/samplers/posterior_rejection.py": "tests/samplers/test_rejection.py",
    "ppdinf/samplers/posterior_importance.py": "tests/samplers/test_importance.py",
    "ppdinf/samplers/posterior_proposal.py": "tests/samplers/test_importance.py",
    "ppdinf/mechanisms/expected_error.py": "tests/mechanisms/test_expected_error.py",
    "ppdinf/sessions/journal.py": "tests/sessions/test_session.py",
}
COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATE = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.And: ast.Or,
    ast.Or: ast.And, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip


def wrong(node):
    """Return one wrong variant of a node, or None."""
    node = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARE:
        node.ops[0] = COMPARE[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OPERATE:
        node.op = OPERATE[type(node.op)]()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        return node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        node.value += 1
    else:
        return None
    return node


class Swap(ast.NodeTransformer):
    def __init__(self, target):
        self.target = target

    def visit(self, node):
        return ast.copy_location(wrong(node), node) if node is self.target else self.generic_visit(node)


def sites(text):
    """Yield every wrong edit on a separate tree, without annotations: line, old code, new code, file."""
    count = sum(1 for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr) and wrong(node) is not None)
    for k in range(count):
        tree = ast.parse(text)
        hints = {id(i) for n in ast.walk(tree) for h in (getattr(n, "annotation", None), getattr(n, "returns", None))
                 if h is not None for i in ast.walk(h)}  # fmt: skip
        node = [node for node in ast.walk(tree) if isinstance(node, ast.expr) and wrong(node) is not None][k]
        if id(node) in hints:
            continue
        line, before, after = node.lineno, ast.unparse(node), ast.unparse(wrong(node))
        yield line, before, after, ast.unparse(ast.fix_missing_locations(Swap(node).visit(tree)))


def passes(folder, tests):
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "--all", "-p", "no:cacheprovider", *tests.split()]
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    try:
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=300).returncode == 0
    except subprocess.TimeoutExpired:
        return False


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", default=list(FILES))
    parser.add_argument("--most", type=int, default=6, help="mutants of each file, chosen at random")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    tried = survived = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("ppdinf", "tests", "case_studies", "docs"):
            shutil.copytree(ROOT / part, folder / part)
        for part in ("pyproject.toml", "conftest.py", "README.md"):
            shutil.copy(ROOT / part, folder / part)
        for file in given.files:
            text = (folder / file).read_text(encoding="utf-8")
            (folder / file).write_text(ast.unparse(ast.parse(text)), encoding="utf-8")
            if not passes(folder, FILES[file]):
                print(f"{file}: its tests do not pass without any edit", flush=True)
                continue
            found = list(sites(text))
            for line, before, after, source in random.Random(given.seed).sample(found, min(given.most, len(found))):
                (folder / file).write_text(source, encoding="utf-8")
                tried += 1
                if passes(folder, FILES[file]):
                    survived += 1
                    print(f"survived: {file}:{line}: {before}  ->  {after}", flush=True)
            (folder / file).write_text(text, encoding="utf-8")
            print(f"{file}: {len(found)} sites; {tried - survived} of {tried} noticed so far", flush=True)
