"""Random measurements: noise distributions, noisy sums, exact sums and bounds of a table."""

from dataclasses import dataclass

import numpy as np

from combinations import frames
from combinations.enumerator import FAR, System, Term
from combinations.formulas import log_below, log_noise
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


def parts(rng, frame, truth, features, most, linked, repeats, absent):
    """Noisy sums: their code and their log weights; sums with absent cells are missing."""
    code, terms = [], []
    whole = frames.every_cell(frame, rng)
    stated = [whole] if rng.random() < 0.8 or not linked else []
    stated += [frames.some_sums(frame, rng) for _ in range(int(rng.integers(0, 3)) if linked else 0)]
    stated = stated or [whole]
    for one in list(stated):
        if rng.random() < repeats:
            stated.append(one)
            features.add("repeated readings")
    for one in stated:
        exact = one.rows @ truth
        negative = (one.rows < 0).any()
        kinds = ["geometric", "gaussian", "staircase"] if negative or absent.any() else LAWS
        upper = int((one.rows @ np.minimum(most, 12)).max()) if not negative else 0
        if upper > 40:
            kinds = [kind for kind in kinds if kind != "matrix"]
        law = noise(rng, len(exact), max(upper, int(exact.max())), kinds)
        y = law.draw(exact, rng)
        features.update({f"law: {law.kind}", f"noisy: {'cells' if one is whole else one.kind}"})
        full = law.kind in ("geometric", "gaussian", "staircase", "array")
        if full and rng.random() < (0.6 if sum(other is one for other in stated) > 1 else 0.25):
            y = y + rng.integers(-1, 2, y.size) * rng.integers(4, 70)
            features.add("contradicting readings")
        if law.threshold is not None:
            y = np.where(y < law.threshold, np.nan, y)
        elif rng.random() < 0.45 and law.kind not in ("array", "l2"):
            y = np.where(rng.random(y.size) < 0.4, np.nan, y)
            features.add("missing readings")
        if absent.any():
            y = np.where(one.rows[:, absent].any(axis=1), np.nan, y)
        if np.isnan(y).all() and law.threshold is None:
            y[0] = law.draw(exact, rng)[0]
        values, form = frames.value_code(one, y, rng)
        features.add(f"values: {form}")
        terms += law.terms(one.rows, y)
        code.append(f"    ppd.measured({one.code}, {values}, {law.code}),")
    return code, terms


def suppressed(rng, frame, truth, features):
    """Publish cells as they are, or not at all: in every row one is, or some are."""
    rows, columns = frame.shape
    shown = rng.random(frame.shape) < 0.5
    if rng.random() < 0.6:
        shown = np.arange(columns) == rng.integers(0, columns, (rows, 1))
    size = int(truth.max()) + 3
    law = Noise(f"laws.TransitionMatrix(np.eye({size}))", [("matrix", np.eye(size))] * frame.size, "suppressed")
    whole = frames.margin(frame, frame.dims)
    y = np.where(shown.ravel(), truth, np.nan)
    values, form = frames.value_code(whole, y, rng)
    features.update({"law: exact readings", "suppressed readings", f"values: {form}"})
    return [f"    ppd.measured({whole.code}, {values}, {law.code}),"], law.terms(whole.rows, y)


CROSSING = [
    "none", "total", "margin", "margins", "groups", "nested", "cells", "weighted", "linear", "mapped", "all pairs",
]  # fmt: skip


NESTED = ["none", "none", "total", "groups", "nested", "margin"]


def exact_sums(rng, frame, kinds=CROSSING):
    """Draw statements of exact sums of a random type."""
    kinds = NESTED if kinds is CROSSING and rng.random() < 0.4 else kinds
    options = [kind for kind in kinds if kind not in ("groups", "nested") or "group" in frame.coords]
    options = [kind for kind in options if kind != "weighted" or "weight" in frame.coords]
    options = [kind for kind in options if kind not in ("margins",) or len(frame.dims) > 1]
    options = [kind for kind in options if kind != "all pairs" or len(frame.dims) > 2]
    kind = pick(rng, options)
    if kind == "none":
        return [], kind
    if kind == "margins":
        return [frames.margin(frame, (dim,)) for dim in rng.permutation(frame.dims).tolist()], kind
    if kind == "all pairs":
        a, b, c = frame.dims
        return [frames.margin(frame, pair) for pair in ((a, b), (a, c), (b, c))], kind
    if kind == "nested":
        return [frames.total(frame), frames.groups(frame)], kind
    if kind == "total":
        return [frames.total(frame)], kind
    return [frames.some_sums(frame, rng, [kind])], kind


def bounds(rng, frame, truth, features):
    """Draw limits of cells or of several cells, or a structural zero: code, limits and rows."""
    low, high = np.full(frame.size, -FAR), np.full(frame.size, FAR)
    above, code = [], []
    kind = pick(rng, ["none", "none", "nonnegative", "between", "at least", "inequality", "zeros"])
    if kind == "nonnegative":
        low[:], code = 0, ["inv.nonnegative()"]
    elif kind == "between":
        least = int(truth.min()) if rng.random() < 0.3 else 0
        most = int(truth.max() + rng.integers(0, 3))
        low[:], high[:], code = least, most, [f"inv.between({least}, {most})"]
    elif kind == "at least":
        axis = int(rng.integers(len(frame.dims)))
        if frame.shape[axis] > 1:
            one, two = rng.permutation(frame.shape[axis])[:2]
            slabs = np.moveaxis(np.arange(frame.size).reshape(frame.shape), axis, 0)
            first, second = slabs[one].ravel(), slabs[two].ravel()
            if (truth[first] >= truth[second]).all():
                for a, b in zip(first, second, strict=True):
                    row = np.zeros(frame.size, dtype=int)
                    row[a], row[b] = 1, -1
                    above.append((row, 0))
                labels = frame.labels[axis]
                code = [f"inv.at_least({labels[one]!r}, {labels[two]!r}, dim={frame.dims[axis]!r})"]
    elif kind == "inequality":
        row = rng.integers(-1, 2, frame.size)
        if row.any():
            limit = int(row @ truth) - int(rng.integers(0, 2))
            above, code = [(row, limit)], [f"inv.inequality({[row.tolist()]}, [{limit}])"]
    elif kind == "zeros":
        axis = int(rng.integers(len(frame.dims)))
        cells = np.moveaxis(np.arange(frame.size).reshape(frame.shape), axis, 0)
        empty = [k for k in range(frame.shape[axis]) if (truth[cells[k].ravel()] == 0).all()]
        if empty and frame.shape[axis] > 1:
            high[cells[empty[0]].ravel()] = 0
            low[cells[empty[0]].ravel()] = 0
            code = [f"inv.zeros({ {frame.dims[axis]: frame.labels[axis][empty[0]]}!r})"]
    if code:
        features.add(f"bounds: {kind}")
    return code, low, high, above


def truth_of(rng, frame, law, mean):
    """Draw a table in the support of the data model."""
    size = frame.size
    if law is None:
        return rng.poisson(mean, size)
    if law.name == "categorical with holes":
        return rng.choice(law.allowed, size)
    if law.rows is not None:
        n = law.high.reshape(-1, frame.shape[-1])[:, 0]
        return np.array([rng.multinomial(k, np.full(frame.shape[-1], 1 / frame.shape[-1])) for k in n]).ravel()
    return np.clip(rng.poisson(mean, size) + law.low, law.low, law.high)


def measurements(rng, frame, law, features, *, kinds=CROSSING, noisy=True):
    """Draw measurements of a table: code, system, log weights and the confidential table."""
    hidden = noisy and len(frame.shape) == 2 and min(frame.shape) > 2 and rng.random() < 0.5
    exact, kind = exact_sums(rng, frame, ["margins"] if hidden else kinds)
    absent = np.zeros(frame.size, dtype=bool)
    if noisy and not hidden and frame.size > 1 and law is not None and law.high.max() == FAR and rng.random() < 0.3:
        absent[rng.permutation(frame.size)[: int(rng.integers(1, frame.size))]] = True
        exact, kind = [], "none"
        features.add("cells that nothing measures")
    features.add(f"exact: {kind}")
    linked = bool(exact) or (law is not None and law.high.max() < 10) or rng.random() < 0.15
    mean = rng.choice([0.6, 1.2, 1.8]) if linked else rng.choice([1.5, 6.0, 30.0])
    truth = truth_of(rng, frame, law, mean)
    most = np.full(frame.size, 40) if law is None else np.minimum(law.high, 40)
    if exact:
        most = np.minimum(most, int(truth.sum()) + 1)
    if hidden:
        code, terms = suppressed(rng, frame, truth, features)
    else:
        code, terms = parts(rng, frame, truth, features, most, linked, 0.25, absent) if noisy else ([], [])
    bound_code, low, high, above = bounds(rng, frame, truth, features)
    equal, public = [], []
    for one in {one.code: one for one in exact}.values():
        values = one.rows @ truth
        equal += [(row, int(value)) for row, value in zip(one.rows, values, strict=True)]
        text, form = frames.value_code(one, values.astype(float), rng)
        features.add(f"values: {form}")
        public.append(f"{one.code}: {text}")
    low = np.maximum(low, 0 if law is None else law.low)
    high = high if law is None else np.minimum(high, law.high)
    lines = [f"seen = ppd.Measurements(\n    {frame.labels_code()},", *code]
    if frame.coords:
        lines.append(f"    coords={frame.coords_code()},")
    if public:
        lines.append(f"    public={{{', '.join(public)}}},")
    if bound_code:
        lines.append(f"    bounds={' & '.join(bound_code)},")
    lines.append(")")
    if rng.random() < 0.15:
        lines.append("seen = pickle.loads(pickle.dumps(seen))")
        features.add("pickled measurements")
    return "\n".join(lines), System(low, high, equal, above), terms, truth
