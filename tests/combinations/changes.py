"""Random changes of a model after it is built."""

import copy

import numpy as np

from combinations import dependents
from combinations.composition import Stage
from combinations.frames import pick, shown
from combinations.posteriors import total_of


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
