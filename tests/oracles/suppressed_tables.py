"""Random tables of which some cells were suppressed, and all tables that agree with what was published.

Nothing here comes from the package: tables are listed cell by cell.
"""

import arviz as az
import numpy as np


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
    """Largest standard score of the means of cells and of their squares; infinite for a table that is not listed.

    Parameters
    ----------
    draws : array of int, shape (chains, n, d)
    tables : array of int, shape (m, d)
    law : array of float, shape (m,), optional
        Probabilities of the tables; equal ones by default.
    """
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
