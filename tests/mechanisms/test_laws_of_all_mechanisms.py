"""Every mechanism with every option: total mass of `logp` and `dist`, and invariance under relabelling.

Outputs of integer mechanisms are enumerated. Noise without bounds has outputs y = x + z with A z = 0, for the same z
around every table; within bounds, outputs are the tables that satisfy them, and the density is a probability. The total
is the same for every confidential table.
"""

import itertools

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from grids import box
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.lattice import kernel
from ppdinf.mechanisms import DirichletMultinomial, DiscreteGaussian, DoubleGeometric, Staircase

inv = ppd.invariants
LABELS = {"a": ["x", "y"], "b": ["u", "v", "w"]}
TOTAL, A, B = inv.total(), inv.margin("a"), inv.margin("b")
NONNEGATIVE = inv.nonnegative()
PUBLIC = {
    "nothing": inv.Public(),
    "total": TOTAL,
    "rows": A,
    "both margins": A & B,
    "weights": inv.margin("a") & inv.cells({"a": "x", "b": "w"}),
}
BOUNDS = {
    "nonnegative": NONNEGATIVE,
    "between": inv.between(0, 3),
    "ordered": NONNEGATIVE & inv.at_least("x", "y", dim="a"),
}
TABLES = np.array([[[2, 0, 1], [1, 1, 0]], [[2, 1, 0], [1, 0, 1]], [[3, 0, 0], [0, 1, 1]], [[1, 1, 1], [2, 0, 0]]])
LARGE = {"b": ["u", "v", "w"]}


def table(counts, labels=LABELS):
    return xr.DataArray(np.asarray(counts), dims=list(labels), coords=labels)


def dirichlet(around):
    return DirichletMultinomial(around, "1/2")


def unbounded(public):
    return {
        "l1": ppd.GeneralizedLaplace(public, 3),
        "l2": ppd.GeneralizedLaplace(public, 4, norm="l2"),
        "gaussian": ppd.GeneralizedGaussian(public, sigma="1/2"),
        "gaussian, rho": ppd.GeneralizedGaussian(public, rho=2),
        "geometric": ppd.Conditioned(public, DoubleGeometric(3)),
        "staircase": ppd.Conditioned(public, Staircase(4, 2, 1)),
        "conditioned gaussian": ppd.Conditioned(public, DiscreteGaussian("1/2")),
    }


def bounded(public):
    options = {
        "geometric": ppd.Conditioned(public, DoubleGeometric("1/2")),
        "staircase": ppd.Conditioned(public, Staircase(1, 3, 2)),
        "suppression": ppd.Suppression(public),
    }
    for loss, base in itertools.product(("l1", "l2"), (None, dirichlet([2, 0, 1, 3, 0, 1]))):
        name = f"wasserstein, {loss}" + ", dirichlet" * (base is not None)
        options[name] = ppd.WassersteinExponential(public, 5, 4, "x", base, loss)
    options["wasserstein, own loss"] = ppd.WassersteinExponential(public, 5, 4, "x", None, largest)
    return options


def largest(y, x):
    return float(np.abs(y - x).max())


UNBOUNDED = [(name, kind) for name in PUBLIC for kind in unbounded(TOTAL)]
BOUNDED = [
    (sums, bounds, kind)
    for sums in ("total", "rows", "both margins")
    for bounds in BOUNDS
    for kind in bounded(TOTAL & NONNEGATIVE)
]
CELLS = {
    "transition": ppd.Transition(ppd.counts.truncated_geometric(4, 1).matrix),
    "two-stage": ppd.counts.TwoStage(1, 4, measured=[3, 1, 1, 2]),
}


def agreeing(public, tables=TABLES):
    """Tables with the public sums of the first table, and within its bounds."""
    system = public.on(table(tables[0]))
    flat = box(0, 4, 6)
    inside = (flat @ system.A.T == system.values).all(axis=1) if system.A.shape[0] else np.ones(len(flat), dtype=bool)
    if system.limits.size:
        inside &= (flat @ system.B.T >= system.limits).all(axis=1)
    return flat[inside]


def density(mechanism, outputs, x):
    """Log density of each output, by the mechanism bound once."""
    system = mechanism.public.on(table(np.reshape(x, (2, 3))))
    settled, cells = mechanism.on(system), np.asarray(x).ravel()
    return np.array([settled.log_weight(system, y, cells) for y in outputs])


def some(tables, number=4):
    return tables[:: max(1, len(tables) // number)][: number + 1]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(("public", "kind"), UNBOUNDED)
def test_noise_without_bounds_has_the_same_total_for_all_tables(public, kind):
    mechanism = unbounded(PUBLIC[public])[kind]
    basis = kernel(mechanism.public.on(table(TABLES[0])).A).basis.toarray()
    reach = {2: 12, 3: 5, 4: 3, 5: 2, 6: 2}[basis.shape[1]]
    z = box(-reach, reach, basis.shape[1]) @ basis.T
    if len(z) > 4_000:
        z = z[np.argsort(np.abs(z).sum(axis=1), kind="stable")[:4_000]]
    totals = [logsumexp(density(mechanism, x.ravel() + z, x)) for x in some(agreeing(mechanism.public), 2)]
    assert np.ptp(totals) < 1e-10
    log_constant = mechanism.log_constant(mechanism.public.on(table(TABLES[0])))
    if log_constant is None:  # narrow l2 noise under sums that cross
        assert (public, kind) == ("both margins", "l2")
        return
    # the law of each table is the law around zero: the same outputs are enumerated for all tables
    x = TABLES[0]
    first = mechanism.logp(table(x + z[1].reshape(2, 3)), table(x))
    assert first == pytest.approx(density(mechanism, x.ravel() + z[1:2], x)[0] - log_constant, abs=1e-10)
    assert totals[0] == pytest.approx(log_constant, abs=0.05)  # the outputs that are not listed


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("sums", "bounds", "kind"), BOUNDED)
def test_releases_within_bounds_have_the_same_total_for_all_tables(sums, bounds, kind):
    public = PUBLIC[sums] & BOUNDS[bounds]
    mechanism = bounded(public)[kind]
    start = [[2, 0, 1], [1, 0, 0]]
    outputs = agreeing(public, [np.array(start)])
    totals = [logsumexp(density(mechanism, outputs, x.reshape(2, 3))) for x in some(outputs, 2)]
    assert totals == pytest.approx(np.zeros(len(totals)), abs=1e-9)


@pytest.mark.parametrize("kind", CELLS)
def test_cells_released_independently(kind):
    """The likelihood of two stages also contains the noisy sums, which are the same for tables with one histogram."""
    mechanism = CELLS[kind]
    outputs = box(0, 3, 3)
    tables = [[0, 1, 3], [3, 0, 1], [1, 3, 0]] if kind == "two-stage" else [[0, 1, 3], [2, 2, 2], [3, 0, 0]]
    totals = []
    for x in tables:
        system = mechanism.public.on(table(x, LARGE))
        settled = mechanism.on(system)
        totals.append(logsumexp([settled.log_weight(system, y, np.array(x)) for y in outputs]))
    assert np.ptp(totals) < 1e-10
    if kind == "transition":
        assert totals == pytest.approx(np.zeros(3), abs=1e-10)


EVERY = [
    *((f"{public}, {kind}", mechanism) for public in PUBLIC for kind, mechanism in unbounded(PUBLIC[public]).items()),
    *(
        (f"{sums}, {limits}, {kind}", mechanism)
        for sums in ("total", "both margins")
        for limits in BOUNDS
        for kind, mechanism in bounded(PUBLIC[sums] & BOUNDS[limits]).items()
    ),
    ("subspace laplace", ppd.SubspaceLaplace(A, 1)),
    ("subspace laplace, extended", ppd.SubspaceLaplace(A & B, 1, method="extended")),
    ("subspace laplace, grid", ppd.SubspaceLaplace(A, 1, grid="1/8")),
    ("subspace gaussian", ppd.SubspaceGaussian(A, 1, "1e-3")),
    ("subspace gaussian, total", ppd.SubspaceGaussian(TOTAL, 1, "1e-3")),
    ("k-norm", ppd.KNorm(B, 1)),
    ("k-norm, added", ppd.KNorm(A, "0.25", neighbours="added")),
    ("correlated", ppd.CorrelatedGaussian(B, 1, "1e-6")),
    ("transition", CELLS["transition"]),
]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(("name", "mechanism"), EVERY, ids=[name for name, _ in EVERY])
def test_axes_labels_and_statements_in_another_order(name, mechanism):
    """Transposed, relabelled, with statements reversed; base measures and extended noise depend on the order."""
    x, y = table([[2, 0, 1], [1, 0, 1]]), table([[1, 1, 1], [2, 0, 0]])
    if not mechanism.public.on(x).check(y).agrees.all():
        y = table([[1, 0, 2], [2, 0, 0]])  # keeps both margins
    usual = mechanism.logp(y, x)
    order = {"a": ["y", "x"], "b": ["w", "u", "v"]}
    if not ("dirichlet" in name or "extended" in name):
        assert mechanism.logp(y.T, x.T) == pytest.approx(usual, abs=1e-9)
        assert mechanism.logp(y.sel(order), x.sel(order)) == pytest.approx(usual, abs=1e-9)
    statements = tuple(reversed(tuple(mechanism.public.statements)))
    other = (
        ppd.mechanisms.Mechanism.from_dict(mechanism.to_dict(), inv.Public(statements))
        if "own" not in name
        else mechanism
    )
    assert other.logp(y, x) == pytest.approx(usual, abs=1e-9)
    assert np.isfinite(usual) or "suppression" in name or "ordered" in name or "both margins" in name


QUERY = [[1, 1, 0, 0, 0, 0], [0, 1, 1, 2, 0, 1]]
LAPLACE = {"kind": "subspace-laplace", "epsilon": "1", "grid": "1/8", "neighbours": "added", "method": "extended"}
SPHERICAL = {"kind": "subspace-gaussian", "epsilon": "1", "delta": "1/1000", "query": QUERY, "neighbours": "replaced"}
EARLIER = {"previous": [2, 0, 1, 3, 0, 1], "concentration": "1/2", "pseudo_count": "1/2"}
WASSERSTEIN = {"kind": "wasserstein-exponential", "epsilon": "5", "sensitivity": "4", "secrets": "x", "loss": "l2"}
STAGES = {"kind": "two-stage", "epsilon": "1", "n": 4, "split": "1/4", "constructor": "ranked",
          "privatizer": "cumulative", "postprocessing": "isotonic", "measured": [3, 1, 1, 2],
          "drawn": [0, 2, 3]}  # fmt: skip
STATED = [
    (ppd.GeneralizedLaplace(TOTAL, 0.1), {"kind": "generalized-laplace", "epsilon": "1/10", "norm": "l1"}),
    (ppd.GeneralizedGaussian(TOTAL, rho="1/50"),
     {"kind": "generalized-gaussian", "calibration": "zcdp", "rho": "1/50", "sigma": "5"}),
    (ppd.GeneralizedGaussian(TOTAL, 1, "1e-4", calibration="exact"),
     {"kind": "generalized-gaussian", "calibration": "exact", "epsilon": "1", "delta": "1/10000"}),
    (ppd.Conditioned(TOTAL, Staircase(1, 3)), {"kind": "conditioned", "base": {
        "name": "staircase", "epsilon": "1", "sensitivity": "3", "step": "1"}}),
    (ppd.WassersteinExponential(TOTAL, 5, 4, "x", loss="l2"), WASSERSTEIN),
    (ppd.WassersteinExponential(TOTAL & NONNEGATIVE, 5, 4, "x", dirichlet([2, 0, 1, 3, 0, 1]), "l2"),
     WASSERSTEIN | {"base_measure": EARLIER}),
    (ppd.Suppression(TOTAL), {"kind": "suppression"}),
    (ppd.Transition([[0.5, 0.5], [0.25, 0.75]]), {"kind": "transition", "matrix": [[0.5, 0.5], [0.25, 0.75]]}),
    (ppd.Transition([[1.0, 0.0], [0.0, 1.0]], require_guarantee=False),
     {"kind": "transition", "matrix": [[1.0, 0.0], [0.0, 1.0]], "require_guarantee": False}),
    (ppd.counts.TwoStage(1, 4, "1/4", measured=[3, 1, 1, 2], drawn=[0, 2, 3]), STAGES),
    (ppd.SubspaceLaplace(TOTAL, 1, "extended", neighbours="added", grid="1/8"), LAPLACE),
    (ppd.SubspaceGaussian(TOTAL, 1, "1e-3", query=QUERY, grid=None),
     SPHERICAL | {"method": "projected", "calibration": "analytic"}),
    (ppd.CorrelatedGaussian(TOTAL, 1, "1e-3", query=QUERY, grid=None), SPHERICAL | {"kind": "correlated-gaussian"}),
    (ppd.KNorm(TOTAL, "0.25"), {"kind": "k-norm", "epsilon": "1/4", "grid": "auto", "neighbours": "replaced"}),
]  # fmt: skip


@pytest.mark.parametrize(("mechanism", "stated"), STATED, ids=[mechanism.kind for mechanism, _ in STATED])
def test_files_state_mechanisms(mechanism, stated):
    again = ppd.mechanisms.Mechanism.from_dict(stated, mechanism.public)
    for one in (mechanism, again):
        assert list(one.to_dict().items()) == list(stated.items())
    if type(mechanism).__eq__ is not object.__eq__:  # matrices are not compared
        assert again == mechanism
        assert hash(again) == hash(mechanism)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", ["geometric", "wasserstein, l1", "wasserstein, l2", "wasserstein, l2, dirichlet"])
def test_dist_has_the_density_of_logp(kind):
    """``mechanism.dist`` in a model, at tables between which the normalizer differs."""
    mechanism = bounded(TOTAL & NONNEGATIVE)[kind]
    tables = np.array([[[2, 0, 1], [1, 0, 1]], [[5, 0, 0], [0, 0, 0]], [[0, 1, 1], [1, 1, 1]]])
    with pm.Model(coords=LABELS) as model:
        x = pm.Poisson("x", 1.0, dims=("a", "b"))
        y = mechanism.dist(x)
    released = tables[2]
    found = [float(pm.logp(y, released).eval({x: counts})) for counts in tables]
    assert found == pytest.approx([mechanism.logp(table(released), table(counts)) for counts in tables], abs=1e-9)
    assert model.coords


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", ["l1", "l2", "gaussian", "staircase"])
def test_posteriors_do_not_depend_on_the_order_of_axes_and_labels(kind):
    """The log density of a model at the same rates, of a release and of the same release in another order."""
    y = table([[4, -1, 2], [0, 3, 1]])
    mechanism = unbounded(TOTAL & A)[kind]
    rate = table([[1.0, 2.0, 0.5], [0.7, 1.5, 3.0]])
    found = []
    for other in (y, y.T, y.sel(a=["y", "x"], b=["w", "u", "v"])):
        release = ppd.Release(other, mechanism)
        with pm.Model(coords=release.coords) as model:
            level = pm.Normal("level", 0, 1)
            ordered = rate.sel({dim: release.coords[dim] for dim in release.dims}).transpose(*release.dims).values
            ppd.PartiallyPrivate("t", pm.Poisson.dist(ordered * pm.math.exp(level)), release=release)
        at = model.initial_point() | {"level": np.array(0.3)}
        found.append(float(model.compile_logp()(at)))
    assert found == pytest.approx([found[0]] * 3, abs=1e-8)
