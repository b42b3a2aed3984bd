"""Distributions of counts that constructors are tried on."""

import csv
import os
from pathlib import Path

import numpy as np


def homicides():
    folder = os.environ.get("PPDINF_DATA")
    path = Path(folder or ".", "homicides_by_county.csv")
    if not folder or not path.exists():  # the shape of it: half zeros and a long tail
        rng = np.random.default_rng(5)
        return np.where(rng.random(3136) < 0.5, 0, (rng.pareto(0.9, 3136) * 1.5).astype(int) + rng.integers(0, 2, 3136))
    with path.open() as file:
        return np.array([int(row["murders"]) for row in csv.DictReader(file)])


def distribution(name, n):
    if name == "binomial":  # empirical: zeros in both tails
        return np.bincount(np.random.default_rng(0).binomial(n - 1, 0.5, 10_000), minlength=n) / 10_000
    if name == "geometric":
        z = 0.9 ** np.arange(n)
        return z / z.sum()
    if name == "uniform":
        return np.full(n, 1 / n)
    if name == "homicides":
        counts = np.minimum(homicides(), n - 1)
        return np.bincount(counts, minlength=n) / counts.size
    z = np.zeros(n)
    if name == "one point":
        z[n // 3] = 1
    if name == "two points":
        z[[0, n - 2]] = 0.3, 0.7
    return z


NAMES = ("binomial", "geometric", "uniform", "homicides", "one point", "two points")
