"""For all inputs of a user: a release or an error of ppdinf, in seconds and little memory.

The quick tier tests 200 cases, the deep tier 8,500. Numbers, labels and texts are drawn from common edge cases: zeros,
signs, halves, infinities, limits of integers, empty and unusual texts, names that do not exist.
"""

import copy
import datetime
import json
import resource
import sys
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ppdinf as ppd
from ppdinf import invariants as inv
from ppdinf.errors import PpdinfError
from ppdinf.releases import sealed

CASES = 40  # for each of five kinds of input
SECONDS = 10
settings.register_profile("fuzz", deadline=datetime.timedelta(seconds=SECONDS), database=None)

NUMBERS = st.sampled_from(
    [0, 1, 2, 3, 7, 40, -1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, 0.5, -0.0, 1.0, 1e308, 5e-324, 1e-300,
     float("nan"), float("inf"), -float("inf"), True, None, "", "1/4", "1/0", "-1/2", "0.1", "1e-9", "1e999", " 1 ",
     "١", "x", b"1", 1j, (), [], np.int8(3), np.uint64(5), np.float32(0.1), np.array(1), np.array([0.5, 1])]
)  # fmt: skip
PARAMETERS = st.one_of(
    NUMBERS, st.fractions(), st.floats(), st.integers(), st.sampled_from(["1/4", 1, "1e-6", "1/1000"])
)
NAMES = st.sampled_from(["a", "b", "c", "", "a ", "A", "draw", "released", "ä", "count", 0, None, ("a",), "x" * 300])
LABELS = st.sampled_from(["x", "y", "z", "", " x", "X", "x\n", "NA", "1", 1, 2, 0, -1, True, None, 1.5, "é", "e\u0301"])


@st.composite
def small_tables(draw):
    """Tables that are mostly valid: up to three dimensions of up to three labels."""
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    cells = draw(st.lists(st.integers(0, 12), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    dims = list("abc")[: len(shape)]
    coords = {dim: [f"{dim}{k}" for k in range(n)] for dim, n in zip(dims, shape, strict=True)}
    table = xr.DataArray(np.array(cells).reshape(shape), dims=dims, coords=coords)
    if draw(st.booleans()):
        table = table.assign_coords(region=("a", draw(st.lists(LABELS, min_size=shape[0], max_size=shape[0]))))
    return table


@st.composite
def any_tables(draw):
    """Tables of every type, mostly invalid."""
    cells = draw(st.lists(NUMBERS, min_size=0, max_size=5))
    names = draw(st.lists(LABELS, min_size=len(cells), max_size=len(cells)))
    made = [
        lambda: cells, lambda: np.array(cells, dtype=object), lambda: pd.Series(cells, index=pd.Index(names, name="a")),
        lambda: pd.DataFrame({"a": names, "b": cells}), lambda: xr.DataArray(cells, dims="a", coords={"a": names}),
        lambda: np.array(cells[:1] * 4).reshape(2, 2), lambda: dict(zip(map(str, names), cells, strict=True)),
        lambda: cells[0] if cells else None, lambda: np.ma.masked_equal(cells, 1), lambda: iter(cells),
        lambda: pd.DataFrame(cells).T, lambda: np.array(cells).astype(str),
    ]  # fmt: skip
    try:
        return draw(st.sampled_from(made))()
    except Exception:  # NumPy, pandas or xarray refuse by themselves
        return cells


@st.composite
def statements(draw):
    """Several statements, joined; names and labels are often those of the table."""
    dim = st.one_of(st.sampled_from(["a", "b", "c", "region"]), NAMES)
    label = st.one_of(st.sampled_from(["a0", "a1", "b0", "b1", "c2"]), LABELS)
    number = st.one_of(st.integers(-3, 15), NUMBERS)
    matrix = st.lists(st.lists(number, min_size=1, max_size=9), min_size=1, max_size=3)
    where = st.dictionaries(dim, st.one_of(label, st.lists(label, max_size=2)), max_size=2)
    kinds = [
        lambda: inv.total(), lambda: inv.margin(draw(dim)), lambda: inv.margin(draw(dim), draw(dim)),
        lambda: inv.groups(draw(dim)), lambda: inv.groups(draw(dim), draw(st.dictionaries(label, label, max_size=3))),
        lambda: inv.hierarchy(draw(dim), draw(dim)), lambda: inv.nonnegative(),
        lambda: inv.between(draw(number), draw(number)), lambda: inv.at_least(draw(label), draw(label), dim=draw(dim)),
        lambda: inv.cells(draw(where)), lambda: inv.zeros(draw(where)), lambda: inv.covariates(draw(dim)),
        lambda: inv.linear(draw(matrix), draw(st.lists(NAMES, max_size=3))), lambda: inv.linear(draw(matrix)),
        lambda: inv.inequality(draw(matrix), draw(st.lists(number, max_size=3))), lambda: inv.total(weights=draw(dim)),
        lambda: inv.labels(draw(dim), draw(st.lists(label, max_size=3))), lambda: inv.Public(),
        lambda: inv.unit(draw(NAMES), contributions=draw(number)),
    ]  # fmt: skip
    found = inv.Public()
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=3)):
        found &= kind()
    return found


MECHANISMS = {
    "laplace": lambda p, a, b: ppd.GeneralizedLaplace(p, a),
    "l2": lambda p, a, b: ppd.GeneralizedLaplace(p, a, norm="l2"),
    "norm": lambda p, a, b: ppd.GeneralizedLaplace(p, 1, norm=b),
    "gaussian": lambda p, a, b: ppd.GeneralizedGaussian(p, a, b, calibration="exact"),
    "rho": lambda p, a, b: ppd.GeneralizedGaussian(p, rho=a),
    "sigma": lambda p, a, b: ppd.GeneralizedGaussian(p, sigma=a),
    "conditioned": lambda p, a, b: ppd.Conditioned(p, noise=ppd.laws.DoubleGeometric(a)),
    "staircase": lambda p, a, b: ppd.Conditioned(p, noise=ppd.laws.Staircase(a, b)),
    "wasserstein": lambda p, a, b: ppd.WassersteinExponential(p, a, b, "x"),
    "subspace": lambda p, a, b: ppd.SubspaceGaussian(p, a, b),
    "extended": lambda p, a, b: ppd.SubspaceLaplace(p, a, method="extended", grid=b),
    "correlated": lambda p, a, b: ppd.CorrelatedGaussian(p, a, b),
    "k-norm": lambda p, a, b: ppd.KNorm(p, a, grid=b),
    "suppression": lambda p, a, b: ppd.Suppression(p),
    "post-processed": lambda p, a, b: ppd.PostProcessed(p, a),
    "rounded": lambda p, a, b: ppd.mechanisms.random_rounding(a, b),
    "two-stage": lambda p, a, b: ppd.counts.TwoStage(a, b),
}


def attempted(run):
    """Run; only errors of ppdinf may be raised. Warnings of libraries are faults as well."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ppd.errors.PrivacyWarning)
        try:
            return run()
        except PpdinfError as error:
            said = str(error)
    assert 0 < len(said) < 2000
    return None


def fuzz(cases):
    return settings(
        settings.get_profile("fuzz"), max_examples=cases, derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture,
                               HealthCheck.filter_too_much],
    )  # fmt: skip


def tables(cases):
    @fuzz(cases)
    @given(any_tables())
    def run(table):
        mechanism = ppd.GeneralizedLaplace(inv.Public(), epsilon="1/4")
        attempted(lambda: ppd.as_table(table))
        attempted(lambda: mechanism.release(table).guarantee.describe())

    run()


def systems(cases):
    @fuzz(cases)
    @given(small_tables(), st.data())
    def run(table, data):
        public = attempted(lambda: data.draw(statements()))
        if public is None:
            return
        system = attempted(lambda: public.on(table))
        if system is not None:
            assert system.A.shape[1] == table.size
            attempted(lambda: system.check(table))
        release = attempted(lambda: ppd.GeneralizedLaplace(public, epsilon="1/4").release(table))
        if release is not None:
            assert (release.public.A @ release.table.values.ravel() == release.public.values).all()
            attempted(release.guarantee.describe)
        attempted(lambda: ppd.GeneralizedLaplace(public, epsilon="1/4").expected_error(table, gaps=[1]))

    run()


def parameters(cases):
    @fuzz(cases)
    @given(st.sampled_from(sorted(MECHANISMS)), PARAMETERS, PARAMETERS, st.booleans(), st.sampled_from([0, 1, 2, 3]))
    def run(name, first, second, bounded, kind):
        public = [inv.Public(), inv.total(), inv.margin("a"), inv.margin("a") & inv.margin("b")][kind]
        public = public & inv.nonnegative() if bounded else public
        table = xr.DataArray([[3, 1, 0], [2, 5, 4]], dims=["a", "b"])
        mechanism = attempted(lambda: MECHANISMS[name](public, first, second))
        if mechanism is not None:
            attempted(lambda: mechanism.guarantee.describe())
            attempted(lambda: mechanism.release(table).guarantee.describe())

    run()


JUNK = st.one_of(NUMBERS.filter(lambda v: isinstance(v, int | float | str | None) and v == v and abs(hash(v)) >= 0),
                 st.just({}), st.just([]), st.just([[]]), st.just({"kind": "sums"}), st.text(max_size=5))  # fmt: skip


def places(node, at=()):
    yield at
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from places(child, (*at, key))


def files(cases, folder):
    """Manifests with random values in random places, sealed again: refused by name, or read as stated.

    A release with one such value is refused, except in the record of the sampler, which nothing else determines."""
    ppd.GeneralizedLaplace(inv.total() & inv.groups("g") & inv.nonnegative(), epsilon="1/4").release(
        xr.DataArray([3, 1, 2, 5], dims="a", coords={"a": list("wxyz"), "g": ("a", list("ppqq"))})
    ).save(folder / "whole.ppd", overwrite=True)
    ppd.Measurements(
        xr.DataArray([0, 0], dims="a", coords={"a": ["x", "y"]}),
        ppd.measured(inv.total(), [5], law=ppd.laws.DiscreteGaussian(2)),
    ).save(folder / "measured.ppd", overwrite=True)
    wholes = []
    for name in ("whole.ppd", "measured.ppd"):
        with zipfile.ZipFile(folder / name) as archive:
            wholes.append((json.loads(archive.read("manifest.json")), {
                part: archive.read(part) for part in archive.namelist() if part != "manifest.json"}))  # fmt: skip

    @fuzz(cases)
    @given(st.sampled_from(wholes), st.data())
    def run(whole, data):
        manifest, edited = copy.deepcopy(whole[0]), []
        for _ in range(data.draw(st.integers(1, 2))):
            *above, last = data.draw(
                st.sampled_from([at for at in places(manifest) if at and at[0] not in ("parts", "digest")])
            )
            node = manifest
            for key in above:
                node = node[key]
            edited.append(above[0] if above else last)
            if replaced := data.draw(st.booleans()):
                node[last] = copy.deepcopy(data.draw(JUNK))
            else:
                del node[last]
        try:
            packed = sealed.pack({k: v for k, v in manifest.items() if k not in ("parts", "digest")}, whole[1])
        except (ValueError, TypeError):
            return  # not JSON
        (folder / "fuzzed.ppd").write_bytes(packed)
        attempted(lambda: ppd.read_measurements(folder / "fuzzed.ppd"))
        release = attempted(lambda: ppd.read_release(folder / "fuzzed.ppd"))
        if len(edited) == 1 and edited[0] != "plan" and replaced and packed != (folder / "whole.ppd").read_bytes():
            assert release is None

    run()


def lines(cases, folder):
    """Session files with random lines and valid digests."""
    from ppdinf.sessions.journal import journal_line  # the forger knows the chain

    session = ppd.Session.open(folder / "whole.budget", epsilon=4)
    session.release(ppd.GeneralizedLaplace(inv.total(), epsilon="1/4"), [3, 1, 2])
    records = [json.loads(line) for line in (folder / "whole.budget").read_bytes().splitlines()]

    @fuzz(cases)
    @given(st.data())
    def run(data):
        forged = copy.deepcopy(records)
        *above, last = data.draw(st.sampled_from([at for at in places(forged) if len(at) > 1]))
        node = forged
        for key in above:
            node = node[key]
        node[last] = copy.deepcopy(data.draw(JUNK))
        previous, written = "", b""
        for record in forged:
            body = {k: v for k, v in record.items() if k != "digest"} if isinstance(record, dict) else {}
            line = journal_line(previous, body)
            previous, written = json.loads(line)["digest"], written + line
        (folder / "fuzzed.budget").write_bytes(written)

        def look():
            opened = ppd.Session.open(folder / "fuzzed.budget")
            opened.table(), opened.left, opened.guarantee.describe()

        attempted(look)

    run()


LONG_RUN = {"tables": 3000, "systems": 2000, "parameters": 500, "files": 2000, "lines": 2500}  # 10,000 cases
KINDS = {"tables": tables, "systems": systems, "parameters": parameters, "files": files, "lines": lines}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("long", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["few cases", "many cases"])
def test_only_errors_of_ppdinf(long, kind, tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    KINDS[kind](LONG_RUN[kind] if long else CASES, *([tmp_path] if kind in ("files", "lines") else []))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < (2 * 2**20 if sys.platform != "darwin" else 2 * 2**30)  # 2 GB
