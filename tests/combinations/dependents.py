"""Random variables and potentials that depend on the table x: cell by cell, by index, or on several cells."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from combinations import formulas as own
from combinations.enumerator import Term
from combinations.frames import pick, shown


@dataclass
class Dependent:
    """Lines of a model and, given values of everything else, log weights of tables.

    `terms` takes values of latent variables and shared data; terms without cells are constants.
    """

    kind: str
    code: list[str]
    terms: Callable
    several: bool = False  # whether an element depends on several cells
    latent: dict = field(default_factory=dict)  # functions that draw values of latent variables, given a table
    data: dict = field(default_factory=dict)
    redraw: list = field(default_factory=list)  # sets of shared data that change together
    observable: dict = field(default_factory=dict)  # latent variables that pm.observe can set
    optional: tuple = ()  # latent variables that a model may have marginalized


FAMILIES = {
    "normal": ("pm.Normal({name!r}, {mean}, 1.3, observed={observed})", lambda y, m: own.normal(y, m, 1.3)),
    "poisson": ("pm.Poisson({name!r}, 0.3 + 0.7 * ({mean}), observed={observed})",
                lambda y, m: own.poisson(y, 0.3 + 0.7 * m)),
    "binomial": ("pm.Binomial({name!r}, n={mean}, p=0.4, observed={observed})",
                 lambda y, m: own.binomial(y, m, own.logit(0.4))),
}  # fmt: skip


def outcome(rng, family, mean):
    """Return the distribution of observations, given the mean."""
    if family == "normal":
        return np.round(rng.normal(mean, 1.3), 1)
    if family == "poisson":
        return rng.poisson(0.3 + 0.7 * np.maximum(mean, 0))
    return rng.binomial(np.maximum(mean, 0).astype(int), 0.4)


def element_terms(cells, weigh, observed):
    """Return a term for each element: `weigh` takes the observation and the counts of its cells."""
    flat = np.ravel(observed)
    return [Term(tuple(int(c) for c in one), lambda t, y=y: weigh(y, t)) for one, y in zip(cells, flat, strict=True)]


def of_every_cell(rng, frame, truth, name):
    """Observe each cell once, sometimes with missing values, or in another order."""
    family = pick(rng, list(FAMILIES))
    code, log_p = FAMILIES[family]
    number = np.arange(frame.size).reshape(frame.shape)
    form = pick(rng, ["x", "x", "reversed", "transposed", "repeated", "flat"])
    mean, cells = {
        "x": ("x", number),
        "reversed": ("x[::-1]", number[::-1]),
        "transposed": ("x.T", number.T),
        "repeated": ("x[..., None]", np.repeat(number[..., None], 2, axis=-1)),
        "flat": ("x.flatten()", number.ravel()),
    }[form]
    if form == "repeated":
        mean = f"x[..., None] + np.zeros({(*frame.shape, 2)}, dtype=int)"
    observed = outcome(rng, family, truth.ravel()[cells])
    missing = np.zeros(observed.shape, dtype=bool)
    if rng.random() < 0.4:
        missing = rng.random(observed.shape) < 0.4
        missing.flat[int(rng.integers(missing.size))] = True
        missing.flat[int(rng.integers(missing.size))] = False
    if not missing.any() and family != "binomial" and rng.random() < 0.3:
        kind = "latent of every cell"  # unobserved, with its own observation
        lines = [code.format(name=name, mean=mean, observed="None").replace(", observed=None", ""),
                 f'pm.Normal("{name}_read", model["{name}"], 0.8, observed=np.array({shown(observed)}))']  # fmt: skip
        lines[0] = f"{name} = {lines[0]}"
        lines[1] = lines[1].replace(f'model["{name}"]', name)

        def terms(values, data):
            latent = np.asarray(values[name])
            constant = own.normal(observed, latent, 0.8).sum()
            return [
                *element_terms(cells.reshape(-1, 1), lambda y, t: log_p(y, t[:, 0]), latent),
                Term((), lambda t: constant),
            ]

        latent = {name: lambda r, x: outcome(r, family, x.ravel()[cells])}
        return Dependent(kind, lines, terms, latent=latent)
    shown_values = f"np.array({shown(np.where(missing, np.nan, observed) if missing.any() else observed)})"
    line = code.format(name=name, mean=mean, observed=shown_values)
    if not missing.any():
        found = element_terms(cells.reshape(-1, 1), lambda y, t: log_p(y, t[:, 0]), observed)
        return Dependent(f"every cell, {form}", [line], lambda values, data: found)
    absent = f"{name}_unobserved"

    def terms(values, data):
        if absent not in values:  # marginalized: missing values have no weight
            flat = ~missing.ravel()
            chosen = cells.reshape(-1, 1)[flat], observed.ravel()[flat]
        else:
            full = observed.astype(float)
            full[missing] = values[absent]
            chosen = cells.reshape(-1, 1), full
        return element_terms(chosen[0], lambda y, t: log_p(y, t[:, 0]), chosen[1])

    latent = {absent: lambda r, x: outcome(r, family, x.ravel()[cells[missing]])}
    return Dependent("missing values", [line], terms, latent=latent, optional=(absent,))


def by_index(rng, frame, truth, name):
    """Elements that depend on cells by a constant index, or by shared data."""
    family = pick(rng, list(FAMILIES))
    code, log_p = FAMILIES[family]
    number = np.arange(frame.size).reshape(frame.shape)
    shared = rng.random() < 0.6
    options = ["rows", "flat"] + ["pairs"] * (len(frame.shape) > 1) + ["column"] * (len(frame.shape) == 2)
    form = pick(rng, options)
    index = f"{name}_index" if shared else None

    def draw(r):
        return r.integers(0, frame.size if form == "flat" else frame.shape[0], int(r.integers(1, 5)))

    column = int(rng.integers(frame.shape[-1]))
    second = [int(rng.integers(n)) for n in frame.shape[1:]]

    def cells_of(where):
        if form == "flat":
            return number.ravel()[where]
        if form == "pairs":
            return number[(where, *second)]
        return number[where][:, column] if form == "column" else number[where]

    where = draw(rng)
    observed = outcome(rng, family, truth.ravel()[cells_of(where)])
    at = index if shared else f"np.array({where.tolist()})"
    mean = {
        "rows": f"x[{at}]",
        "flat": f"x.flatten()[{at}]",
        "pairs": f"x[{at}, {', '.join(map(str, second))}]",
        "column": f"x[{at}][:, {column}]",
    }[form]
    if not shared:
        line = code.format(name=name, mean=mean, observed=f"np.array({shown(observed)})")
        found = element_terms(cells_of(where).reshape(-1, 1), lambda y, t: log_p(y, t[:, 0]), observed)
        return Dependent("constant index", [line], lambda values, data: found)
    seen = f"{name}_seen"
    lines = [f'{index} = pm.Data("{index}", np.array({where.tolist()}))',
             f'{seen} = pm.Data("{seen}", np.array({shown(observed)}))',
             code.format(name=name, mean=mean, observed=seen)]  # fmt: skip

    def terms(values, data):
        return element_terms(cells_of(data[index]).reshape(-1, 1), lambda y, t: log_p(y, t[:, 0]), data[seen])

    def redraw(r):
        again = draw(r)
        if r.random() < 0.4:  # of the same length, without other observations
            again = r.permutation(np.resize(again, np.size(where)))
        read = outcome(r, family, truth.ravel()[cells_of(again)])
        return {index: again, seen: read}

    return Dependent("shared index", lines, terms, data={index: where, seen: observed}, redraw=[redraw])


def latent_index(rng, frame, truth, name):
    """A cell, or the sum of the first cells, by an unknown index."""
    p = np.array([0.2, 0.3, 0.5, 0.4, 0.6, 0.1])[: frame.shape[0]]
    p = np.round(p / p.sum(), 6)
    p[-1] = 1 - p[:-1].sum()
    z = f"{name}_z"
    number = np.arange(frame.size).reshape(frame.shape)
    second = [int(rng.integers(n)) for n in frame.shape[1:]]
    summed = rng.random() < 0.35
    several = rng.random() < 0.4
    line = f'{z} = pm.Categorical("{z}", {p.tolist()}{", shape=2" if several and not summed else ""})'
    rest = "".join(f", {k}" for k in second)
    at = int(rng.integers(frame.shape[0]))
    center = float(np.round(rng.normal(truth[(at, *second)], 1), 1))
    if summed:
        mean, observed = f"x[: {z} + 1].sum()", np.array(center)
    elif several:
        mean, observed = f"x[{z}{rest}]", np.array([center, center + 1])
    else:
        mean, observed = f"x[{z}{rest}]", np.array(center)
    lines = [line, f'pm.Normal("{name}", {mean}, 1.1, observed={shown(observed)})']

    def terms(values, data):
        at = np.ravel(values[z]).astype(int)
        prior = float(np.log(p[at]).sum())
        if summed:
            cells = [number[: at[0] + 1].ravel()]
            found = element_terms(cells, lambda y, t: own.normal(y, t.sum(axis=1), 1.1), observed)
        else:
            found = element_terms(
                number[(at, *second)].reshape(-1, 1), lambda y, t: own.normal(y, t[:, 0], 1.1), observed
            )
        return [*found, Term((), lambda t: prior)]

    size = 2 if several and not summed else None
    latent = {z: lambda r, x: r.integers(0, frame.shape[0], size)}
    observable = {z: latent[z]}
    return Dependent("latent index", lines, terms, several=True, latent=latent, observable=observable)


def of_several(rng, frame, truth, name):
    """Sums, differences and shares."""
    number = np.arange(frame.size).reshape(frame.shape)
    form = pick(rng, ["sum", "axis", "difference", "share", "dot"])
    weights = np.round(rng.normal(0, 1, frame.size), 1)
    axis = int(rng.integers(len(frame.shape)))
    mean, cells, of = {
        "sum": ("x.sum()", number.reshape(1, -1), lambda t: t.sum(axis=1)),
        "axis": (f"x.sum(axis={axis})", np.moveaxis(number, axis, -1).reshape(-1, frame.shape[axis]),
                 lambda t: t.sum(axis=1)),
        "difference": ("x.flatten()[0] - x.flatten()[-1]", np.array([[0, frame.size - 1]]),
                       lambda t: t[:, 0] - t[:, 1]),
        "share": ("x.flatten()[0] / (1 + x.sum())", number.reshape(1, -1), lambda t: t[:, 0] / (1 + t.sum(axis=1))),
        "dot": (f"(x.flatten() * np.array({weights.tolist()})).sum()", number.reshape(1, -1), lambda t: t @ weights),
    }[form]  # fmt: skip
    observed = np.round(np.array([of(truth.ravel()[one][None])[0] + rng.normal() for one in cells]), 1)
    shape = np.delete(frame.shape, axis) if form == "axis" else ()
    line = f'pm.Normal("{name}", {mean}, 1.2, observed=np.array({shown(observed.reshape(shape))}))'
    found = element_terms(cells, lambda y, t: own.normal(y, of(t), 1.2), observed)
    return Dependent(f"several cells, {form}", [line], lambda values, data: found, several=True)


def chain(rng, frame, truth, name):
    """A dependent of a dependent and of the table."""
    first, second = f"{name}_first", f"{name}_second"
    number = np.arange(frame.size).reshape(-1, 1)
    one = np.round(rng.normal(truth, 1), 1)
    two = np.round(rng.normal(one + truth / 2, 2), 1)
    seen = rng.random() < 0.6
    observed = f", observed=np.array({shown(one)})" if seen else ""
    lines = [f'{first} = pm.Normal("{first}", x, 1{observed})',
             f'pm.Normal("{second}", {first} + x / 2, 2, observed=np.array({shown(two)}))']  # fmt: skip

    def terms(values, data):
        middle = np.ravel(one if seen else values[first])
        of_first = element_terms(number, lambda y, t: own.normal(y, t[:, 0], 1), middle)
        both = np.column_stack([middle, two.ravel()])
        of_second = [Term((k,), lambda t, a=a, b=b: own.normal(b, a + t[:, 0] / 2, 2)) for k, (a, b) in enumerate(both)]
        return of_first + of_second

    latent = {} if seen else {first: lambda r, x: np.round(r.normal(x, 1), 2)}
    return Dependent("chain", lines, terms, latent=latent, observable=dict(latent))


def potential(rng, frame, truth, name):
    """Potentials of single cells or of several."""
    form = pick(rng, ["each", "sum of each", "two cells", "total"])
    number = np.arange(frame.size).reshape(-1, 1)
    if form in ("each", "sum of each"):
        inner = "-0.2 * (x - 1.5) ** 2"
        line = f'pm.Potential("{name}", {inner if form == "each" else f"({inner}).sum()"})'
        found = [Term((int(k),), lambda t: -0.2 * (t[:, 0] - 1.5) ** 2) for k in number.ravel()]
        return Dependent(f"potential, {form}", [line], lambda values, data: found)
    if form == "two cells":
        line = f'pm.Potential("{name}", -0.4 * pt.abs(x.flatten()[0] - x.flatten()[-1]))'
        found = [Term((0, frame.size - 1), lambda t: -0.4 * np.abs(t[:, 0] - t[:, 1]))]
    else:
        line = f'pm.Potential("{name}", -0.1 * (x.sum() - 3) ** 2)'
        found = [Term(tuple(number.ravel().tolist()), lambda t: -0.1 * (t.sum(axis=1) - 3) ** 2)]
    return Dependent(f"potential, {form}", [line], lambda values, data: found, several=True)


def switched(rng, frame, truth, name):
    """A mean that is not linear in the count."""
    number = np.arange(frame.size).reshape(-1, 1)
    observed = np.round(rng.normal(np.where(truth > 1, 2.0, 0.5), 1), 1)
    line = f'pm.Normal("{name}", pm.math.switch(x > 1, 2.0, 0.5), 1, observed=np.array({shown(observed)}))'
    found = element_terms(number, lambda y, t: own.normal(y, np.where(t[:, 0] > 1, 2.0, 0.5), 1), observed)
    return Dependent("switch", [line], lambda values, data: found)


MAKERS = [of_every_cell, of_every_cell, by_index, by_index, by_index, latent_index, latent_index, of_several, chain,
          potential, switched]  # fmt: skip


def dependent(rng, frame, truth, name):
    """Return a random dependent, for a table near the truth."""
    return pick(rng, MAKERS)(rng, frame, np.asarray(truth).reshape(frame.shape), name)
