"""Nested sums by listing every table: independent of the package, for small systems."""

import itertools

import numpy as np
from scipy.special import logsumexp

CONTRADICTIONS, SYSTEMS = (0, 40, 400), 120
"""How far what is measured is from what cells say, and systems of each."""


class Problem:
    """A random forest of sums: `arguments` of NestedSums, `weights`, and all tables with their log weights."""

    def __init__(self, rng, forest=False, contradiction=0.0):
        m = int(rng.integers(1, 6))
        parent = np.array([-1 if v == 0 or (forest and rng.random() < 0.3) else rng.integers(0, v) for v in range(m)])
        d = int(rng.integers(m, 8))
        node = rng.integers(-1 if forest else 0, m, d)
        childless = [v for v in range(m) if v not in parent]
        node[: len(childless)] = childless
        turn = rng.permutation(m)  # numbers of sums tell nothing of who is above whom
        parent = np.array([-1 if parent[v] < 0 else turn[parent[v]] for v in np.argsort(turn)])
        node = np.where(node < 0, -1, turn[node])
        width = rng.integers(1, 6, d) if d < 6 else rng.integers(1, 4, d)
        low = rng.integers(-3, 4, d)
        self.log_weight = rng.normal(0, rng.choice([0.3, 2.0, 8.0]), width.sum())
        self.log_weight[rng.random(width.sum()) < rng.choice([0, 0.2])] = -np.inf
        self.slope = rng.normal(0, 0.7, d)
        self.low, self.width, self.node, self.parent = low, width, node, parent
        self.start = np.cumsum(width) - width
        self.tables = np.array(list(itertools.product(*[range(a, a + w) for a, w in zip(low, width, strict=True)])))
        self.members = np.zeros((m, d), np.int64)
        for i in range(d):
            v = node[i]
            while v >= 0:
                self.members[v, i] = 1
                v = parent[v]
        self.aggregate = self.tables @ self.members.T
        truth = self.aggregate[rng.integers(len(self.tables))]
        self.least, self.most = np.full(m, -1000), np.full(m, 1000)
        for v in range(m):
            kind = rng.random()
            if kind < 0.25:
                self.least[v] = self.most[v] = truth[v]
            elif kind < 0.5:
                self.least[v] = truth[v] - rng.integers(0, 3)
                self.most[v] = truth[v] + rng.integers(0, 3)
        self.measured = []  # sum, value, law
        for v in range(m):
            for _ in range(rng.choice([0, 1, 1, 2])):
                value = truth[v] + int(rng.normal(0, 2)) + int(contradiction)
                self.measured.append((v, value, int(rng.integers(0, 4))))
        self.variance, self.epsilon = rng.uniform(0.4, 6), rng.uniform(0.1, 2)
        self.matrix = rng.normal(0, 1, 9)
        self.matrix[rng.random(9) < 0.2] = -np.inf
        self.matrix[4] = 0.0

    def noise(self, law, value, s, scale=1.0):
        """Log weight of a measured value of a sum, as a formula."""
        z = s - value
        if law == 0:
            return -(z**2) / (2 * self.variance * scale)
        if law == 1:
            return -self.epsilon * scale * abs(z)
        if law == 2:  # at most 4 off, as rows of a matrix are
            return np.where(abs(z) <= 4, self.matrix[np.clip(z + 4, 0, 8)] * scale, -np.inf)
        return np.where(z <= 0, 0.0, -self.epsilon * scale * z)  # censored from one side

    def log_weights(self, log_weight=None, slope=None, scale=1.0, scaled=range(4), without=()):
        """Log weights of all tables; wrong scales of some laws; sums whose exact values and bounds are forgotten."""
        log_weight = self.log_weight if log_weight is None else log_weight
        slope = self.slope if slope is None else slope
        total = (log_weight[self.start + self.tables - self.low]).sum(1) + self.tables @ slope
        for v in range(len(self.parent)):
            s = self.aggregate[:, v]
            if v not in without:
                total = np.where((self.least[v] <= s) & (s <= self.most[v]), total, -np.inf)
            for sum_, value, law in self.measured:
                if sum_ == v:
                    total = total + self.noise(law, value, s, scale if law in scaled else 1.0)
        return total

    def value(self, **changes):
        return logsumexp(self.log_weights(**changes))

    def posterior(self):
        total = self.log_weights()
        return np.exp(total - logsumexp(total))


def problems(number, seed, **changes):
    """Random problems that some table meets, every third one a forest with free cells."""
    rng, found = np.random.default_rng(seed), 0
    while found < number:
        p = Problem(rng, forest=found % 3 == 0, **changes)
        if p.value() > -np.inf:
            found += 1
            yield p
