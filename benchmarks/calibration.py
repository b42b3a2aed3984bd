"""Rank tests of rejection and importance sampling: p-values over simulated releases, and the faults that they detect.

Run with ``python benchmarks/calibration.py [total groups hierarchy two-way]``. Every line simulates 1,000 parameters,
tables and releases, draws from each posterior, and tests whether the ranks of the truth among the draws are uniform:
for theta, the size of the noise and the fit of the table. Regimes: dense (counts of 25, epsilon = 1/4), sparse (0.7,
3/2), flat (4, 1/20). Correct inference has p-values above 1e-6; the faults of dense problems give a p-value below. Two
margins of a 2 x 2 table are marginalized table by table, because `PartiallyPrivate` keeps such a table as a variable.
They have one noise value, which is not sufficient to detect faults. For rejection, the table also shows how many bounds
were proved (the others were found by maximisation), and the median acceptance rate. For importance sampling, it shows
the median and the 95th percentile of k-hat.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracles"))

import numpy as np
from posterior_problems import Compiled, Problem

from ppdinf.diagnostics.calibration import calibrate, uniformity

SYSTEMS = dict.fromkeys(("total", "groups", "hierarchy", "two-way"), ("dense", "sparse", "flat"))
SUMS = ["epsilon off by 20 %", "a public sum dropped", "P(Z | theta) dropped"]
OWN = {"rejection": "M too small", "importance": "proposal density left out"}


def measure(route, system, regime, compiled, fault):
    problem, seen = Problem(route, system, regime, compiled, fault=fault), []

    def infer(y, rng):
        draws = problem.infer(y, rng)
        seen.append((problem.bound == "proved", problem.acceptance) if route == "rejection" else (problem.k, 0))
        return draws

    begun = time.process_time()
    found = calibrate(problem.simulate, infer, rng=1)
    first, second = np.array(seen).T
    if route == "rejection":
        about = f"{100 * first.mean():.0f} % proved, {100 * np.median(second):.1f} % accepted"
    else:
        about = f"k-hat {np.median(first):.2f}, {np.quantile(first, 0.95):.2f}"
    values = [f"{uniformity(found[name]):.1e}" for name in found]
    return *values, f"{time.process_time() - begun:.0f}", about


def main():
    line = "{:<11}{:<11}{:<8}{:<27}{:>9}{:>9}{:>9}{:>7}  {}".format
    print(line("route", "system", "regime", "fault", "theta", "noise", "fit", "CPU s", ""))
    for system in sys.argv[1:] or SYSTEMS:
        enumerated = system == "two-way"
        for route in OWN:
            compiled = Compiled(4 if enumerated else 6, enumerated)
            compiled.compile(route)
            for regime in SYSTEMS[system]:
                faults = [None]
                if regime == "dense" and not enumerated:
                    faults += [*SUMS, OWN[route]]
                for fault in faults:
                    print(
                        line(route, system, regime, fault or "", *measure(route, system, regime, compiled, fault)),
                        flush=True,
                    )


if __name__ == "__main__":
    main()
