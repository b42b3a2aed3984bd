"""Rates per person with noisy numbers of persons: bias and coverage, with and without a model of the noise.

Run with ``python benchmarks/errors_in_variables.py [data sets]``; 1,000 data sets take about five minutes of one core.
The setting is `tests/oracles/noisy_denominators.py`, with parameters drawn from their priors. *Bias* is the mean error
of posterior means, with its Monte Carlo standard error; *off by* their root mean square error; *sd* the mean posterior
standard deviation; *coverage* the share of 90 % intervals that contain the truth; *p* the p-value of the rank test.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracles"))

import numpy as np
from noisy_denominators import study, summed_out, taken_as_true

from ppdinf.diagnostics.calibration import uniformity

ANALYSES = {"summed out": summed_out, "noise ignored": taken_as_true}
LINE = "{:<9}{:<15}{:<10}{:>16}{:>8}{:>7}{:>10}{:>10}"


def main():
    data_sets = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(LINE.format("epsilon", "analysis", "parameter", "bias", "off by", "sd", "coverage", "p"))
    for epsilon in ("1", "1/4", "1/10"):
        begun = time.process_time()
        for analysis, parameters in study(epsilon, ANALYSES, data_sets).items():
            for parameter, found in parameters.items():
                error, position = found["error"], found["position"]
                bias = f"{error.mean():.3f} +- {error.std() / np.sqrt(error.size):.3f}"
                off, held = np.sqrt((error**2).mean()), np.mean((position > 0.05) & (position < 0.95))
                shown = f"{off:.3f}", f"{found['sd'].mean():.3f}", f"{100 * held:.1f} %", f"{uniformity(position):.1e}"
                print(LINE.format(epsilon, analysis, parameter, bias, *shown))
        print(f"{data_sets} data sets, {time.process_time() - begun:.0f} CPU s", flush=True)


if __name__ == "__main__":
    main()
