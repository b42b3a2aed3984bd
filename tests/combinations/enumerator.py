"""All tables that satisfy exact sums and limits, and the weight of each, by NumPy and SciPy only."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import stats
from scipy.special import logsumexp

FAR = 3000  # largest enumerated count of an unbounded cell
MOST = 300  # tables of several linked cells


class TooManyError(Exception):
    """The number of tables exceeds the limit."""


@dataclass(frozen=True)
class Term:
    """A log weight of some cells: a function of an array with a row for each table and a column for each cell."""

    cells: tuple[int, ...]
    weigh: Callable[[np.ndarray], np.ndarray]


@dataclass
class System:
    """Limits of every cell, exact sums ``row @ x == value`` and lower limits ``row @ x >= value``."""

    low: np.ndarray
    high: np.ndarray
    equal: list[tuple[np.ndarray, int]] = field(default_factory=list)
    above: list[tuple[np.ndarray, int]] = field(default_factory=list)
    most: int = MOST  # maximum number of tables of linked cells
    _lists: dict = field(default_factory=dict)

    def within(self, low, high):
        """Return the same sums, with narrower limits of the cells."""
        return System(np.maximum(self.low, low), np.minimum(self.high, high), self.equal, self.above, self.most)

    def rows(self):
        """Return all linear conditions as ``floor <= row @ x <= ceiling``."""
        yield from ((np.asarray(row), value, value) for row, value in self.equal)
        yield from ((np.asarray(row), value, np.inf) for row, value in self.above)

    def components(self, terms):
        """Return groups of cells linked by sums or terms."""
        links = [np.flatnonzero(row) for row, _, _ in self.rows()] + [np.array(term.cells) for term in terms]
        number = np.arange(self.low.size)
        for linked in links:
            number[np.isin(number, number[linked])] = number[linked].min() if linked.size else 0
        return [tuple(np.flatnonzero(number == one).tolist()) for one in np.unique(number)]

    def tables(self, cells):
        """Return every table of a subset of the cells, a row for each."""
        if cells not in self._lists:
            self._lists[cells] = self._list(cells)
        return self._lists[cells]

    def _list(self, cells):
        where = list(cells)
        rows = [(row[where], low, high) for row, low, high in self.rows() if row[where].any()]
        if any(not row.any() and not low <= 0 <= high for row, low, high in self.rows()):
            return np.empty((0, len(where)), dtype=int)
        low, high = tightened(self.low[where], np.minimum(self.high[where], FAR), rows)
        found = np.zeros((1, 0), dtype=int)
        for j in range(len(where)):
            values = np.arange(low[j], high[j] + 1)
            if len(found) * values.size > 400_000:
                raise TooManyError(cells)
            found = np.column_stack([np.repeat(found, values.size, axis=0), np.tile(values, len(found))])
            for row, least, most in rows:
                rest = row[j + 1 :]
                smallest = np.minimum(rest * low[j + 1 :], rest * high[j + 1 :]).sum()
                largest = np.maximum(rest * low[j + 1 :], rest * high[j + 1 :]).sum()
                sums = found @ row[: j + 1]
                found = found[(sums + smallest <= most) & (sums + largest >= least)]
        if len(where) > 1 and len(found) > self.most:
            raise TooManyError(cells)
        return found


def tightened(low, high, rows):
    """Return limits of the cells after interval propagation along the sums."""
    low, high = low.astype(float), high.astype(float)
    for _ in range(50):
        before = low.copy(), high.copy()
        for row, least, most in rows:
            smallest, largest = np.minimum(row * low, row * high), np.maximum(row * low, row * high)
            for j in np.flatnonzero(row):
                others = smallest.sum() - smallest[j], largest.sum() - largest[j]
                ends = sorted(((least - others[1]) / row[j], (most - others[0]) / row[j]))
                low[j], high[j] = max(low[j], np.ceil(ends[0] - 1e-9)), min(high[j], np.floor(ends[1] + 1e-9))
        if (low == before[0]).all() and (high == before[1]).all():
            break
    return low.astype(int), high.astype(int)


@dataclass(frozen=True)
class Listed:
    """Return tables of each group of linked cells, with their log weights."""

    groups: list[tuple[tuple[int, ...], np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, system, terms):
        groups = []
        for cells in system.components(terms):
            tables = system.tables(cells)
            log_weight = np.zeros(len(tables))
            for term in terms:
                if term.cells and term.cells[0] in cells:
                    with np.errstate(all="ignore"):
                        log_weight = log_weight + term.weigh(tables[:, [cells.index(cell) for cell in term.cells]])
            groups.append((cells, tables, log_weight))
        return cls(groups)

    @property
    def log_total(self):
        return float(sum(logsumexp(log_weight) if log_weight.size else -np.inf for _, _, log_weight in self.groups))

    def log_weight_of(self, table):
        """Return the log weight of one table; minus infinity for a table that is not listed."""
        total = 0.0
        for cells, tables, log_weight in self.groups:
            same = (tables == np.ravel(table)[list(cells)]).all(axis=1)
            total += float(log_weight[same].sum()) if same.any() else -np.inf
        return total

    def probabilities(self):
        """Return cells, tables and probabilities of each group."""
        return [(cells, tables, np.exp(log_w - logsumexp(log_w))) for cells, tables, log_w in self.groups]

    def draw(self, number, rng):
        """Return independent tables, a row for each."""
        size = sum(len(cells) for cells, _, _ in self.groups)
        found = np.empty((number, size), dtype=int)
        for cells, tables, p in self.probabilities():
            found[:, list(cells)] = tables[rng.choice(len(tables), size=number, p=p / p.sum())]
        return found

    def moments(self):
        """Return mean and standard deviation of every cell."""
        size = sum(len(cells) for cells, _, _ in self.groups)
        mean, sd = np.empty(size), np.empty(size)
        for cells, tables, p in self.probabilities():
            mean[list(cells)] = p @ tables
            sd[list(cells)] = np.sqrt(np.maximum(p @ (tables - p @ tables) ** 2, 0))
        return mean, sd

    def p_value(self, draws):
        """Return the chi-square p-value of independent tables (rows), over all groups; 0 if one is impossible."""
        statistic, freedom = 0.0, 0
        for cells, tables, p in self.probabilities():
            where = {tuple(table): k for k, table in enumerate(tables.tolist())}
            numbers = [where.get(tuple(table), -1) for table in draws[:, list(cells)].tolist()]
            seen = np.bincount(np.array(numbers) + 1, minlength=len(tables) + 1)
            if seen[0] or seen[1:][p == 0].any():
                return 0.0
            often = p * len(draws) >= 5
            expected = np.append(p[often], p[~often].sum()) * len(draws)
            observed = np.append(seen[1:][often], seen[1:][~often].sum())
            if 0 < expected[-1] < 5 and often.any():  # too few for a separate class
                k = int(np.argmin(expected[:-1]))
                expected[k], observed[k] = expected[k] + expected[-1], observed[k] + observed[-1]
                expected, observed = expected[:-1], observed[:-1]
            kept = expected > 0
            statistic += float((((observed - expected) ** 2)[kept] / expected[kept]).sum())
            freedom += int(kept.sum()) - 1
        return float(stats.chi2.sf(statistic, freedom)) if freedom else 1.0
