"""Random published tables against the enumeration of all tables that the rule of the publisher prints so.

The rule is written here as the probability of each printed text. Statements are read from CSV files and from Python
objects. Weights must be the probabilities of all texts, bounds those of the possible tables; draws have p above 1e-9.
"""

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
import xarray as xr
from chi_square import p_value_of_tables

import ppdinf as ppd
from ppdinf.cli.published_commands import PublishedTable
from ppdinf.errors import LabelError
from ppdinf.tables import totals
from ppdinf.tables.count_ranges import HiddenCounts

inv, laws = ppd.invariants, ppd.laws
QUICK, DEEP, BATCH = 60, 1000, 50
SHAPES = {"p": (2,), "q": (3,), "r": (4,), "s": (2, 2)}
MARKS = ["S", "*", "c", "Suppressed", "[REDACTED]", "N", "n/a", "-999", "999"]  # the last four are named by an option
EMPTY, SECONDARY = "", "#"
TOTALS = ["Total", "All", "Statewide", "Both sexes", "North"]  # the last one is a total by its numbers alone
ROUNDED = {"nearest": "5", "thirds": "3", "ties": "ties-up:4", "down": "down:5", "up": "up:3", "random": "random:3"}
LAWS = {
    "nearest": laws.Rounded(5), "thirds": laws.Rounded(3), "ties": laws.Rounded(4, ties="up"),
    "down": laws.Rounded(5, "down"), "up": laws.Rounded(3, "up"), "random": laws.RandomRounding(3),
    "noise": laws.DoubleGeometric(1), "clipped": laws.Clipped(laws.DoubleGeometric(1), at=0),
}  # fmt: skip
PERSONS = 40  # the denominator of percentages
BINS = {"0": (0, 0), "1-4": (1, 4), "5 to 9": (5, 9), "10 or more": (10, math.inf)}


@dataclass(frozen=True)
class Publisher:
    """A rule: counts from `low` to `high` are hidden (none if `high` is 0), the others are printed by `kind`."""

    kind: str
    low: int
    high: int
    mark: str
    empty: str | None

    def printed(self, x):
        """Return the texts of a count with their probabilities."""
        if self.low <= x <= self.high:
            return {EMPTY if self.empty == "suppressed" else self.mark: 1.0}
        if x == 0 and self.empty == "zero":
            return {EMPTY: 1.0}
        if self.kind == "bins":
            return {next(text for text, (a, b) in BINS.items() if a <= x <= b): 1.0}
        if self.kind == "percent":
            return {f"{math.floor(100 * x / PERSONS + 0.5)} %": 1.0}
        if self.kind == "random":
            below, share = x // 3 * 3, x % 3 / 3
            return {str(below): 1 - share} | ({str(below + 3): share} if share else {})
        if self.kind in ("noise", "clipped"):
            weight, found = math.tanh(0.5), {}
            for y in range(x - 40, x + 41):
                text = str(max(y, 0) if self.kind == "clipped" else y)
                found[text] = found.get(text, 0.0) + weight * math.exp(-abs(y - x))
            return found
        value = {
            "exact": x, "nearest": (x + 2) // 5 * 5, "thirds": (x + 1) // 3 * 3, "ties": (x + 2) // 4 * 4,
            "down": x // 5 * 5, "up": -(-x // 3) * 3,
        }[self.kind]  # fmt: skip
        return {str(value): 1.0}

    def draw(self, x, rng):
        found = self.printed(x)
        return str(rng.choice(list(found), p=np.array(list(found.values())) / sum(found.values())))

    def exactly(self):
        return replace(self, kind="exact")


@dataclass(frozen=True)
class Composition:
    """Labels, and the printed texts of the cells and of sums: the summed dimensions, the publisher and the texts."""

    dims: tuple
    shape: tuple
    publisher: Publisher
    cells: np.ndarray
    sums: list
    total_row: tuple[str, str] | None
    seed: int

    def __str__(self):
        return f"seed {self.seed}: {self.publisher}, cells {self.cells.tolist()}, sums {self.sums}"


def compose(seed):
    rng = np.random.default_rng([7, seed])
    dims = [*SHAPES][int(rng.integers(4))]
    shape = SHAPES[dims]
    dims = tuple("ab"[: len(shape)])
    x = rng.negative_binomial(0.6, 0.2, size=shape)
    while x.sum() > 12:
        x = rng.negative_binomial(0.6, 0.2, size=shape)
    kind = str(rng.choice(["exact", "bins", "percent", *LAWS]))
    low = int(rng.integers(0, 3))
    hides = kind not in ("bins", "percent") and rng.random() < 0.7
    high = low + int(rng.integers(1, 6)) if hides else 0
    empties = [None, "missing", "zero"] + (["suppressed"] if hides else [])
    empty = empties[int(rng.integers(len(empties)))] if kind not in ("bins", "percent") else None
    publisher = Publisher(kind, low if hides else 1, high, str(rng.choice(MARKS)), empty)
    cells = np.array([publisher.draw(count, rng) for count in x.ravel()], dtype=object).reshape(shape)
    if empty == "missing":
        cells.flat[int(rng.integers(x.size))] = EMPTY
    if rng.random() < 0.3:
        cells.flat[int(rng.integers(x.size))] = SECONDARY
    # the total limits the table; a margin in addition
    is_rounded = kind in ROUNDED and rng.random() < 0.5
    sums = [((), *published_sum(publisher if is_rounded else publisher.exactly(), x.sum(), rng), is_rounded)]
    if len(shape) == 2 and rng.random() < 0.7:
        noisy = kind in LAWS and rng.random() < 0.5
        sums.append((("a",), *published_sum(publisher if noisy else publisher.exactly(), x.sum(axis=1), rng), noisy))
    total_row = None
    if len(shape) == 1 and rng.random() < 0.08:
        x, sums = 100 + rng.integers(400, size=shape), []
        if (label := str(rng.choice(TOTALS))) == "North":
            publisher = Publisher("exact", 1, 0, "S", None)
        cells = np.array([publisher.draw(count, rng) for count in x], dtype=object)
        total_row = label, publisher.draw(int(x.sum()), rng)
    return Composition(dims, shape, publisher, cells, sums, total_row, seed)


def published_sum(publisher, values, rng):
    texts = [publisher.draw(int(value), rng) for value in np.ravel(values)]
    return publisher, np.array(texts, dtype=object).reshape(np.shape(values))


def labels(one):
    return {dim: [f"{dim}{k}" for k in range(n)] for dim, n in zip(one.dims, one.shape, strict=True)}


def as_range(text):
    """Return a percentage as the range of counts of `PERSONS`; other texts unchanged."""
    if not text.endswith("%"):
        return text
    rate = int(text.removesuffix(" %"))
    return ppd.ranges([math.ceil(PERSONS * (rate - 0.5) / 100)], [math.ceil(PERSONS * (rate + 0.5) / 100) - 1])[0]


def from_file(one, folder):
    """Write CSV files, without some rows with empty values, and read them with options of the commands."""
    rng, rule = np.random.default_rng([8, one.seed]), one.publisher
    separator, suffix = str(rng.choice([",", "\t", ";"])), str(rng.choice([".csv", ".txt"]))

    def write(name, dims, texts):
        rows = []
        for place in np.ndindex(texts.shape):
            text = as_range(texts[place]).replace(SECONDARY, ">=0")
            first = all(place) or not any(place)  # keeps each label
            if text == EMPTY and rule.empty and not first and rng.random() < 0.5:
                continue
            rows.append([*(f"{dim}{k}" for dim, k in zip(dims, place, strict=True)), text])
        if dims == one.dims and one.total_row:
            rows.append([one.total_row[0], as_range(one.total_row[1])])
        path = folder / f"{name}{suffix}"
        lines = [separator.join(row) or '""' for row in [[*dims, "n"], *rows]]
        path.write_text("\n".join(lines) + "\n")
        return path

    cells = write(f"cells{one.seed}", one.dims, one.cells)
    files = {False: [], True: []}
    for k, (dims, _, texts, as_table) in enumerate(one.sums):
        files[as_table].append(write(f"sums{one.seed}-{k}", dims, texts))
    noisy = rule.kind in ("noise", "clipped")
    return PublishedTable(
        [cells],
        value="n",
        dims=",".join(one.dims),
        noise="geometric:1" if noisy else None,
        clipped=0 if rule.kind == "clipped" else None,
        rounded=ROUNDED.get(rule.kind),
        suppressed=f"{rule.low}-{rule.high}" if rule.high else None,
        marks=rule.mark if rule.high and rule.mark in MARKS[5:] else None,
        empty=rule.empty,
        sums=files[True],
        public=files[False],
    ).read()


def from_objects(one):
    """State the same in Python: texts or numbers, in a list, Series or DataArray."""
    rng, rule = np.random.default_rng([9, one.seed]), one.publisher
    hidden = {"below": rule.high + 1 if rule.high else None, "least": rule.low if rule.high else 0}
    number = rule.mark.lstrip("-").isdigit() and rng.random() < 0.5
    hidden |= {"marks": {int(rule.mark)} if number else rule.mark, "empty": rule.empty}

    def value(text):
        text = as_range(text)
        if text == EMPTY:
            return [None, np.nan, ""][int(rng.integers(3))]
        return int(text) if text.lstrip("-").isdigit() and rng.random() < 0.5 else text

    def values(dims, texts):
        made = np.empty(texts.shape, dtype=object)
        for place in np.ndindex(texts.shape):
            made[place] = value(texts[place])
        made = np.asarray(ppd.suppressed(made, marks={SECONDARY}, empty="missing"), dtype=object)
        container = int(rng.integers(3))
        if not dims or container == 0:
            return made
        index = [labels(one)[dim] for dim in dims]
        array = xr.DataArray(made, dims=dims, coords=dict(zip(dims, index, strict=True)))
        return array if container == 1 else array.to_series().iloc[::-1]

    law = LAWS.get(rule.kind)
    if rule.high or rule.empty:
        law = laws.Suppressed(laws.Rounded(1) if law is None else law, **hidden)
    law = laws.Interval() if law is None else law
    parts, public = [], {}
    for dims, _, texts, as_table in [(one.dims, rule, one.cells, True), *one.sums]:
        statement = inv.margin(*dims) if dims else inv.total()
        shown = values(dims, texts)
        if as_table and (rule.kind != "exact" or rng.random() < 0.5):
            parts.append(ppd.measured(statement, shown, law))
        else:
            is_stated = rule.high or rule.empty
            public[statement] = ppd.suppressed(shown, **hidden) if is_stated else shown
    frame = labels(one)
    if one.total_row:
        frame = {"a": [*frame["a"], one.total_row[0]]}
        shown = ppd.suppressed([*one.cells, one.total_row[1]], marks={rule.mark, SECONDARY}, empty="missing")
        parts, public = [], {inv.margin("a"): [as_range(text) for text in shown]}
    return ppd.Measurements(frame, *parts, public=public)


def enumerate_tables(one):
    """Return all tables in a box, the log probability of all texts, and whether the preimages have no holes."""
    size, rule = math.prod(one.shape), one.publisher
    limit = 24 if size < 4 else 18  # no total is larger
    counts = np.arange(limit + 1)
    tables = np.array(list(product(counts, repeat=size))).reshape(-1, *one.shape)

    def log_p(publisher, text):
        if publisher.empty == "zero" and text != EMPTY:
            publisher = replace(publisher, empty=None)  # other zeros may be printed
        found = np.array([publisher.printed(x).get(text, 0.0) for x in range(size * limit + 1)])
        if text == SECONDARY or (text == EMPTY and publisher.empty == "missing"):
            found[:] = 1.0
        (possible,) = np.nonzero(found)
        with np.errstate(divide="ignore"):
            return np.log(found), possible[-1] - possible[0] + 1 == possible.size

    tables_of = {one.dims: tables, (): tables.sum(axis=tuple(range(1, tables.ndim)))}
    if len(one.shape) == 2:
        tables_of["a",] = tables.sum(axis=2)
    weight, whole = np.zeros(len(tables)), True
    for dims, publisher, texts, _ in [(one.dims, rule, one.cells, True), *one.sums]:
        for place in np.ndindex(texts.shape):
            log_probability, is_whole = log_p(publisher, texts[place])
            weight += log_probability[tables_of[dims][(slice(None), *place)]]
            whole &= bool(is_whole)
    return tables.reshape(-1, size), weight, whole


def faults(one, folder, draws=0):
    """Return the first difference between the package and the enumeration, for each of the two statements."""
    expected, found = None if one.total_row else enumerate_tables(one), []
    for name, read in {"file": lambda: from_file(one, folder), "objects": lambda: from_objects(one)}.items():
        try:
            seen = read()
            if one.total_row:  # in files of exact numbers, it becomes a sum
                fault = "the total is accepted as a label" if one.total_row[0] in seen.frame.coords["a"][1] else None
            else:
                fault = difference(seen, *expected, draws)
        except ppd.errors.PpdinfError as error:
            is_right = one.total_row and isinstance(error, LabelError)
            fault = None if is_right else f"{type(error).__name__}: {error}"
        if fault:
            found.append(f"{one}\n{name}: {fault}")
    return found


def difference(seen, tables, weight, whole, draws):
    entries, system = seen.entries, seen.public
    found = entries.log_weights(entries.matrix @ tables.T).sum(axis=0) if entries.y.size else np.zeros(len(tables))
    off, slack = system.A @ tables.T - system.values[:, None], system.B @ tables.T - system.limits[:, None]
    found = np.where((off == 0).all(axis=0) & (slack >= 0).all(axis=0), found, -np.inf)
    possible = weight > -np.inf
    if not np.array_equal(found > -np.inf, possible):
        return f"possible: {tables[(found > -np.inf) != possible][:3].tolist()}"
    shift = found[possible] - weight[possible]
    if np.ptp(shift) > 1e-6:
        return f"log weights differ by {np.ptp(shift)}"
    bounds = ppd.identified_bounds(seen, progressbar=False)
    low, high = tables[possible].min(axis=0), tables[possible].max(axis=0)
    if np.any(bounds.lower > low) or np.any(bounds.upper < high):
        return f"bounds {bounds.lower.tolist()}, {bounds.upper.tolist()} exclude possible counts"
    if whole and not (np.array_equal(bounds.lower, low) and np.array_equal(bounds.upper, high)):
        return f"bounds {bounds.lower.tolist()}, {bounds.upper.tolist()} are not {low.tolist()}, {high.tolist()}"
    return compared_draws(seen, tables[possible], weight[possible], draws) if draws else None


def compared_draws(seen, tables, weight, draws):
    posterior = ppd.denoise(seen, draws=draws, rng=1, prior="flat", progressbar=False)
    drawn = posterior.draws.values.reshape(-1, tables.shape[1])
    if impossible := set(map(tuple, drawn.tolist())) - set(map(tuple, tables.tolist())):
        return f"the draw {min(impossible)} is impossible"
    if "exactly" not in posterior.plan:
        return None
    p = np.exp(weight - weight.max())
    p_value = p_value_of_tables(drawn, tables, p / p.sum())
    return f"chi-square test of draws: p = {p_value:.1e}" if p_value < 1e-9 else None


FEW = [range(first, first + 10) for first in range(0, QUICK, 10)]
MANY = [range(first, min(first + BATCH, DEEP)) for first in range(QUICK, DEEP, BATCH)]


@pytest.mark.parametrize("seeds", [*FEW, *(pytest.param(seeds, marks=pytest.mark.deep) for seeds in MANY)], ids=str)
def test_random_statements(seeds, tmp_path):
    draws = {seed: 1000 if seed >= QUICK else 200 * (seed % 10 == 0) for seed in seeds}
    found = [fault for seed in seeds for fault in faults(compose(seed), tmp_path, draws[seed])]
    if found:
        pytest.fail("\n\n".join(found), pytrace=False)


def misread(change):
    """A wrong variant in which the arguments of a rule of suppression change when it is read."""

    def wrong(monkeypatch):
        original = HiddenCounts.of.__func__
        monkeypatch.setattr(HiddenCounts, "of", classmethod(lambda cls, *rule: original(cls, *change(*rule))))

    return wrong


def exchanged(empty, other):
    return misread(lambda *rule: tuple(other if stated == empty else stated for stated in rule))


WRONG = {
    # a printed 0 means 0 to 2, although 1 and 2 would be suppressed
    "rounding without suppression": lambda patch: patch.setattr(HiddenCounts, "excluded", (math.inf, -math.inf)),
    "missing as suppressed": exchanged("missing", "suppressed"),
    "zero as missing": exchanged("zero", "missing"),
    "characters as marks": misread(
        lambda below, least, marks, *rest: (below, least, set(marks) if isinstance(marks, str) else marks, *rest)
    ),
    "totals by name only": lambda patch: patch.setattr(totals, "_sum_of_others", lambda *_: None),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_rules_are_found(wrong, monkeypatch, tmp_path):
    """Among the compositions of the quick tier."""
    WRONG[wrong](monkeypatch)
    assert any(faults(compose(seed), tmp_path) for seed in range(QUICK))
