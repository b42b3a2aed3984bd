"""Random models of a table (a data model, published numbers, dependents) and changes after they are built."""

import copy

import numpy as np

from combinations import data_models, dependents, frames
from combinations.composition import Stage
from combinations.enumerator import FAR, System, Term, TooManyError
from combinations.formulas import multinomial
from combinations.frames import pick, shown
from combinations.measured import CROSSING, measurements
from combinations.mechanisms import released, released_again
from combinations.posed import Posed


def posterior(rng):
    """Draw a model of a table: everything except changes."""
    if rng.random() < 0.04:
        return latent(rng)
    features = set()
    frame = frames.frame(rng)
    features.add(f"shape: {frame.shape}")
    way = pick(rng, ["measurements", "release", "two releases", "fiber", "released"], [10, 4, 4, 2, 2])
    features.add(f"way: {way}")
    unknown = data_models.parameters(rng, frame)
    row_totals = rng.integers(1, 4, frame.shape[:-1]) if len(frame.shape) > 1 else rng.integers(1, 5)
    kinds = data_models.BOUNDED + data_models.UNBOUNDED
    rows = way in ("measurements", "fiber", "released") and frame.shape[-1] > 1 and rng.random() < 0.12
    law = data_models.counts(rng, frame, data_models.ROWS if rows else kinds, row_totals)
    features.update({f"counts: {law.name}", f"unknowns: {unknown.kind}"})
    if way in ("measurements", "fiber"):
        kept = [kind for kind in CROSSING if kind != "none"] if way == "fiber" else CROSSING
        setup, system, terms, truth = measurements(rng, frame, law, features, kinds=kept, noisy=way == "measurements")
        if rows:  # the row totals are also public
            for k, row in enumerate(np.arange(frame.size).reshape(-1, frame.shape[-1])):
                system.equal.append((np.isin(np.arange(frame.size), row).astype(int), int(np.ravel(row_totals)[k])))
            names = ", ".join(map(repr, frame.dims[:-1]))
            state = f"inv.margin({names})" if names else "inv.total()"
            public = f"{state}: {np.asarray(row_totals).ravel().tolist() if names else int(row_totals)}"
            if "public={" not in setup:
                setup = setup.replace("\n)", f"\n    public={{{public}}},\n)", 1)
            elif f"{state}: " not in setup:
                setup = setup.replace("public={", f"public={{{public}, ", 1)
        place = "ppd.PartiallyPrivate({name!r}, {dist}, release=seen{option})"
        coords = "seen.coords"
        if way == "fiber":
            place, setup = "ppd.models.ConstrainedCounts({name!r}, {dist}, seen.public{option})", setup
    else:
        text, system, terms, truth, y, equal = released(rng, frame, law, features)
        setup = f"mechanism = {text}\nreleased = {frame.table_code(y)}"
        if way == "two releases":
            other, more, z, *_ = released_again(rng, frame, setup, equal, truth, features)
            terms = terms + more
            setup += f"\nreleases = [ppd.Release(released, mechanism), ppd.Release({frame.table_code(z)}, {other})]"
        elif way == "release":
            setup += "\nreleases = ppd.Release(released, mechanism)"
        place, coords = "ppd.PartiallyPrivate({name!r}, {dist}, release=releases{option})", frame.labels_code()
        if way == "released":
            place = None
    posed = Posed(frame, system, terms, law, unknown, data=dict(unknown.data))
    posed.exchange = way in ("release", "two releases") and "loss='l2'" in setup
    number = int(rng.choice([0, 1, 1, 2, 2])) if not unknown.outer else 0
    posed.dependents = [dependents.dependent(rng, frame, truth, f"d{k}") for k in range(number)]
    for one in posed.dependents:
        posed.data |= one.data
        features.add(f"dependent: {one.kind}")
    several = any(one.several for one in posed.dependents)
    marginalize = pick(rng, ["auto", False, True], [0.75, 0.2, 0.0 if several else 0.05])
    option = "" if marginalize == "auto" else f", marginalize={marginalize}"
    lines = [setup]
    indent = "    "
    if unknown.outer:
        lines += ["with pm.Model() as model:", *(indent + line for line in unknown.outer)]
        lines += [f'{indent}with pm.Model(name="inner", coords={coords}):']
        posed.table, indent = "inner::x", indent * 2
    else:
        lines += [f"with pm.Model(coords={coords}) as model:"]
    lines += [indent + line for line in unknown.code]
    if place is None:
        if "Suppression" in setup:  # publishes one table for each set of sums, not the confidential one
            raise TooManyError
        dims = ", ".join(map(repr, frame.dims))
        dist = law.code.replace(".dist(", '("x", ', 1)
        dist = dist[:-1] + (f", dims=({dims},))" if f"shape={frame.shape}" not in dist else ")")
        dist = dist.replace('pm.Mixture("x", [0.3, 0.7], [pm.Poisson(', 'pm.Mixture("x", [0.3, 0.7], [pm.Poisson.dist(')
        lines.append(f"{indent}x = {dist}")
        observed = "released"
        if rng.random() < 0.25:  # to be refused, or placed by labels
            features.add("observed in another order")
            backwards = f"released.isel({frame.dims[0]}=slice(None, None, -1))"
            observed = backwards + pick(rng, ["", ".to_pandas()"]) if len(frame.dims) < 3 else backwards
        lines.append(f'{indent}ppd.models.Released("release", mechanism, x, observed={observed}, labels=released)')
    else:
        lines += [f"{indent}x = {place.format(name='x', dist=law.code, option=option)}"]
    lines += [indent + line for one in posed.dependents for line in one.code]
    if unknown.level and not unknown.outer and place is not None and rng.random() < 0.12:
        more, posed.second = second_table(rng, unknown.level, features)
        lines += [indent + line for line in more]
    if way == "released":
        features.add("marginalize: RV")
    else:
        features.add(f"marginalize: {marginalize}")
    return features, Stage("\n".join(lines), posed, "built"), truth


def latent(rng):
    """Draw a latent multinomial table whose number of trials is shared data; without a release."""
    frame = frames.frame(rng, [(2,), (3,), (4,)])
    features = {"way: latent multinomial", f"shape: {frame.shape}", "unknowns: shared number"}
    size, n = frame.size, int(rng.integers(2, 7))
    covariate = np.round(rng.normal(0, 0.6, size), 2)
    truth = rng.multinomial(n, np.full(size, 1 / size))

    def rows(x, e, k):
        weight = np.exp(e)
        return multinomial(x, weight / weight.sum())

    law = data_models.Counts("multinomial rows", "", np.zeros(size, int), np.full(size, FAR), None, rows)
    unknown = data_models.Parameters(
        [], {"level": 1}, lambda p, d: p["level"] * covariate, {"n": np.array(n)}, {"n": lambda r: np.array(n + 1)},
        "shared number", "level",
    )  # fmt: skip
    posed = Posed(frame, total_of(frame, n), [], law, unknown, data={"n": np.array(n)})
    posed.dependents = [dependents.dependent(rng, frame, truth, "d0")]
    posed.data |= posed.dependents[0].data
    features.update({f"dependent: {posed.dependents[0].kind}", "marginalize: RV"})
    lines = ["with pm.Model() as model:", f'    n = pm.Data("n", {n})', '    level = pm.Normal("level", 0, 1)',
             f'    x = pm.Multinomial("x", n, pm.math.softmax(level * np.array({covariate.tolist()})))',
             *(f"    {line}" for line in posed.dependents[0].code)]  # fmt: skip
    return features, Stage("\n".join(lines), posed, "built"), truth


def total_of(frame, n):
    return System(np.zeros(frame.size, int), np.full(frame.size, FAR), [(np.ones(frame.size, int), int(n))])


def second_table(rng, level, features):
    """Draw another table with the same level: lines of the model, and the enumerator's form."""
    frame = frames.Frame(("other",), (("u", "v"),), {}, "strings")
    y = rng.integers(0, 4, 2)
    features.add("second table")
    unknown = data_models.Parameters([], {level: 1}, lambda p, d: np.full(2, p[level]), level=level)
    law = data_models.counts(rng, frame, ["Poisson"])
    terms = [Term((0, 1), lambda t: -np.abs(y - t).sum(axis=1))]
    lines = [f'other = ppd.Release({frame.table_code(y)}, ppd.GeneralizedLaplace(inv.total(), epsilon=1))',
             f'ppd.PartiallyPrivate("y", pm.Poisson.dist(pm.math.exp({level}), shape=2), release=other)']  # fmt: skip
    return lines, Posed(frame, total_of(frame, y.sum()), terms, law, unknown)


def change(rng, stage, features, truth, name):
    """Return a change after building, or None if no change applies."""
    posed = copy.copy(stage.posed)
    posed.data, posed.fixed, posed.given = dict(posed.data), dict(posed.fixed), dict(posed.given)
    posed.dependents = list(posed.dependents)
    redraws = [one for d in posed.dependents for one in d.redraw]
    redraws += [lambda r, n=n, f=f: {n: f(r)} for n, f in posed.unknown.redraw.items()]
    observable = {n: f for d in posed.dependents for n, f in d.observable.items() if n in posed.latent()}
    options = ["copy", "copy", "pickle", "later dependent", "later dependent"]
    options += (
        ["set_data"] * 4 * bool(redraws) + ["do"] * 2 * ("slope" in posed.priors) + ["observe"] * 3 * bool(observable)
    )
    if posed.unknown.outer:
        options = ["later potential"]
    kind = pick(rng, options)
    features.add(f"change: {kind}")
    table = truth.reshape(posed.frame.shape)
    if kind == "set_data":
        new = pick(rng, redraws)(rng)
        posed.data |= new
        if "n" in new:
            posed.system = total_of(posed.frame, new["n"])
        values = ", ".join(f"{name!r}: np.array({shown(value)})" for name, value in new.items())
        return Stage(f"pm.set_data({{{values}}}, model=model)", posed, kind)
    if kind == "copy":
        return Stage("model = model.copy()", posed, kind)
    if kind == "pickle":
        return Stage("model = cloudpickle.loads(cloudpickle.dumps(model))", posed, kind)
    if kind == "do":
        posed.fixed["slope"] = float(np.round(rng.normal(), 2))
        return Stage(f'model = pm.do(model, {{"slope": {posed.fixed["slope"]}}})', posed, kind)
    if kind == "observe":
        name = pick(rng, list(observable))
        posed.given[name] = np.asarray(observable[name](rng, table))
        return Stage(f"model = pm.observe(model, {{{name!r}: np.array({shown(posed.given[name])})}})", posed, kind)
    makers = [dependents.potential] if kind == "later potential" else dependents.MAKERS
    one = pick(rng, makers)(rng, posed.frame, table, name)
    if one.several and "marginalize=True" in stage.code:
        return None
    posed.dependents.append(one)
    posed.data |= one.data
    features.add(f"late dependent: {one.kind}")
    table = f"model[{posed.table!r}] if {posed.table!r} in model.named_vars else x"
    lines = ["with model:", f"    x = {table}", *(f"    {line}" for line in one.code)]
    return Stage("\n".join(lines), posed, kind)
