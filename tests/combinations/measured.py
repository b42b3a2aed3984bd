"""Random measurements: noisy sums, exact sums and bounds of a table."""

import numpy as np

from combinations import noises, sums
from combinations.enumerator import FAR, System
from combinations.frames import pick


def parts(rng, frame, truth, features, most, linked, repeats, absent):
    """Noisy sums: their code and their log weights; sums with absent cells are missing."""
    code, terms = [], []
    whole = sums.every_cell(frame, rng)
    stated = [whole] if rng.random() < 0.8 or not linked else []
    stated += [sums.some_sums(frame, rng) for _ in range(int(rng.integers(0, 3)) if linked else 0)]
    stated = stated or [whole]
    for one in list(stated):
        if rng.random() < repeats:
            stated.append(one)
            features.add("repeated readings")
    for one in stated:
        exact = one.rows @ truth
        negative = (one.rows < 0).any()
        kinds = ["geometric", "gaussian", "staircase"] if negative or absent.any() else noises.LAWS
        upper = int((one.rows @ np.minimum(most, 12)).max()) if not negative else 0
        if upper > 40:
            kinds = [kind for kind in kinds if kind != "matrix"]
        law = noises.noise(rng, len(exact), max(upper, int(exact.max())), kinds)
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
        values, form = sums.value_code(one, y, rng)
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
    law = noises.Noise(f"laws.TransitionMatrix(np.eye({size}))", [("matrix", np.eye(size))] * frame.size, "suppressed")
    whole = sums.margin(frame, frame.dims)
    y = np.where(shown.ravel(), truth, np.nan)
    values, form = sums.value_code(whole, y, rng)
    features.update({"law: exact readings", "suppressed readings", f"values: {form}"})
    return [f"    ppd.measured({whole.code}, {values}, {law.code}),"], law.terms(whole.rows, y)


CROSSING = [
    "none",
    "total",
    "margin",
    "margins",
    "groups",
    "nested",
    "cells",
    "weighted",
    "linear",
    "mapped",
    "all pairs",
]


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
        return [sums.margin(frame, (dim,)) for dim in rng.permutation(frame.dims).tolist()], kind
    if kind == "all pairs":
        a, b, c = frame.dims
        return [sums.margin(frame, pair) for pair in ((a, b), (a, c), (b, c))], kind
    if kind == "nested":
        return [sums.total(frame), sums.groups(frame)], kind
    if kind == "total":
        return [sums.total(frame)], kind
    return [sums.some_sums(frame, rng, [kind])], kind


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
        text, form = sums.value_code(one, values.astype(float), rng)
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
