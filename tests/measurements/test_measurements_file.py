"""Files of measurements: round trips are exact, and a modified file is refused."""

import io
import zipfile

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from saved_files import round_trip

import ppdinf as ppd
from ppdinf.errors import ReleaseFileError
from ppdinf.laws.law_array import LawArray
from ppdinf.measurements import read_ppd
from ppdinf.releases import sealed
from tests.oracles.measured_tables import KINDS, Problem

inv, laws = ppd.invariants, ppd.laws


def log_weights(seen, tables):
    """Return the log weight of tables by all measurements, for laws in any order."""
    entries = seen.entries
    return entries.log_weights(entries.matrix @ np.asarray(tables).T).sum(axis=0)


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("seed", range(40))
def test_systems_of_every_law_have_the_same_weights_after_a_round_trip(seed, tmp_path):
    problem = Problem(seed)
    again = round_trip(problem.seen, tmp_path)
    tables = problem.tables[:: max(len(problem.tables) // 50, 1)]
    assert np.array_equal(log_weights(again, tables), log_weights(problem.seen, tables))


def test_the_systems_have_every_law():
    assert {kind for seed in range(40) for kind in Problem(seed).kinds} == set(KINDS)


def test_a_wrong_scale_gives_another_file(tmp_path):
    def seen(variance):
        return ppd.Measurements(
            {"a": [1, 2]}, ppd.measured(inv.margin("a"), [3, 4], laws.DiscreteGaussian(variance=variance))
        )

    assert not seen("21/5").equals(seen("4"))


SCALES = {
    "one": laws.Staircase("1/3", sensitivity=3, step=2),
    "rational and not": laws.DiscreteGaussian(variance=[2.5, 4, np.nan, 2.5]),
    "in another order": laws.DoubleGeometric(pd.Series({"d": 1, "c": "1/7", "b": "1/7", "a": 0.1})),
    "several laws": LawArray(
        (laws.Staircase(1), laws.DoubleGeometric(2), laws.DiscreteGaussian(3)), np.array([2, 0, -1, 1])
    ),
    "thresholded": laws.Thresholded(laws.DiscreteGaussian(variance=2.5), 3),
    "rounded": laws.RandomRounding(5),
    "matrix": laws.TransitionMatrix(np.random.default_rng(1).dirichlet(np.ones(16), size=20)),
}


@pytest.mark.parametrize("law", SCALES.values(), ids=SCALES)
def test_scales_by_entry_are_preserved(law, tmp_path):
    values = {"a": 15, "b": 5, "c": None, "d": 10}
    seen = ppd.Measurements(
        {"area": list("abcd")}, ppd.measured(inv.margin("area"), values, law), bounds=inv.between(0, 19)
    )
    again = round_trip(seen, tmp_path)
    tables = np.random.default_rng(2).integers(0, 19, size=(30, 4))
    assert np.array_equal(log_weights(again, tables), log_weights(seen, tables))
    forms = {str(getattr(form, "law", form)): sorted(rows.tolist()) for form, rows in seen.entries.forms}
    assert {str(getattr(form, "law", form)): sorted(rows.tolist()) for form, rows in again.entries.forms} == forms


def test_releases_of_one_table_are_preserved(tmp_path):
    table = ppd.as_table([[4, 0], [7, 2]], dims=("county", "sex"))
    public = inv.total() & inv.nonnegative()
    ones = [
        ppd.GeneralizedLaplace(public, epsilon="1/4").release(table),
        ppd.GeneralizedGaussian(public & inv.margin("sex"), sigma=2).release(table),
        ppd.GeneralizedLaplace(inv.total(), epsilon=1).release(table),
    ]
    seen = ppd.Measurements.of_releases(ones)
    again = round_trip(seen, tmp_path)
    assert again.public.values.tolist() == seen.public.values.tolist()
    tables = np.random.default_rng(3).integers(0, 9, size=(20, 4))
    assert np.array_equal(log_weights(again, tables), log_weights(seen, tables))


def small(tmp_path):
    seen = ppd.Measurements(
        {"area": ["x", "y", "z"]},
        ppd.measured(inv.margin("area"), [5, None, -1], laws.DoubleGeometric("1/4")),
        ppd.measured(inv.margin("area"), {"x": 6}, laws.Thresholded(laws.DoubleGeometric(1), 3)),
        ppd.measured(inv.total(), [1], laws.TransitionMatrix([[0.5, 0.5], [0.25, 0.75]])),
        public={inv.cells({"area": "y"}): 0},
        bounds=inv.nonnegative(),
    )
    seen.save(tmp_path / "small.ppd", overwrite=True)
    return tmp_path / "small.ppd"


def test_the_parts_are_readable_text(tmp_path):
    with zipfile.ZipFile(small(tmp_path)) as archive:
        read = {name: pd.read_csv(io.BytesIO(archive.read(name))) for name in archive.namelist()[1:]}
    assert list(read) == ["cells.csv", "public.csv", *(f"measured-{k}.csv" for k in (1, 2, 3)), "matrix-1.csv"]
    assert read["measured-1.csv"].to_csv(index=False) == (
        "sum,value,law,epsilon\narea=x,5.0,double-geometric,1/4\narea=y,,double-geometric,1/4\n"
        "area=z,-1.0,double-geometric,1/4\n"
    )
    assert read["measured-2.csv"].columns.tolist() == ["sum", "value", "law", "of", "epsilon", "threshold"]
    assert read["measured-3.csv"]["probabilities"].tolist() == ["matrix-1.csv"]
    assert read["matrix-1.csv"].to_numpy().tolist() == [[0.5, 0.5], [0.25, 0.75]]


def forged(path, part, old, new):
    """Edit one part by hand and recompute every checksum."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    assert old in parts[part]
    parts[part] = parts[part].replace(old, new, 1)
    manifest = sealed._manifest(parts.pop("manifest.json"))
    path.write_bytes(sealed.pack({k: v for k, v in manifest.items() if k not in ("parts", "digest")}, parts))
    return path


@pytest.mark.quick_cases(14)
@pytest.mark.parametrize(
    ("part", "old", "new", "message"),
    [
        ("measured-1.csv", b"area=x", b"area=y", "not written by ppdinf"),
        ("measured-1.csv", b'"1/4"', b'"-1/4"', "epsilon must be positive"),
        ("measured-1.csv", b'"1/4"', b'"0.25"', "not written by ppdinf"),
        ("measured-1.csv", b"double-geometric", b"double", "does not know noise"),
        ("measured-1.csv", b",5,", b",5.5,", "content is invalid"),
        ("measured-1.csv", b",5,", b',"5",', "not written by ppdinf"),
        ("measured-2.csv", b'"3"', b'"9"', "from 9 on"),
        ("measured-3.csv", b"matrix-1.csv", b"matrix-2.csv", "content is invalid"),
        ("matrix-1.csv", b"0.75", b"0.85", "not a probability vector"),
        ("matrix-1.csv", b"0.75", b"nan", "finite numbers only"),
        ("public.csv", b",0", b",1.5", "content is invalid"),
        ("cells.csv", b'"z"', b'"y"', "twice"),
        ("manifest.json", b'"schema": 1', b'"schema": 2', "schema 2 is not known"),
        ("manifest.json", b'"schema": 1', b'"schema": true', "schema True"),
        ("manifest.json", b'"measurements"', b'"release"', "no measurements"),
        ("manifest.json", b'"between"', b'"betwixt"', "does not know public statements"),
    ],
)
def test_sealed_edits_are_contradictory(part, old, new, message, tmp_path):
    path = forged(small(tmp_path), part, old, new)
    with pytest.raises(ReleaseFileError, match=message):
        ppd.read_measurements(path)


def test_each_reader_recognizes_the_other_file_type(tmp_path):
    path, release = small(tmp_path), tmp_path / "release.ppd"
    ppd.GeneralizedLaplace(inv.total(), epsilon=1).release([3, 1, 2]).save(release)
    with pytest.raises(ReleaseFileError, match=r"ppd\.read_measurements reads measurements"):
        ppd.read_release(path)
    with pytest.raises(ReleaseFileError, match=r"ppd\.read_release reads releases"):
        ppd.read_measurements(release)
    assert isinstance(read_ppd(path), ppd.Measurements)
    assert isinstance(read_ppd(release), ppd.Release)
    with pytest.raises(ReleaseFileError, match="release file"):
        read_ppd(__file__)


def test_files_are_replaced_only_on_request(tmp_path):
    path = small(tmp_path)
    with pytest.raises(ReleaseFileError, match="overwrite=True"):
        ppd.read_measurements(path).save(path)


def test_a_file_of_this_version_remains_readable(tmp_path):
    """The file is written out here, so that later versions detect when they no longer read it."""
    cells, public = b'"area"\n"x"\n"y"\n', b'"sum","value"\n"total",6\n'
    one = b'"sum","value","law","sigma"\n"area=x",5,"discrete-gaussian","2"\n"area=y","","",""\n'
    two = b'"sum","value","law","base"\n"total",6,"random-rounding","3"\n'
    sums = {"kind": "sums", "by": [], "weights": None, "within": None}
    manifest = {
        "holds": "measurements",
        "schema": 1,
        "dims": {"area": 2},
        "coordinates": {"area": {"dims": ["area"], "type": "string"}},
        "public": [sums],
        "measured": [[sums | {"by": ["area"]}], [sums]],
    }
    parts = {"cells.csv": cells, "public.csv": public, "measured-1.csv": one, "measured-2.csv": two}
    (tmp_path / "kept.ppd").write_bytes(sealed.pack(manifest, parts))
    seen = ppd.read_measurements(tmp_path / "kept.ppd")
    expected = ppd.Measurements(
        {"area": ["x", "y"]},
        ppd.measured(inv.margin("area"), [5, None], laws.DiscreteGaussian(variance=[4, np.nan])),
        ppd.measured(inv.total(), 6, laws.RandomRounding(3)),
        public={inv.total(): 6},
    )
    assert seen.equals(expected)
    assert xr.DataArray(seen.entries.y).values.tolist() == [5, 6]
