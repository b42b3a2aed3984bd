"""Least squares and the posterior of `ppd.denoise`: coverage and width of 90 % intervals, and error.

    uv run python benchmarks/least_squares.py [tables]

Tables of 6 areas by 5 ages have negative binomial counts with shape 1.5, and areas differ by a log-normal factor with
scale 0.7. Published are the exact total, noisy cells and noisy areas (nested), or noisy ages, too (crossing).
"""

import sys

import numpy as np
import pandas as pd

import ppdinf as ppd
from ppdinf.laws.observation_model import as_observation_model

inv, laws = ppd.invariants, ppd.laws
LABELS = {"area": [f"area {k}" for k in range(6)], "age": [f"age {k}" for k in range(5)]}
GAUSSIAN, LAPLACE = laws.DiscreteGaussian(variance=25), laws.DoubleGeometric("1/4")
CASES = [
    *(("nested", GAUSSIAN, mean) for mean in (2, 20)),
    ("nested", LAPLACE, 20),
    *(("crossing", GAUSSIAN, mean) for mean in (2, 20)),
]


def published(sums, law, mean, rng):
    """Draw a table and everything published about it."""
    means = mean * np.exp(rng.normal(0, 0.7, (6, 1)))
    table = rng.negative_binomial(1.5, 1.5 / (1.5 + means), (6, 5))
    statements = [(("area", "age"), table), (("area",), table.sum(axis=1)), (("age",), table.sum(axis=0))]
    noise = as_observation_model(law)
    parts = [
        ppd.measured(inv.margin(*dims), noise.publish(values, rng), law)
        for dims, values in statements[: 2 if sums == "nested" else 3]
    ]
    return table, ppd.Measurements(LABELS, *parts, public={inv.total(): int(table.sum())})


def main(tables=50):
    """Print one row for each case, estimate and kind of number."""
    rows = []
    for sums, law, mean in CASES:
        rng = np.random.default_rng(1)
        for seed in range(tables):
            table, seen = published(sums, law, mean, rng)
            results = {"least squares": ppd.least_squares(seen)}
            results["denoise"] = ppd.denoise(seen, draws=400, rng=seed, progressbar=False)
            for way, result in results.items():
                for number, statement, truth in [
                    ("cells", None, table),
                    ("ages", inv.margin("age"), table.sum(axis=0)),
                ]:
                    found = result.summary(statement)
                    covered = (found["lower"] <= truth.ravel()) & (truth.ravel() <= found["upper"])
                    row = {"published": f"{sums}, {law.title}, {mean}", "number": number, "estimate": way}
                    row |= {"coverage": covered.mean(), "width": (found["upper"] - found["lower"]).mean()}
                    rows.append(row | {"squared error": ((found["estimate"] - truth.ravel()) ** 2).mean()})
    scores = pd.DataFrame(rows).groupby(["published", "number", "estimate"], sort=False).mean()
    scores["error"] = np.sqrt(scores.pop("squared error"))
    print(scores.round(2).to_string())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
