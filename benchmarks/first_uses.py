"""Time the first commands and models of a new user, cold and warm, with several checkouts by turns.

    uv run python benchmarks/first_uses.py [row ...] [--against PATH ...] [--limit SECONDS] [--repeats N] [--warm]
                                           [--output FILE.md]

Prints a Markdown table; ``--list`` prints the names of the rows. The checkout of this file comes first, and each
``--against PATH`` adds the checkout in that folder. A run is one process that imports a copy of the package. A cold run
finds no compiled kernel and an empty compile directory of PyTensor; a warm run repeats the cold run with the same copy.
Installed packages are not compiled again. ``--warm`` skips cold runs: one copy for all rows then keeps the kernels that
the checkout has compiled, and one run per row is not measured.

Each entry is the median of CPU seconds of the process and its children, then seconds of the clock. A further figure is
printed by the row, such as the time of one gradient or the smallest bulk effective sample size (ESS). A run that takes
longer than its limit is stopped, and the table says so. "cannot run" names the error of a checkout that lacks a feature
of the row. The rows are in `first_use_rows.py`.
"""

import argparse
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from first_use_rows import ROWS

SCRIPT = Path(__file__).with_name("first_use_rows.py")


def measure(name, folder, limit):
    """Run a row with the package in a folder; return CPU seconds, seconds of the clock, and words."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment |= {
        "PYTHONPATH": str(folder), "PYTENSOR_FLAGS": f"base_compiledir={folder / 'pytensor'}", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory() as work:
        process = subprocess.Popen(
            [sys.executable, "-P", str(SCRIPT), name], env=environment, cwd=work, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            out, err = "", None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if err is None:
        return cpu, wall, f"not finished in {limit:.0f} s"
    if process.returncode:
        return cpu, wall, "cannot run: " + (err.strip().splitlines() or ["no message"])[-1][:90]
    return cpu, wall, "; ".join(line[8:] for line in out.splitlines() if line.startswith("figure: "))


def copy(checkout, folder, compiled):
    """Copy the package of a checkout to a new folder, with or without its compiled kernels."""
    shutil.rmtree(folder, ignore_errors=True)
    skip = None if compiled else shutil.ignore_patterns("__pycache__")
    shutil.copytree(checkout / "ppdinf", folder / "ppdinf", ignore=skip)


def entry(runs):
    """Format the median run."""
    unfinished = [words for _, _, words in runs if words.startswith(("not finished", "cannot run"))]
    if unfinished:
        return unfinished[0]
    cpu, wall = (statistics.median(values) for values in list(zip(*runs, strict=True))[:2])
    return f"{cpu:.1f} CPU s, {wall:.1f} s" + (f"; {runs[-1][2]}" if runs[-1][2] else "")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the current run is also stopped
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="names of rows; all of them by default")
    parser.add_argument("--against", nargs="+", type=Path, default=[], help="folders of other checkouts")
    parser.add_argument("--limit", type=float, help="seconds of the clock that each run may take")
    parser.add_argument("--repeats", type=int, default=1, help="warm runs")
    parser.add_argument("--warm", action="store_true", help="skip cold runs")
    parser.add_argument("--output", type=Path, help="file for the table")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(f"{name:<32}{title}" for name, (title, _, _) in ROWS.items()))
        return
    if unknown := set(asked.rows) - set(ROWS):
        parser.error(f"unknown rows: {', '.join(sorted(unknown))}; --list prints the names")
    checkouts = [Path(__file__).parents[1], *(path.resolve() for path in asked.against)]
    lines = [f"| first use | | {' | '.join(path.name for path in checkouts)} |", "|---|---|" + "---|" * len(checkouts)]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory() as copies:
        folders = [Path(copies) / str(k) for k in range(len(checkouts))]
        for name in asked.rows or ROWS:
            title, limit, _ = ROWS[name]
            limit = asked.limit or limit
            for folder, checkout in zip(folders, checkouts, strict=True):
                if not (asked.warm and folder.exists()):
                    copy(checkout, folder, compiled=asked.warm)
            cold = [[measure(name, folder, limit)] for folder in folders]
            warm = [[] for _ in folders]
            for _ in range(asked.repeats):
                for folder, runs, first in zip(folders, warm, cold, strict=True):
                    failed = first[0][2].startswith("cannot run")
                    runs.append(first[0] if failed else measure(name, folder, limit))
            for state, columns in (("warm", warm),) if asked.warm else (("cold", cold), ("warm", warm)):
                lines.append(f"| {title} | {state} | {' | '.join(map(entry, columns))} |")
                print(lines[-1], flush=True)
            if asked.output:
                asked.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
