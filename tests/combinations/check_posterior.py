"""Density, gradient and draws of a model against the enumerator."""

import numpy as np
from scipy.special import logsumexp

from combinations.composition import ALARM, HEADER, FaultError, ReportedError, run_code
from combinations.formulas import slope


class Density:
    """Return log density and gradient of a model, with noise scales integrated out by the trapezoidal rule."""

    def __init__(self, model, posed, gradient):
        self.posed = posed
        self.points = []  # at which it was asked for
        names = [v.name for v in model.value_vars]
        self.sampled = posed.table in names
        self.scales = [name for name in names if "noise_scale" in name or "noise_shift" in name]
        outputs = [model.logp()]
        self.continuous = [v.name for v in model.continuous_value_vars if v.name not in self.scales]
        self.gradient = bool(gradient and self.continuous and not self.scales)
        if self.gradient:
            outputs.append(model.dlogp([model[name] for name in self.continuous]))
        self.function = model.compile_fn(outputs, inputs=model.value_vars, on_unused_input="ignore", point_fn=True)
        self.names = names
        self.dtypes = {v.name: v.dtype for v in model.value_vars}

    def point(self, point, table):
        given = {name: value for name, value in point.items() if name in self.names}
        if self.sampled:
            given[self.posed.table] = np.asarray(table).reshape(self.posed.frame.shape)
        unknown = set(self.names) - set(given) - set(self.scales)
        if unknown:
            raise FaultError(f"variables {sorted(unknown)} of the model are not expected")
        return {name: np.asarray(value).astype(self.dtypes[name]) for name, value in given.items()}

    def __call__(self, point, table):
        """Return the value, and the gradient or None."""
        given = self.point(point, table)
        self.points.append(point)
        if not self.scales:
            found = self.function(given)
            return float(found[0]), np.asarray(found[1]) if self.gradient else None
        grid = np.arange(-9, 5, 0.04)
        values = [float(self.function(given | {self.scales[0]: np.asarray(at)})[0]) for at in grid]
        return float(logsumexp(values)), None


def known(point, density):
    """Return a point without the values that the model has marginalized."""
    optional = {name for one in density.posed.dependents for name in one.optional}
    return {name: value for name, value in point.items() if name in density.names or name not in optional}


def close(a, b, tolerance=2e-6):
    if np.isneginf(a) or np.isneginf(b):
        return np.isneginf(a) and np.isneginf(b)
    return abs(a - b) <= tolerance * max(1.0, abs(b) / 100)


def check_density(model, stage, truth, rng, gradient, before=None):
    """Check three points and an impossible table; `before` is the constant of the previous stage."""
    density = Density(model, stage.posed, gradient)
    try:
        return density, compare_density(density, stage, truth, rng, before)
    except FaultError:
        problems = [] if density.sampled else beyond_windows(model, density.points[:3])
        if problems and not any(label in problems[0] for label in stage.posed.free()):  # these need no window
            raise ReportedError(problems[0]) from None
        raise


def compare_density(density, stage, truth, rng, before):
    """Return the route that the density takes, and its constant."""
    posed = density.posed
    offsets, shown = [], []
    tables = []
    for number in range(3):
        point = known(posed.point(rng, truth), density)
        table = None
        if density.sampled:
            listed = posed.listed(point)[0]
            fits = np.isfinite(listed.log_weight_of(truth))
            table = truth if fits and (number == 0 or posed.exchange) else listed.draw(1, rng)[0]
            tables.append(table)
        expected = posed.log_density(point, table)
        found, slopes = density(point, table)
        if not np.isfinite(expected):
            if number == 0 or np.isfinite(found):
                raise FaultError(f"log density at {point}, {table}: {found}, expected {expected}")
            continue
        offsets.append(found - expected)
        shown.append((point, None if table is None else table.tolist(), found, expected))
        again, _ = density(point, table)
        if again != found:
            raise FaultError(f"log density at {point} is {found} and then {again}")
        if slopes is not None and number == 0:
            check_gradient(density, point, table, slopes)
    precision = 1e-3 if density.scales else 2e-6
    if not all(close(found, expected + offsets[0], precision) for _, _, found, expected in shown):
        raise FaultError("differences of log density are wrong (point, table, found, expected):\n"
                         + "\n".join(map(str, shown)))  # fmt: skip
    route = "sampled" if density.sampled else "summed"
    if before and before[0] == route and not density.scales and not close(before[1], offsets[0], 1e-5):
        raise FaultError(f"after {stage.kind} the log density has changed by {offsets[0] - before[1]}")
    if density.sampled and not posed.exchange:
        point = shown[0][0]
        for _ in range(2):
            moved = tables[-1].copy()
            moved[int(rng.integers(moved.size))] += int(rng.choice([-1, 1]))
            found, expected = density(point, moved)[0], posed.log_density(point, moved)
            if not close(found, expected + offsets[0], precision):
                raise FaultError(f"log density at {point}, {moved.tolist()}: {found}, expected {expected + offsets[0]}")
    return route, offsets[0]


def check_gradient(density, point, table, slopes):
    sizes = [np.size(point[name]) for name in density.continuous]
    cut = np.cumsum(sizes)[:-1]

    def expected(flat):
        parts = zip(density.continuous, np.split(flat, cut), strict=True)
        moved = {name: part.reshape(np.shape(point[name])) for name, part in parts}
        return density.posed.log_density(point | moved, table)

    flat = np.concatenate([np.ravel(point[name]) for name in density.continuous]).astype(float)
    right = slope(expected, flat)
    if not np.allclose(slopes, right, rtol=2e-5, atol=2e-5 * max(1.0, np.abs(right).max(initial=0))):
        raise FaultError(f"gradient at {point}, {table}: {slopes.tolist()}, expected {right.tolist()}")


def repeated(point, number):
    """Return a posterior whose draws are all the same."""
    return as_posterior({name: np.broadcast_to(v, (1, number, *np.shape(v))) for name, v in point.items()})


def as_posterior(draws):
    """Return draws of shape (chain, draw, ...) as `pm.sample` does."""
    import xarray as xr

    return xr.DataTree.from_dict({
        "posterior": xr.Dataset({
            name: (("chain", "draw", *(f"{name}_{k}" for k in range(value.ndim - 2))), value)
            for name, value in draws.items()
        })
    })  # fmt: skip


def beyond_windows(model, points):
    """Return the sentences of `ppdinf.diagnose` on counts outside of the windows, at some points."""
    from ppdinf.diagnostics.problems import window_problems

    return [problem for point in points for problem in window_problems(repeated(point, 1), model)]


def check_draws(model, density, truth, rng, number=400):
    """Check tables given everything else, by chi-square."""
    import ppdinf as ppd

    posed = density.posed
    point = known(posed.point(rng, truth), density)
    listed, _ = posed.listed(point)
    if density.scales:
        return
    if density.sampled:
        draws = moved_once(model, density, point, listed.draw(number, rng), rng)
    else:
        found = ppd.sample_confidential(repeated(point, number), model, name=posed.table, random_seed=1)
        if found.dims[2:] != posed.frame.dims:
            raise FaultError(f"draws have the dimensions {found.dims}")
        draws = found.values.reshape(number, -1)
    p = listed.p_value(draws)
    if p < ALARM:
        mean, sd = listed.moments()
        raise FaultError(f"draws at {point}: p = {p:.1e}; means {draws.mean(axis=0).tolist()}, expected "
                         f"{mean.round(3).tolist()}, sd {sd.round(3).tolist()}")  # fmt: skip


def moved_once(model, density, point, starts, rng):
    """Check one step from posterior tables: results are independent, with the same distribution."""
    from ppdinf.errors import InvariantError
    from ppdinf.samplers import LatticeGibbs

    table, shape = density.posed.table, density.posed.frame.shape
    step = LatticeGibbs([model[table]], model=model, rng=np.random.default_rng(int(rng.integers(2**31))))
    step.setup_chain(np.random.default_rng(1), 0, len(starts))

    def moved(start):
        return np.ravel(step.step(density.point(point, start.reshape(shape)))[0][table])

    try:
        return np.array([moved(start) for start in starts])
    except InvariantError as error:
        if "outside of their windows" not in str(error):
            raise
        raise reported_chain(model, table, moved) from error


def reported_chain(model, table, moved, number=400):
    """Return the report of `ppdinf.diagnose` on a chain within windows that posterior tables exceed, or a fault."""
    from ppdinf.diagnostics.problems import window_problems

    start = model[table].owner.op.start
    chain = [start.ravel()]
    for _ in range(number):
        chain.append(moved(chain[-1]))
    draws = np.array(chain[1:]).reshape(number, *start.shape)
    problems = window_problems(as_posterior({table: draws[np.newaxis]}), model)
    return ReportedError(problems[0]) if problems else FaultError("a posterior beyond its windows is not reported")


def check_sampling(model, density, seed):
    """Check that sampling starts, and that every drawn table is listed."""
    import pymc as pm

    with model:
        idata = pm.sample(3, tune=3, chains=1, cores=1, random_seed=seed, progressbar=False, quiet=True,
                          compute_convergence_checks=False)  # fmt: skip
    if density.sampled:
        for number in range(3):
            values = {name: v.values[0, number] for name, v in idata.posterior.data_vars.items()}
            table = values.pop(density.posed.table)
            listed, _ = density.posed.listed(values)
            if not np.isfinite(listed.log_weight_of(table)):
                raise FaultError(f"pm.sample draws {table.tolist()}, given {values}")


def check_posterior(composition, *, gradient=True, draws=False, sampling=False):
    """Yield the number of stages that ran."""
    namespace = {}
    exec(HEADER, namespace)
    before = None
    for number, stage in enumerate(composition.stages):
        yield number + 1
        run_code(stage, namespace)
        model = namespace["model"]
        rng = np.random.default_rng([composition.seed, number])
        density, before = check_density(model, stage, composition.truth, rng, gradient and number == 0, before)
        if sampling:
            check_sampling(model, density, composition.seed)
        if draws and number == len(composition.stages) - 1:
            check_draws(model, density, composition.truth, rng)
