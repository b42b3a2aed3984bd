"""One natural command for each published table in ``tests/situations.toml``: seconds, and whether its bounds are right.

Run with ``python benchmarks/published_situations.py [word ...]``; words select situations by name. The bounds of
``ppdinf audit`` are compared with those of integer programmes of hand-written ranges and sums, and contain the
simulated counts. A situation is refused by name if its numbers are not counts.
"""

import contextlib
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracles"))

import numpy as np
import pandas as pd
from integer_programmes import programme
from test_situations import SITUATIONS, audited, statements


def outcome(situation, text):
    """Return what the command did."""
    if "refused" in situation:
        return "refused by name" if situation["refused"] in text else "wrong"
    if not Path("bounds.csv").exists():
        return "failed"
    counts = np.array(situation["counts"].split(), dtype=int)
    found = pd.read_csv("bounds.csv")[["lower", "upper"]].to_numpy(float).T
    is_right = np.array_equal(found, programme(*statements(situation)))
    return "right" if is_right and ((found[0] <= counts) & (counts <= found[1])).all() else "wrong"


def main():
    line = "{:<75}{:>8}  {:<16}{}".format
    print(line("situation", "seconds", "outcome", "command"))
    for name, situation in SITUATIONS.items():
        if sys.argv[1:] and not any(word.lower() in name.lower() for word in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            begun = time.perf_counter()
            text = audited(situation, Path(folder))
            seconds = time.perf_counter() - begun
            command = f"ppdinf audit {situation['file']} {situation['options']}"
            print(line(name, f"{seconds:.2f}", outcome(situation, text), command), flush=True)


if __name__ == "__main__":
    main()
