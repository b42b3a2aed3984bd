"""Noisy measurement files: written, read, with all variations and errors of real files, and the stated noise."""

import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xarray as xr
from scipy.stats import chi2

import ppdinf as ppd
from ppdinf.census import (
    PERSONS,
    PERSONS_2020,
    Axis,
    Histogram,
    Strategy,
    off_spine_areas,
    read_nmf,
    read_rows,
    simulate_nmf,
    tree,
)
from ppdinf.census.block_measurements import _unequal_totals
from ppdinf.census.schema import squared_sigma, variance_of
from ppdinf.errors import CountError, DiagnosisWarning, LabelError, PpdinfError, PrivacyError, ReleaseFileError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
inv = ppd.invariants

QUARTERS = Axis(
    "hhgq", ("household", "nursing", "college"),
    {"hhinstlevels": {"household": ("household",), "quarters": ("nursing", "college")},
     "gqNursingTotal": {"nursing": ("nursing",)}},
)  # fmt: skip
AGES = Axis("votingage", ("under 18", "18 and over"), {"nonvoting": {"under 18": ("under 18",)}})
SMALL = Histogram((QUARTERS, AGES))
QUERIES = {"total": 9.0, "hhinstlevels": 4.0, "votingage * hhgq": 0.3, "detailed": 2.5}
STRATEGY = Strategy(
    SMALL, dict.fromkeys(("State", "County", "Block"), QUERIES) | {"US": {"votingage": 1.0}},
    exact={"US": ("total",)}, zeros={"nurse_nva_0": "gqNursingTotal * nonvoting"},
)  # fmt: skip
WIDTHS = {"US": 0, "State": 3, "County": 8}
BLOCKS = ["04400001A", "04400001B", "04400003A", "14400001A", "05000007A"]
DATA = "US_Person_PL_PROD"


def table():
    counts = np.random.default_rng(3).integers(0, 30, (5, 3, 2))
    counts[:, 1, 0] = counts[0, 2] = 0
    labels = {"block": BLOCKS, "hhgq": list(QUARTERS.labels), "votingage": list(AGES.labels)}
    return xr.DataArray(counts, coords=labels)


def facilities():
    held = (table().sum("votingage").values > 0).astype(np.int64)
    return xr.DataArray(held, coords={"block": BLOCKS, "hhgq": list(QUARTERS.labels)})


@pytest.fixture
def root(tmp_path):
    simulate_nmf(table(), STRATEGY, tmp_path, DATA, WIDTHS, facilities=facilities(), by_county=("Block",), rng=1)
    return tmp_path


def files(root, level="County", kind="DPQuery"):
    return sorted((root / DATA / f"{level}.parquet" / kind).rglob("*.parquet"))


def edit(path, change):
    frame = pq.ParquetFile(path).read()
    pq.write_table(change(frame), path)


def replaced(name, values, kind=None):
    def change(frame):
        place = frame.schema.names.index(name)
        own = frame.column(name).to_pylist()
        own = values(own)
        return frame.set_column(place, name, pa.array(own, kind or frame.schema.field(name).type))

    return change


def test_folders_and_columns(root):
    assert (root / DATA / "US.parquet/DPQuery/part-00000.parquet").exists()
    assert (root / DATA / "Block.parquet/Constraint/State=044/County=04400001/part-00000.parquet").exists()
    names = pq.ParquetFile(files(root)[0]).schema_arrow.names
    assert names == ["geocode", "query_name", "query_shape", "hhgq", "votingage", "value", "variance"]
    assert "sign" in pq.ParquetFile(files(root, kind="Constraint")[0]).schema_arrow.names


def test_round_trip_without_noise(tmp_path):
    """The measurements are those of the named sums: noise with parameter 1e-3 is zero."""
    quiet = dict.fromkeys(QUERIES, 0.001)
    strategy = Strategy(SMALL, dict.fromkeys(("US", "State", "County", "Block"), quiet), STRATEGY.exact)
    simulate_nmf(table(), strategy, tmp_path, DATA, WIDTHS, rng=1)
    with pytest.raises(PrivacyError, match=r"row 0, column 'variance'"):
        read_nmf(tmp_path, DATA, SMALL)  # single precision has no such variance
    for level in ("US", "State", "County", "Block"):
        for path in files(tmp_path, level):
            edit(path, replaced("variance", lambda own: [0.1] * len(own)))
    seen = read_nmf(tmp_path, DATA, SMALL)
    x = table().sortby("block").values.ravel()
    assert (seen.entries.matrix @ x == seen.entries.y).all()
    assert seen.entries.y.size == (1 + 3 + 4 + 5) * (1 + 2 + 6 + 6)
    assert (seen.public.A @ x == seen.public.values).all()
    reordered = read_nmf(tmp_path, DATA, SMALL, within="04400003")
    assert dict(reordered.coords)["block"].tolist() == ["04400003A"]


def test_laws_are_those_written(root):
    seen = read_nmf(root, DATA, SMALL, within="04400001")
    found = {float(form.law.variance) for form, _ in seen.entries.forms}
    assert sorted(found) == pytest.approx([0.3, 2.5, 4.0, 9.0])
    assert variance_of(0.3) < 0.3
    for s in (0.2, 0.7, 1.2, 4.96, 300.0):
        assert squared_sigma(variance_of(s)) == pytest.approx(s, rel=1e-9)


def test_noise_has_the_variance_stated(tmp_path):
    many = [f"044{k:05d}" for k in range(4000)]
    counts = xr.DataArray(np.full((4000, 3, 2), 5), coords={**table().coords, "block": many})
    simulate_nmf(counts, Strategy(SMALL, {"Block": {"total": 4.0}}), tmp_path, DATA, {}, rng=2)
    noise = np.concatenate(read_rows(tmp_path, DATA, "DPQuery", SMALL)["value"].tolist()) - 30
    # variance of the sample variance of 4,000 Gaussians: 4 standard errors are 6e-5 of false alarms
    assert noise.var() == pytest.approx(4, abs=4 * 4 * (2 / 4000) ** 0.5)
    assert abs(noise.var() - 4.4) > 1e-3


def test_zeros_bounds_and_exact_sums(root):
    states = table().assign_coords(state=("block", [b[:3] for b in BLOCKS])).groupby("state").sum()
    seen = read_nmf(root, DATA, SMALL, public={inv.margin("state"): states.sum(["hhgq", "votingage"])})
    x = table().sortby("block").values.ravel()
    assert (seen.public.A @ x == seen.public.values).all()
    assert (seen.public.B @ x >= seen.public.limits).all()
    empty = seen.public.empty.reshape(5, 3, 2)
    assert empty[:, 1, 0].all()  # no one under 18 in nursing homes
    k = sorted(BLOCKS).index(BLOCKS[0])
    assert empty[k, 2].all()  # no college
    assert not empty[:, 0].any()
    assert sum("at least" in name for name in seen.public.bound_names) > 0


def test_only_files_of_the_place_are_opened(root):
    for path in files(root, "Block") + files(root, "County"):
        if "State=044" not in path.parts:
            path.write_bytes(b"no Parquet")
    seen = read_nmf(root, DATA, SMALL, within="044")
    assert dict(seen.coords)["block"].tolist() == sorted(b for b in BLOCKS if b.startswith("044"))
    assert set(seen.frame.coords) >= {"state", "county", "hhinstlevels"}
    two = read_nmf(root, DATA, SMALL, within=["04400001A", "04400003"], levels=["County", "Block"])
    assert two.shape[0] == 2  # the county that is half within is left out
    assert not [name for name in two.entries.names if name.startswith("county=04400001")]


def test_axes_and_queries(root):
    seen = read_nmf(root, DATA, SMALL, within="044", axes=["votingage"], levels=["State"], queries=["total"])
    assert (seen.dims, seen.entries.y.size) == (("state", "votingage"), 1)
    with pytest.raises(LabelError, match="no axis 'sex'"):
        read_nmf(root, DATA, SMALL, axes=["sex"])


def test_rows_without_budget_are_absent(root):
    for path in files(root):
        edit(path, lambda frame: frame.slice(3))  # all but one query of the first geounit of each file
    seen = read_nmf(root, DATA, SMALL, within="04400003", levels=["County", "Block"])
    assert seen.shape[0] == 1
    for path in files(root):
        edit(path, lambda frame: frame.slice(0, 0))
    seen = read_nmf(root, DATA, SMALL, within="044", levels=["County"])
    assert seen.entries.y.size == 0
    assert dict(seen.coords)["county"].tolist() == ["04400001", "04400003"]  # known from constraints only


def drift(root):
    """Add all variations of real files."""
    for level in WIDTHS:
        for kind in ("DPQuery", "Constraint"):
            for path in files(root, level, kind):
                numbers = pa.int32() if level == "County" else pa.int16()
                if kind == "DPQuery":
                    edit(path, replaced("value", lambda own: own, pa.large_list(numbers)))
                edit(path, replaced("query_shape", lambda own: own, pa.list_(pa.int8())))
                edit(path, lambda frame: frame.append_column("plb", pa.array(["1/2"] * len(frame))))
                edit(path, lambda frame: frame.select(frame.schema.names[::-1]))
                if kind == "Constraint":
                    edit(path, replaced("sign", lambda own: ["==" if sign == "=" else sign for sign in own]))
                path.rename(path.with_name("c000-any.snappy.parquet"))
    for folder in list((root / DATA).rglob("State=044")):
        folder.rename(folder.with_name("State=44"))
    for folder in list((root / DATA).rglob("County=04400001")):
        folder.rename(folder.with_name("County=4400001"))
    (root / DATA / "County.parquet" / "_SUCCESS").write_text("")


@pytest.mark.quick_cases(0)
def test_drift_of_the_schema(root):
    before = read_nmf(root, DATA, SMALL, within="044")
    drift(root)
    after = read_nmf(root, DATA, SMALL, within="044")
    assert (before.entries.y == after.entries.y).all()
    assert list(before.entries.names) == list(after.entries.names)
    assert (before.public.A != after.public.A).nnz == 0


def test_without_signs_constraints_are_exact(root):
    (path,) = files(root, "US", "Constraint")
    edit(path, lambda frame: frame.drop_columns(["sign"]).filter(pa.compute.equal(frame["query_name"], "total_con")))
    rows = read_rows(root, DATA, "Constraint", SMALL, levels=["US"])
    assert rows["sign"].tolist() == ["="]


def _first(value):
    return lambda own: [value, *own[1:]]


WRONG = {
    "column": (lambda frame: frame.drop_columns(["value"]), ReleaseFileError, "no column 'value'"),
    "type": (replaced("value", lambda own: own, pa.list_(pa.float64())), ReleaseFileError, "has the unexpected type"),
    "codes": (replaced("geocode", lambda own: [4] * len(own), pa.int64()), ReleaseFileError, "has the unexpected type"),
    "grouping": (replaced("hhgq", _first("relgq")), LabelError, "row 0, column 'hhgq'.*no grouping 'relgq'"),
    "shape": (replaced("query_shape", _first([2, 1])), CountError, "row 0, column 'query_shape'"),
    "values": (replaced("value", _first([1, 2])), CountError, "row 0, column 'value' has 2 numbers"),
    "empty": (replaced("value", _first(None)), ReleaseFileError, "row 0, column 'value' is empty"),
    "empty entry": (replaced("value", _first([None])), ReleaseFileError, "row 0, column 'value' has an empty"),
    "no code": (replaced("geocode", _first(None)), ReleaseFileError, "row 0, column 'geocode' is empty"),
    "variance": (replaced("variance", _first(-1.0)), PrivacyError, "row 0, column 'variance'"),
    "nan": (replaced("variance", _first(float("nan"))), PrivacyError, "row 0, column 'variance'"),
    "twice": (lambda frame: pa.concat_tables([frame, frame.slice(0, 1)]), LabelError, "row 8, .*already"),
    "width": (replaced("geocode", _first("0440")), LabelError, "several widths"),
    "lonely": (replaced("geocode", _first("04499999")), LabelError, "no Block"),
}  # fmt: skip


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", WRONG)
def test_refused_with_file_row_and_column(root, name):
    change, error, words = WRONG[name]
    path = files(root)[0]
    edit(path, change)
    with pytest.raises(error, match=words) as caught:
        read_nmf(root, DATA, SMALL, within="044")
    if name not in ("width", "lonely"):
        assert "County.parquet/DPQuery/State=044/part-00000.parquet" in str(caught.value)


def _complaint(row):
    """The first wrong column of a row, by a check of one row."""
    if None in row.values():
        return next(name for name in ("geocode", "value", "variance") if row[name] is None)
    if None in row["value"]:
        return "value"
    if row["hhgq"] == "relgq":
        return "hhgq"
    expected = list(SMALL.query_shape((row["hhgq"], row["votingage"])))
    if row["query_shape"] != expected:
        return "query_shape"
    if len(row["value"]) != np.prod(expected):
        return "value"
    return None if row["variance"] > 0 else "variance"


def test_the_first_wrong_row_is_named_whatever_is_wrong_later(root):
    """Random entries of random rows are wrong; the message is that of a check of one row after another."""
    (path,) = files(root, "Block")[:1]
    whole, rng = pq.ParquetFile(path).read(), np.random.default_rng(8)
    edits = [
        ("geocode", None), ("value", None), ("value", [None, 1]), ("value", [1, 2, 3, 4, 5]), ("hhgq", "relgq"),
        ("query_shape", [2]), ("query_shape", [9, 9]), ("variance", -1.0), ("variance", None),
    ]  # fmt: skip
    for _ in range(30):
        rows = whole.to_pylist()
        for k in rng.choice(len(rows), 4):
            name, value = edits[rng.integers(len(edits))]
            rows[k][name] = value
        pq.write_table(pa.Table.from_pylist(rows, whole.schema), path)
        first = next(k for k, row in enumerate(rows) if _complaint(row))
        with pytest.raises(PpdinfError, match=f"row {first}, column '{_complaint(rows[first])}'"):
            read_rows(root, DATA, "DPQuery", SMALL, levels=["Block"])


def test_refused_constraints_and_places(root):
    path = files(root, kind="Constraint")[0]
    edit(path, replaced("sign", _first("<")))
    with pytest.raises(LabelError, match="row 0, column 'sign'"):
        read_nmf(root, DATA, SMALL)
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(ReleaseFileError, match=r"part-00000\.parquet is not a complete Parquet file"):
        read_nmf(root, DATA, SMALL)
    with pytest.raises(ReleaseFileError, match="does not exist"):
        read_nmf(root, "US_Person", SMALL)
    with pytest.raises(ReleaseFileError, match="no level 'Tract'"):
        read_nmf(root, DATA, SMALL, levels=["Tract"])
    with pytest.raises(LabelError, match="no geounit"):
        read_nmf(root, DATA, SMALL, within="999")


def test_the_extra_is_named(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match="pyarrow: pip install pyarrow"):
        read_nmf(root, DATA, SMALL)


def test_simulator_refuses_tables_that_do_not_fit(tmp_path):
    for wrong in (table().transpose("block", "votingage", "hhgq"), table().isel(hhgq=[0, 1]), table()[..., 0]):
        with pytest.raises(PpdinfError):
            simulate_nmf(wrong, STRATEGY, tmp_path, DATA, WIDTHS)
    with pytest.raises(LabelError, match="facilities"):
        simulate_nmf(table(), STRATEGY, tmp_path, DATA, WIDTHS, facilities=facilities()[:2])
    for change in (1, 40, -1):
        wrong = facilities()
        wrong[0, 2] += change  # no persons, more than the persons, or fewer than 0
        with pytest.raises(CountError, match=f"block={BLOCKS[0]}, hhgq={QUARTERS.labels[2]}: the number of persons"):
            simulate_nmf(table(), STRATEGY, tmp_path, DATA, WIDTHS, facilities=wrong)


@pytest.mark.quick_cases(0)
def test_facilities_are_matched_by_label(root, tmp_path):
    """Wrong variant: facilities in the order of their own labels."""
    other = facilities()[::-1, [2, 0, 1]].transpose("hhgq", "block")
    options = {"by_county": ("Block",), "rng": 1}
    simulate_nmf(table(), STRATEGY, tmp_path / "other", DATA, WIDTHS, facilities=other, **options)
    one, two = (
        read_rows(place, DATA, "Constraint", SMALL).drop(columns="where") for place in (root, tmp_path / "other")
    )
    pd.testing.assert_frame_equal(one, two)
    public = read_nmf(tmp_path / "other", DATA, SMALL, levels=["Block"]).public
    x = table().values.ravel()
    assert (public.A @ x == public.values).all()
    assert (public.B @ x >= public.limits).all()
    with pytest.raises(CountError):
        simulate_nmf(table(), STRATEGY, tmp_path / "wrong", DATA, WIDTHS, facilities=facilities().copy(data=other.T))


def test_trees_name_nested_sums():
    coords = tree(["04410A1", "04410A2", "04411B1"], {"county": 5, "tract": 6, "us": 0}, "block")
    frame = {"block": ["04410A1", "04410A2", "04411B1"]}
    x = pd.Series([1, 2, 4], index=frame["block"])
    named = xr.DataArray(x.to_numpy(), coords={**frame, **coords}, dims="block")
    assert inv.groups("county").on(named).values.tolist() == [3, 4]
    assert inv.hierarchy("county", "tract").on(named).values.tolist() == [7, 3, 4, 3, 4]
    assert coords["us"][1] == ["US"] * 3
    for leaves, widths in ((["1", "12"], {}), (["1", "1"], {}), (["12"], {"a": 2}), (["12"], {"a": 1, "b": 1})):
        with pytest.raises(LabelError):
            tree(leaves, widths, "block")


def test_areas_off_the_tree():
    found = off_spine_areas(["044100070049102" + "4400701070233001", "044100070049102" + "4400701080233001"])
    assert found["tabulation_tract"][1] == ["44007010702", "44007010802"]
    assert found["tabulation_county"][1] == ["44007"] * 2
    assert found["tabulation_block_group"][1][0] == "440070107023"
    with pytest.raises(LabelError, match="16 digits"):
        off_spine_areas(["0441"])


@pytest.mark.quick_cases(0)
def test_denoised_files_are_those_of_measurements_by_hand(root):
    seen = read_nmf(root, DATA, SMALL, within="04400003", levels=["Block"], queries=["total", "hhinstlevels"])
    rows = read_rows(root, DATA, "DPQuery", SMALL, within="04400003", levels=["Block"]).set_index("query")
    level, y = ppd.invariants.margin("block"), rows.loc["total", "value"]
    kinds = {"hhgq": list(QUARTERS.labels), "votingage": list(AGES.labels)}
    groups = xr.DataArray(
        [rows.loc["hhinstlevels", "value"]], coords={"block": BLOCKS[2:3], "kind": ["household", "quarters"]}
    )
    lower = np.array([[0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]])
    held = facilities().values[2, 1:]
    hand = ppd.Measurements(
        {"block": BLOCKS[2:3], **kinds},
        ppd.measured(level, y, ppd.laws.DiscreteGaussian(variance=9)),
        ppd.measured(inv.margin("block", "kind"), groups, ppd.laws.DiscreteGaussian(variance=4)),
        coords={"kind": ("hhgq", ["household", "quarters", "quarters"])},
        public={
            inv.zeros({"hhgq": "nursing", "votingage": "under 18"}): None,
            inv.inequality(lower[held > 0], held[held > 0], [f"n{k}" for k in np.flatnonzero(held)]): None,
        },
    )
    one, two = (ppd.denoise(s, draws=1500, prior="flat", rng=1, progressbar=False) for s in (seen, hand))
    a, b = one.draws.values.reshape(-1, 6), two.draws.values.reshape(-1, 6)
    scale = b.std(axis=0) + 1e-9
    assert (abs(a.mean(axis=0) - b.mean(axis=0)) < 0.3 * scale + 1e-6).all()


def without(root, codes, kinds=("DPQuery", "Constraint"), level="Block"):
    """Remove the rows of geounits from the files of a level."""
    for kind in kinds:
        for path in files(root, level, kind):
            edit(path, lambda frame: frame.filter(pa.array([c not in codes for c in frame["geocode"].to_pylist()])))


AGE = Histogram((AGES,))
PEOPLE = xr.DataArray(
    [[10, 30], [15, 25], [6, 40], [6, 40]],
    coords={"block": ["04400001A", "04400001B", "04400001C", "04400001D"], "votingage": list(AGES.labels)},
)


@pytest.mark.parametrize(
    ("block", "county", "exact", "warned"),
    [
        ({"votingage": 4.0}, {"votingage": 4.0}, (), True),
        ({"total": 4.0, "votingage": 9.0}, {"votingage": 400.0}, ("total",), True),
        ({"votingage": 4.0}, {"nonvoting": 1.0}, ("total",), True),  # an exact total, and noisy parts
        ({"votingage": 900.0}, {"votingage": 4.0}, (), False),  # 46 persons are one standard deviation
    ],
)  # fmt: skip
def test_a_missing_block_is_named_if_the_noise_permits(tmp_path, recwarn, block, county, exact, warned):
    """46 of 172 persons; the threshold is 4.5 standard deviations, a bound with a false-alarm probability of 1e-4."""
    strategy = Strategy(AGE, {"County": county, "Block": block}, exact={"County": exact})
    simulate_nmf(PEOPLE, strategy, tmp_path, DATA, {"County": 8}, rng=1)
    read_nmf(tmp_path, DATA, AGE)
    assert not [w for w in recwarn if w.category is DiagnosisWarning]
    without(tmp_path, ["04400001D"])
    if not warned:
        read_nmf(tmp_path, DATA, AGE)
        assert not [w for w in recwarn if w.category is DiagnosisWarning]
        return
    with pytest.warns(
        DiagnosisWarning, match=r"County '04400001' exceeds the sum over its geounits of Block by 4\d.*missing"
    ):
        read_nmf(tmp_path, DATA, AGE)


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (["DPQuery", "Constraint"], "lower limits of County '04400001' exceed"),  # two kinds of facilities
        (["DPQuery"], "1 geounits of Block have no measurements in the files, such as '04400001A'"),
    ],
)
def test_constraints_and_other_files_name_missing_geounits(root, kinds, words):
    without(root, ["04400001A"], kinds)
    with pytest.warns(DiagnosisWarning, match=words):
        read_nmf(root, DATA, SMALL)


@pytest.mark.quick_cases(0)
def test_complete_files_are_not_reported():
    """Of 300 readings with six comparisons each, more than 2 alarms have probability 5e-6 at the stated rate."""
    rng, alarms = np.random.default_rng(5), 0
    levels = [
        ("State", "044"),
        *(("County", f"0440000{c}") for c in range(5)),
        *(("Block", f"0440000{c}{b}") for c in range(5) for b in "ABC"),
    ]
    for _ in range(300):
        noisy = pd.DataFrame({
            "level": [level for level, _ in levels], "geocode": [code for _, code in levels],
            "groupings": [("votingage",)] * len(levels), "variance": 3.0, "sign": "",
            "value": list(np.rint(rng.normal(0, 3**0.5, (len(levels), 2))).astype(int)),
        })  # fmt: skip
        alarms += _unequal_totals(noisy, AGE) is not None
    assert alarms <= 2


CODES, RARE, DATA = [f"044{k:05d}" for k in range(60)], 1e-6, "US_Person_PL_PROD"


@pytest.mark.deep
def test_errors_are_those_stated(tmp_path):
    rng = np.random.default_rng(5)
    table = np.zeros((len(CODES), *PERSONS.shape), dtype=np.int64)
    table[:, 0] = rng.poisson(3, table[:, 0].shape)
    axes = {axis.name: list(axis.labels) for axis in PERSONS.axes}
    persons = xr.DataArray(table, coords={"county": CODES, **axes})
    kinds = {"county": CODES, "hhgq": axes["hhgq"]}
    facilities = xr.DataArray(np.zeros((len(CODES), 8), dtype=np.int64), coords=kinds)
    simulate_nmf(persons, PERSONS_2020, tmp_path, DATA, {}, leaf="County", facilities=facilities, rng=rng)
    found = np.zeros((len(CODES), len(PERSONS_2020.squared_sigmas["County"])))
    for own, code, truth in zip(found, CODES, table, strict=True):
        seen = read_nmf(tmp_path, DATA, PERSONS, within=code)
        inside = ~seen.public.empty
        assert inside.sum() == 252  # households only
        entries, precision = seen.entries, np.empty(seen.entries.y.size)
        for form, rows in entries.forms:
            precision[rows] = 1 / float(form.law.variance)
        Q = entries.matrix[:, inside].astype(float)
        covariance = np.linalg.inv((Q.T @ sp.diags_array(precision) @ Q).toarray())
        off = covariance @ (Q.T @ (precision * entries.y)) - truth.ravel()[inside]
        first = [part.matrix[:, inside][[0]].toarray()[0] for part in seen.parts]
        own[:] = [(q @ off) ** 2 / (q @ covariance @ q) for q in first]
    total = found.sum(axis=0)
    p = chi2.sf(total, len(CODES))
    assert (np.minimum(p, 1 - p) > RARE).all()
    assert (chi2.sf(4 * total, len(CODES)) < RARE).all()
