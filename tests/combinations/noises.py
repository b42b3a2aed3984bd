"""Random noise distributions, for the package and for the enumerator."""

from dataclasses import dataclass

import numpy as np

from combinations.enumerator import Term, log_below, log_noise
from combinations.frames import pick


@dataclass(frozen=True)
class Noise:
    """A law of the package for each of several sums, and the same law for the enumerator."""

    code: str
    laws: list  # one per entry
    kind: str
    threshold: int | None = None

    def draw(self, sums, rng):
        """Return published values of the sums."""
        found = []
        for law, s in zip(self.laws, sums, strict=True):
            if law[0] == "matrix":
                row = law[1][min(max(int(s), 0), len(law[1]) - 1)]
                found.append(int(rng.choice(row.size, p=row)))
            elif law[0] == "rounding":
                base = law[1]
                down = s - s % base
                found.append(int(down + base * (rng.random() < (s % base) / base)))
            else:
                far = np.arange(-60, 61)
                weight = np.exp(log_noise(("geometric", law[1]) if law[0] == "l2" else law, 0, far))
                found.append(int(s + rng.choice(far, p=weight / weight.sum())))
        return np.array(found, dtype=float)

    def terms(self, rows, published):
        """Return log weights of the sums, given published values (nan: missing, or below the threshold)."""
        terms = []
        for row, law, y in zip(rows, self.laws, published, strict=True) if self.kind != "l2" else ():
            cells = tuple(np.flatnonzero(row).tolist())
            weights = row[list(cells)]
            if self.threshold is not None and np.isnan(y) and cells:
                terms.append(Term(cells, lambda t, w=weights, law=law: log_below(law, self.threshold, t @ w)))
            elif not np.isnan(y) and cells:
                terms.append(Term(cells, lambda t, w=weights, law=law, y=int(y): log_noise(law, y, t @ w)))
        if self.kind == "l2":
            kept = ~np.isnan(published)
            cells = tuple(np.flatnonzero(rows[kept].any(axis=0)).tolist())
            matrix, y, epsilon = rows[kept][:, list(cells)], published[kept], self.laws[0][1]
            return [Term(cells, lambda t: -epsilon * np.linalg.norm(y - t @ matrix.T, axis=1))] if cells else []
        return terms


EPSILONS = {"1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0}


def random_matrix(rng, size):
    """Draw probabilities of published counts given counts, with bands, holes and ranges: their code, and a name."""
    kind = pick(rng, ["exact readings", "holes", "range", "odd and even"])
    if kind == "exact readings":
        code = f"np.eye({size})"
    elif kind == "range":  # index of the range that contains the count
        code = f"np.eye({size})[np.arange({size}) // {int(rng.integers(2, 4))}]"
    elif kind == "odd and even":  # published counts have the parity of the count
        code = f"(lambda d: (d % 2 == 0) * np.exp(-0.7 * d))(np.abs(np.subtract.outer(range({size}), range({size}))))"
    else:
        weight = np.where(rng.random((size, size)) < 0.4, 0, rng.integers(1, 10, (size, size)))
        code = f"np.array({weight.tolist()}) + 5 * np.eye({size})"
    if kind not in ("exact readings", "range"):
        code = f"(lambda w: w / w.sum(axis=1, keepdims=True))({code})"
    return code, eval(code, {"np": np}), "exact readings" if kind == "exact readings" else "holes"


def spread_matrix(rng, size):
    """Draw positive probabilities of published counts: their code and values."""
    code, matrix, _ = random_matrix(rng, size)
    weight = matrix + 0.05
    return f"(lambda m: m / m.sum(axis=1, keepdims=True))({code} + 0.05)", weight / weight.sum(axis=1, keepdims=True)


LAWS = ["geometric", "geometric", "gaussian", "staircase", "rounding", "matrix", "matrix", "thresholded", "l2", "array"]


def noise(rng, number, most, kinds=LAWS):
    """Draw a random law for sums, the largest of which is `most`."""
    kind = pick(rng, kinds)
    name = pick(rng, list(EPSILONS))
    if kind == "geometric":
        return Noise(f"laws.DoubleGeometric({name!r})", [("geometric", EPSILONS[name])] * number, kind)
    if kind == "gaussian":
        variance = pick(rng, [1, 2, 5])
        return Noise(f"laws.DiscreteGaussian(variance={variance})", [("gaussian", float(variance))] * number, kind)
    if kind == "staircase":
        width = int(rng.integers(2, 4))
        step = int(rng.integers(1, width + 1))
        code = f"laws.Staircase({name!r}, sensitivity={width}, step={step})"
        return Noise(code, [("staircase", EPSILONS[name], width, step)] * number, kind)
    if kind == "rounding":
        base = pick(rng, [2, 3, 5])
        return Noise(f"laws.RandomRounding({base})", [("rounding", base)] * number, kind)
    if kind == "matrix":
        code, matrix, word = random_matrix(rng, most + 1)
        return Noise(f"laws.TransitionMatrix({code})", [("matrix", matrix)] * number, word)
    if kind == "thresholded":
        threshold = int(rng.integers(1, 5))
        code = f"laws.Thresholded(laws.DoubleGeometric({name!r}), threshold={threshold})"
        return Noise(code, [("geometric", EPSILONS[name])] * number, kind, threshold)
    if kind == "l2":
        return Noise(f"laws.L2Laplace({name!r})", [("l2", EPSILONS[name])] * number, kind)
    if rng.random() < 0.5:
        names = [pick(rng, [0.25, 0.5, 1.0, 2.0]) for _ in range(number)]
        return Noise(f"laws.DoubleGeometric({names!r})", [("geometric", epsilon) for epsilon in names], "array")
    variances = [pick(rng, [1, 2, 5]) for _ in range(number)]
    return Noise(f"laws.DiscreteGaussian(variance={variances!r})", [("gaussian", float(v)) for v in variances], "array")
