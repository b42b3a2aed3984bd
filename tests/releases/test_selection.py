"""Parts of releases: public sums, noise and posteriors against enumeration."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from grids import box, tables
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.errors import CountError, InvariantError, LabelError, ModelError, PrivacyError, ReleaseFileError
from ppdinf.invariants import (  # fmt: skip
    Public,
    at_least,
    between,
    cells,
    covariates,
    groups,
    hierarchy,
    inequality,
    labels,
    linear,
    margin,
    nonnegative,
    total,
    unit,
    zeros,
)
from ppdinf.releases.selection import Selection

NOISY = xr.DataArray(
    [[4, -1, 2], [0, 3, 1]],
    dims=("area", "month"),
    coords={"area": ["u", "v"], "month": [1, 2, 3], "season": ("month", list("wws")), "size": ("area", [1, 2])},
)


def laplace(public, **options):
    return ppd.Release(NOISY, ppd.GeneralizedLaplace(public, **{"epsilon": "1/2", **options}))


STATEMENTS = [
    total(),
    margin("month"),
    margin("area"),
    groups("season"),
    margin("area", "season"),
    hierarchy("season", "month"),
    groups("month", {1: "q", 2: "q", 3: "r"}),
    margin("month", weights="size"),
    cells({"month": [2, 3], "area": "u"}),
    cells({"season": "s"}),
    zeros({"month": 1, "area": ["v"]}),
    linear([[1, 0, 0, -1, 0, 0], [0, 2, 0, 0, 1, 0]], ["first", "second"]),
    nonnegative() & unit("visit", contributions=2) & covariates("size", "season") & labels("month", [1, 2, 3]),
]
PARTS = [
    {"month": 1}, {"month": [3]}, {"month": slice(1, 2)}, {"area": "v"}, {"area": ["v"], "month": [3, 2]},
    {"month": [2, 1], "area": ["v", "u"]},
]  # fmt: skip


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("seed", range(12))
def test_a_part_has_the_sums_and_the_noise_of_its_cells(seed):
    """Against all noise in {-2, ..., 2}^6.

    A part is refused if and only if a cut sum differs between noises of the part that keep its whole sums. The noise of
    an accepted part is independent of the other cells.
    """
    rng = np.random.default_rng(seed)
    public = Public()
    for k in rng.choice(len(STATEMENTS), size=rng.integers(1, 4), replace=False):
        public &= STATEMENTS[k]
    table = NOISY * 0 if any(statement.kind == "zeros" for statement in public) else NOISY
    release, z = ppd.Release(table, ppd.GeneralizedLaplace(public, epsilon=1)), box(-2, 2, 6)
    possible = z[~(release.kept.A @ z.T).any(axis=0)]
    order = xr.DataArray(np.arange(6).reshape(2, 3), coords=NOISY.coords, dims=NOISY.dims)
    for part in PARTS:
        within = order.sel(part).values.ravel()
        alone = possible.copy()
        rows, outside = release.kept.A.toarray(), np.setdiff1d(np.arange(6), within)
        alone[:, outside] = 0
        whole = ~rows[:, outside].any(axis=1)
        of_part = box(-2, 2, within.size)
        of_part = of_part[~(rows[whole][:, within] @ of_part.T).any(axis=0)]
        cut = (rows[:, within] @ of_part.T).any()
        weights_dropped = STATEMENTS[7].statements[0] in public.statements and part.get("area") == "v"
        if cut or weights_dropped:
            with pytest.raises(InvariantError, match=r"cuts the public sum|selection drops"):
                release.sel(part)
            continue
        found = release.sel(part)
        assert not (rows @ alone.T).any()
        xr.testing.assert_identical(found.table.drop_attrs(), release.table.sel(part, drop=True))
        assert not (found.kept.A @ of_part.T).any()
        assert {tuple(row) for row in of_part.tolist()} == {tuple(row) for row in alone[:, within].tolist()}
        assert (found.public.A @ found.table.values.ravel() == found.public.values).all()
        assert found.guarantee.unit == release.guarantee.unit


def test_the_noise_of_a_part_has_the_marginal_law():
    """The law of complete noise, summed over all other cells; without the sum of the month it differs."""
    release, x = laplace(total() & margin("month")), NOISY.copy(data=[[2, 1, 0], [1, 2, 3]])
    part, mechanism, of_part = release.sel(month=2), release.mechanism, x.sel(month=2, drop=True)
    z = box(-2, 2, 6)
    z = z[~(release.kept.A @ z.T).any(axis=0)]
    weight = np.exp([mechanism.logp(x + step.reshape(2, 3), x) for step in z])
    some = np.arange(-2, 3)
    marginal = np.array([weight[z[:, 1] == value].sum() for value in some])
    own_law = np.exp([part.mechanism.logp(of_part + np.array([value, -value]), of_part) for value in some])
    np.testing.assert_allclose(marginal / marginal.sum(), own_law / own_law.sum(), rtol=1e-12)
    assert part.mechanism.logp(of_part + np.array([1, 0]), of_part) == -np.inf
    without = np.exp(-0.5 * np.abs(some))  # noise of one cell without the public sum
    assert np.abs(without / without.sum() - marginal / marginal.sum()).max() > 0.05


def density(release, rate):
    with pm.Model(coords=release.coords) as model:
        mu = pm.Flat("mu")
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.math.exp(mu), shape=release.shape), release, marginalize=True)
    value = model.compile_logp(mode="FAST_COMPILE")
    return np.array([float(value({"mu": at})) for at in rate])


@pytest.mark.quick_cases(0)
def test_posteriors_of_a_part_and_of_the_whole():
    """The density of independent months is the product of their parts; a part that cuts a sum has another density."""
    release, rate = laplace(margin("month") & nonnegative()), np.array([-0.5, 0.3, 1.2])
    whole, parts = density(release, rate), [density(release.sel(month=month), rate) for month in (1, 2, 3)]
    np.testing.assert_allclose(np.diff(whole), np.diff(np.sum(parts, axis=0)), atol=1e-9)
    x = tables([0, 0], [4, 4], [[1, 1]], [2])
    log_joint = [stats.poisson.logpmf(x, np.exp(at)).sum(axis=1) - np.abs(x - [-1, 3]).sum(axis=1) / 2 for at in rate]
    np.testing.assert_allclose(np.diff(parts[1]), np.diff([logsumexp(each) for each in log_joint]), atol=1e-9)
    silent = ppd.Release(NOISY.sel(month=2, drop=True), ppd.GeneralizedLaplace(Public(), epsilon="1/2"))
    assert np.abs(np.diff(density(silent, rate)) - np.diff(parts[1])).max() > 0.1


def test_sums_that_are_known_independently_of_the_noise():
    """The noise of each cell is independent, but a total that was published otherwise links the cells."""
    noise = ppd.GeneralizedLaplace(Public(), epsilon=1)
    by_month = ppd.Release(NOISY, noise, public=margin("month").on(NOISY, values=[9, 3, 4]))
    assert by_month.sel(month=[3, 1]).public.values.tolist() == [4, 9]
    assert by_month.sel(month=2).kept.A.shape == (0, 2)
    linked = ppd.Release(NOISY, noise, public=total().on(NOISY, values=[11]))
    with pytest.raises(InvariantError, match="cuts the public sum 'total'"):
        linked.sel(month=2)
    implied = ppd.Release(NOISY, noise, public=(total() & margin("month")).on(NOISY, values=[16, 9, 3, 4]))
    assert implied.sel(month=2).public.values.tolist() == [3]
    cases = ppd.Release(NOISY, noise, public=at_least("u", "v", dim="area").on(NOISY))
    assert cases.sel(month=2).public.limits.tolist() == [0]
    with pytest.raises(InvariantError, match="cuts the public bound 'u >= v at area=u, month=1'"):
        cases.sel(area="u")
    bound = ppd.Release(NOISY, noise, public=inequality([[1, 1, 0, 0, 0, 0]], [2], ["both"]).on(NOISY))
    assert bound.sel(area=["u"]).public.bound_names == ["both"]


def test_a_part_is_post_processing_and_its_file_states_this(tmp_path):
    mechanism = ppd.GeneralizedLaplace(margin("month") & covariates("size", "season"), epsilon="1/2")
    release = mechanism.release(xr.DataArray([[4, 1, 2], [0, 3, 1]], dims=NOISY.dims, coords=NOISY.coords))
    part = release.sel(month=[3, 2]).sel(month=2)
    assert part.covariate("size").values.tolist() == [1, 2]
    assert part.provenance == "drawn"
    assert part.guarantee.loss(1) == release.guarantee.loss(1)
    assert "a part of a release (month = 2)" in part.guarantee.describe()
    part.save(tmp_path / "part.ppd")
    again = ppd.read_release(tmp_path / "part.ppd")
    assert again.table.identical(part.table)
    assert again.guarantee == part.guarantee
    assert again.selection.mechanism == mechanism
    assert again.selection.labels == {"month": (2,)}
    ledger = ppd.privacy.Ledger(epsilon=1)
    ledger.add(again)
    assert ledger.remaining == ppd.privacy.Ledger(epsilon="1/2").budget
    stated = laplace(margin("month")).sel(month=2)
    assert stated.provenance == "stated"
    stated.save(tmp_path / "stated.ppd")
    assert ppd.read_release(tmp_path / "stated.ppd").guarantee == stated.guarantee
    calibrated = ppd.Release(NOISY, ppd.GeneralizedGaussian(margin("month"), 1, "1e-6", calibration="exact"))
    calibrated.sel(month=[1]).save(tmp_path / "calibrated.ppd")
    assert ppd.read_release(tmp_path / "calibrated.ppd").mechanism.sigma == calibrated.mechanism.sigma
    for forged, message in [
        (Selection(mechanism, {"month": ("2 \x00",)}), "a selected label"),
        (Selection(mechanism, {"area": ("v",)}), "other labels"),
        (Selection(ppd.GeneralizedLaplace(margin("month"), epsilon=1), {"month": (2,)}), "another mechanism"),
    ]:
        part.selection = forged
        part.save(tmp_path / "forged.ppd", overwrite=True)
        with pytest.raises(ReleaseFileError, match=message):
            ppd.read_release(tmp_path / "forged.ppd")


def test_calibrated_noise_of_a_part_is_zcdp():
    release = ppd.Release(NOISY, ppd.GeneralizedGaussian(margin("month"), 1, "1e-6", calibration="exact"))
    part = release.sel(month=1)
    assert part.mechanism.sigma == release.mechanism.sigma
    assert part.guarantee.variant == "zcdp"
    staircase = ppd.Release(NOISY, ppd.Conditioned(margin("month"), noise=ppd.laws.Staircase(1, 2)))
    assert staircase.sel(month=1).likelihood.normaliser is None


@pytest.mark.parametrize(
    ("release", "chosen", "error", "message"),
    [
        (lambda: laplace(total()), {"month": 1}, InvariantError, "cuts the public sum 'total'"),
        (lambda: laplace(margin("month"), norm="l2"), {"month": 1}, ModelError, "one common scale"),
        (lambda: ppd.KNorm(margin("month"), epsilon=1).release(abs(NOISY.drop_vars(["season", "size"]))), {"month": 1},
         ModelError, "part of a release by KNorm"),
        (lambda: ppd.Release(abs(NOISY), ppd.Conditioned(margin("month") & between(0, 9),
                                                          noise=ppd.laws.DoubleGeometric(1))),
         {"month": 1}, ModelError, "part of a release by Conditioned"),
        (lambda: ppd.mechanisms.random_rounding(3, 40).release([30, 4, 6]), {"dim_0": [1, 2]}, ModelError,
         "part of a release by"),
        (lambda: ppd.PostProcessed(Public(), epsilon=1).release(abs(NOISY.drop_vars(["season", "size"]))).noisy,
         {"month": 1}, PrivacyError, "post-processed"),
        (lambda: laplace(margin("month")), {"month": 9}, LabelError, "not a label"),
        (lambda: laplace(margin("month")), {"season": "w"}, LabelError, "'season'"),
        (lambda: laplace(Public()), {"month": 1, "area": "u"}, LabelError, r"sel\(area="),
        (lambda: laplace(margin("month", weights="size")), {"area": "u"}, InvariantError, "cuts the public sum"),
        (lambda: laplace(margin("area", weights="size")), {"area": "u"}, InvariantError, "selection drops"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::ppdinf.errors.PrivacyWarning")
def test_refusals(release, chosen, error, message):
    with pytest.raises(error, match=message):
        release().sel(chosen)


@pytest.mark.parametrize(
    ("mapping", "keywords"),
    [({"month": 1}, {"month": 2}), ({"month": 1}, {"area": "u"}), ({"month": [1]}, {"month": [1]}), (5, {}), ([], {})],
    ids=["two labels", "two dimensions", "the same", "a number", "a list"],
)
def test_labels_are_given_as_a_mapping_or_as_keywords(mapping, keywords):
    with pytest.raises(LabelError, match="as one mapping or as keywords"):
        laplace(Public()).sel(mapping, **keywords)
    assert laplace(Public()).sel({}, month=1).table.equals(laplace(Public()).sel({"month": 1}).table)


@pytest.mark.quick_cases(0)
def test_a_part_is_used_as_every_release():
    part = laplace(margin("month") & nonnegative()).sel(month=2)
    draws = ppd.denoise(part, draws=50, rng=1, progressbar=False).draws
    assert set(draws.sum("area").values.ravel().tolist()) == {2}
    with pm.Model(coords=part.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 1), shape=2), release=part)
        idata = pm.sample(20, tune=20, chains=1, cores=1, nuts_sampler="pymc", random_seed=1, progressbar=False,
                          quiet=True, compute_convergence_checks=False)  # fmt: skip
    released = ppd.sample_release(idata, model, random_seed=1)
    assert released.dims[-1] == "area"
    assert set(released.sum("area").values.ravel().tolist()) == {2}
    ppd.plots.plot_noise(part)


@pytest.mark.parametrize(
    ("labels", "wrong"),
    [(["r", "p"], None), (np.array(["r"]), None), (slice("q", "r"), None), ("q", None), (["q", "q"], LabelError),
     ([], CountError)],
    ids=["another order", "array", "slice", "one label", "a label twice", "no label"],
)  # fmt: skip
def test_labels_are_selected_as_xarray_selects_them(labels, wrong):
    table = xr.DataArray([[0, 1, 2], [3, 4, 5]], coords={"a": ["x", "y"], "b": ["p", "q", "r"]}, dims=("a", "b"))
    release = ppd.GeneralizedLaplace(margin("b"), epsilon=1).release(table)
    if wrong:
        with pytest.raises(wrong):
            release.sel(b=labels)
        return
    part = release.sel(b=labels)
    chosen = release.table.sel(b=labels)
    xr.testing.assert_equal(part.table, chosen.drop_vars(set(chosen.coords) - set(chosen.dims)))
    assert part.public.values.tolist() == np.atleast_1d(table.sel(b=labels).sum("a")).tolist()
