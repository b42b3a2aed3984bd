"""Sampling of 22 models of PyMC's example gallery, each with a noisy release or an exact total of its counts.

Run with ``python benchmarks/situations.py [model ...]``. ``tests/combinations/test_combinations.py`` checks the
densities of these models by enumeration. A line shows the largest R-hat, the smallest bulk ESS, divergences and CPU
seconds with compilation, for four chains of 1,000 draws after 1,000 for tuning, with PyMC's default sampler.
"""

import logging
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import pymc as pm
from combinations.gallery import SITUATIONS

import ppdinf as ppd
from ppdinf.diagnostics.convergence import convergence
from ppdinf.diagnostics.parametrization import diverging
from ppdinf.errors import DiagnosisWarning


def measure(name):
    situation = SITUATIONS[name]
    begun = time.process_time()
    model, _ = situation.model(marginalize=not situation.release.sampled_only)
    with model:
        idata = pm.sample(cores=1, chains=4, random_seed=1, progressbar=False, quiet=True)
    seconds = time.process_time() - begun
    free = [convergence(idata.posterior[rv.name]) for rv in model.free_RVs]
    rhat = max(part["r_hat"].max() for part in free)
    ess = min(part["ess_bulk"].min() for part in free)
    problems = len(ppd.diagnose(idata, model).problems)
    return f"{rhat:.3f}", f"{ess:,.0f}", int(diverging(idata).sum()), problems, f"{seconds:.0f}"


def main():
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", DiagnosisWarning)
    line = "{:<30}{:<14}{:>7}{:>8}{:>12}{:>10}{:>7}".format
    print(line("model", "release", "R-hat", "ESS", "divergences", "problems", "CPU s"))
    for name in sys.argv[1:] or SITUATIONS:
        print(line(name, SITUATIONS[name].published, *measure(name)), flush=True)


if __name__ == "__main__":
    main()
