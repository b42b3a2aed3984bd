"""Small tables with noisy sums or suppressed cells, and all tables that agree, listed without the package."""

import math

import arviz as az
import numpy as np
from grids import box

import ppdinf as ppd
from ppdinf.invariants import linear

ROUNDED, ABSENT_BELOW = 3, 3
SYSTEMS, NESTED = 102, 25
"""That tests enumerate: of any sums, and of nested ones in a model."""


def gaussian(rng):
    variance = float(rng.choice([0.5, 2.0, 6.0]))
    return ppd.laws.DiscreteGaussian(variance=variance), lambda y, s: -((y - s) ** 2) / (2 * variance)


def geometric(rng):
    epsilon = float(rng.choice([0.25, 1.0]))
    return ppd.laws.DoubleGeometric(epsilon), lambda y, s: -epsilon * abs(y - s)


def staircase(rng):
    def log_weight(y, s):
        z = abs(y - s)
        return -0.5 * (0 if z < 1 else 1 + (z - 1) // 2)

    return ppd.laws.Staircase("1/2", sensitivity=2, step=1), log_weight


def rounding(rng):
    def log_weight(y, s):
        p = 1 - abs(y - s) / ROUNDED
        return math.log(p) if p > 0 and y % ROUNDED == 0 else -math.inf

    return ppd.laws.RandomRounding(ROUNDED), log_weight


def matrix(rng):
    p = rng.dirichlet(np.ones(14), size=40) + 1e-3
    p /= p.sum(axis=1, keepdims=True)

    return ppd.laws.TransitionMatrix(p), lambda y, s: math.log(p[s, y]) if 0 <= s < 40 else -math.inf


def thresholded(rng):
    far = np.arange(-400, 401)
    weights = np.exp(-0.5 * np.abs(far))

    def log_weight(y, s):
        if y is None:
            return math.log(weights[s + far < ABSENT_BELOW].sum() / weights.sum())
        return -0.5 * abs(y - s)

    return ppd.laws.Thresholded(ppd.laws.DoubleGeometric("1/2"), threshold=ABSENT_BELOW), log_weight


KINDS = {f.__name__: f for f in (gaussian, geometric, staircase, rounding, matrix, thresholded)}


def published(kind, s, rng):
    """Something that the law gives when the sum is s; None where it is absent."""
    if kind == "rounding":
        return int(s // ROUNDED * ROUNDED + ROUNDED * (rng.random() < s % ROUNDED / ROUNDED))
    if kind == "matrix":
        return int(rng.integers(14))
    noisy = int(s + rng.integers(-3, 4))
    return None if kind == "thresholded" and noisy < ABSENT_BELOW else noisy


class Problem:
    """Cells with Poisson counts of given rates, and what is known of their sums."""

    def __init__(self, seed, most=7, *, nested=False):
        rng = np.random.default_rng(seed)
        self.nested = nested
        self.d = int(rng.integers(2, 5))
        self.rates = rng.uniform(0.5, 4, self.d)
        truth = np.minimum(rng.poisson(self.rates), most)
        self.kinds, self.parts, self.terms, self.missing = [], [], [], False
        for _ in range(int(rng.integers(1, 5))):
            kind = str(rng.choice(list(KINDS)))
            law, log_weight = KINDS[kind](rng)
            rows = self._rows(rng, kind)
            y = [published(kind, int(row @ truth), rng) for row in rows]
            if kind != "thresholded" and len(y) > 1 and rng.random() < 0.3:
                y[int(rng.integers(len(y)))] = None
                self.missing = True
            given = [np.nan if value is None else value for value in y]
            self.kinds.append(kind)
            self.parts.append(ppd.measured(linear(rows), given, law))
            for row, value in zip(rows, y, strict=True):
                if value is not None or kind == "thresholded":
                    self.terms.append((row, value, log_weight))
        self.exact = None
        if rng.random() < 0.5:
            A = self._rows(rng, "matrix")[:1]
            self.exact = (A, (A @ truth).tolist())
        public = {} if self.exact is None else {linear(self.exact[0], ["exact"]): self.exact[1]}
        bounds = ppd.invariants.between(0, most)
        self.seen = ppd.Measurements({"cell": list(range(self.d))}, *self.parts, public=public, bounds=bounds)
        self.tables = box(0, most, self.d)

    def _rows(self, rng, kind):
        if rng.random() < 0.4:
            return np.eye(self.d, dtype=int)
        if self.nested:  # the first cells, from one on: any two are nested
            return (
                np.array([np.arange(self.d) < n for n in sorted({1 + int(n) for n in rng.integers(self.d, size=2)})])
                * 1
            )
        k = int(rng.integers(1, 3))
        high = 2 if kind in ("matrix", "thresholded") else 3
        rows = rng.integers(0, high, size=(k, self.d))
        rows[np.arange(k), rng.integers(self.d, size=k)] = 1
        return rows

    def log_weights(self, rate=1.0):
        """Log weight of every table, all rates times `rate`; -inf where it breaks what is exact."""
        found = np.empty(len(self.tables))
        for i, x in enumerate(self.tables):
            found[i] = sum(
                k * math.log(rate * r) - math.lgamma(k + 1) for k, r in zip(x.tolist(), self.rates, strict=True)
            )
            found[i] += sum(log_weight(y, int(row @ x)) for row, y, log_weight in self.terms)
            if self.exact is not None and (self.exact[0] @ x != self.exact[1]).any():
                found[i] = -math.inf
        return found

    def law(self):
        """Posterior probability of every table."""
        log_weights = self.log_weights()
        weights = np.exp(log_weights - log_weights.max())
        return weights / weights.sum()


class Suppressed:
    """A two-way table with both margins exact, of which 15 to 60 % of the cells were suppressed."""

    def __init__(self, seed, *, smallest=3, largest=5, most=20):
        rng = np.random.default_rng(seed)
        self.shape = tuple(int(n) for n in rng.integers(smallest, largest + 1, 2))
        share = rng.uniform(0.15, 0.6)
        self.table = rng.integers(0, int(rng.integers(2, most + 1)), self.shape)
        self.hidden = rng.random(self.shape) < share
        while not has_cycle(self.hidden):  # otherwise the margins disclose every hidden cell
            self.hidden = rng.random(self.shape) < max(share, 0.3)
        self.rows, self.columns = self.table.sum(axis=1), self.table.sum(axis=0)

    def supports(self, ranges=None):
        """Possible counts of each cell: all for hidden ones, or those in a range that holds the count."""
        found = []
        for k, (count, hidden) in enumerate(zip(self.table.ravel().tolist(), self.hidden.ravel(), strict=True)):
            if not hidden:
                found.append([count])
            else:
                found.append(list(range(200)) if ranges is None else ranges[k])
        return found


def has_cycle(hidden):
    """Whether hidden cells, as edges between their rows and columns, contain a cycle."""
    r, c = hidden.shape
    root = list(range(r + c))

    def find(v):
        while root[v] != v:
            v = root[v]
        return v

    for i, j in np.argwhere(hidden).tolist():
        a, b = find(i), find(r + j)
        if a == b:
            return True
        root[a] = b
    return False


def listed(shape, rows, columns, supports, most=300_000):
    """All tables with given margins and supports, one row each; None if there are more than `most`."""
    r, c = shape
    found = []
    low = np.array([min(own) for own in supports]).reshape(shape)
    high = np.array([max(own) for own in supports]).reshape(shape)

    def extend(k, prefix, in_row, in_columns):
        if len(found) > most:
            return
        if k == r * c:
            found.append(prefix)
            return
        i, j = divmod(k, c)
        rest_low, rest_high = low[i, j + 1 :].sum(), high[i, j + 1 :].sum()
        below_low, below_high = low[i + 1 :, j].sum(), high[i + 1 :, j].sum()
        for count in supports[k]:
            a, b = in_row - count, in_columns[j] - count
            if rest_low <= a <= rest_high and below_low <= b <= below_high:
                following = in_columns.copy()
                following[j] = b
                extend(k + 1, [*prefix, count], rows[i + 1] if j == c - 1 and i < r - 1 else a, following)

    extend(0, [], rows[0], np.array(columns))
    return None if len(found) > most else np.array(found)


def largest_z(draws, tables, law=None):
    """Largest score of means of cells and of squares of draws, shape (chains, n, d); infinite for tables not listed."""
    known = set(map(tuple, tables.tolist()))
    if not set(map(tuple, draws.reshape(-1, tables.shape[1]).tolist())) <= known:
        return np.inf
    law = np.full(len(tables), 1 / len(tables)) if law is None else law
    largest = 0.0
    for power in (1, 2):
        values, drawn = tables.astype(float) ** power, draws.astype(float) ** power
        mean = law @ values
        sd = np.sqrt(law @ (values - mean) ** 2)
        for k in np.flatnonzero(sd > 1e-9):
            ess = float(az.ess(drawn[:, :, k], method="mean"))  # nan where nothing moves
            ess = min(ess, drawn[:, :, k].size) if np.isfinite(ess) else 1.0
            if (drawn[:, :, k] == drawn[0, 0, k]).all():  # never moved: how likely is that of so many draws?
                share = law[values[:, k] == drawn[0, 0, k]].sum()
                largest = max(largest, np.sqrt(-2 * np.log(max(share, 1e-300)) * drawn[:, :, k].size))
                continue
            largest = max(largest, abs(drawn[:, :, k].mean() - mean[k]) / (sd[k] / np.sqrt(ess)))
    return largest
