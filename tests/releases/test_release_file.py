"""Release files: round trips, and refusal of modified files."""

import csv
import getpass
import hashlib
import io
import json
import pickle
import socket
import stat
import subprocess
import sys
import warnings
import zipfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ppdinf as ppd
from ppdinf.errors import LabelError, PrivacyError, PrivacyWarning, ReleaseFileError
from ppdinf.invariants import Public, cells, covariates, groups, linear, margin, nonnegative, total, zeros
from ppdinf.releases import sealed

PINNED_2 = "c72eb6d3f1f81cd0fc5864b4c813d97d025fb4a234a69bf7892e4380cc26c011"
PINNED = "96a0377f4aea8e904931dc1d54fdea79b9e02dd719abc13200940bd3c8e9d76b"
NAMES = ["manifest.json", "table.csv", "public.csv"]
AWKWARD = [
    "plain", "", "NA", "N/A", "nan", "NULL", "TRUE", "01001", "-1", "1e5", "inf", "a,b", "a;b", 'say "x"', '"', '""',
    "'", " lead", "trail ", "two\nlines", "cr\rhere", "both\r\n", "tab\tthere", "\\n", "#no comment", "=1", "😀",
    "👩‍🚀",
    "Doña Ana", "日本", "line\u2028end", "\ufeffmark", "x" * 500,
]  # fmt: skip


def saved(release, path):
    release.save(path, overwrite=True)
    return path


def round_trip(release, tmp_path):
    again = ppd.read_release(saved(release, tmp_path / "once.ppd"))
    assert (tmp_path / "once.ppd").read_bytes() == saved(again, tmp_path / "twice.ppd").read_bytes()
    xr.testing.assert_identical(again.table, release.table)
    for name, coordinate in release.table.coords.items():
        assert again.table[name].dtype == coordinate.dtype
        assert again.table[name].values.tolist() == coordinate.values.tolist()
    assert again.mechanism == release.mechanism
    assert again.public.public == release.public.public
    assert again.public.names == release.public.names
    assert again.public.values.tolist() == release.public.values.tolist()
    assert (again.public.A != release.public.A).nnz == 0
    assert again.plan == release.plan
    assert again.guarantee == release.guarantee
    return again


@cache
def small_file():
    """Return the bytes of a release file."""
    table = xr.DataArray([5, -1, 2], dims="county", coords={"county": ["x", "y", "z"], "size": ("county", [10, 5, 7])})
    mechanism = ppd.GeneralizedLaplace(total() & covariates("size") & nonnegative(), epsilon="1/4")
    with TemporaryDirectory() as folder:
        release = ppd.Release(table, mechanism, plan=mechanism.sampler_plan(table))
        return saved(release, Path(folder) / "small.ppd").read_bytes()


def small(tmp_path):
    path = tmp_path / "small.ppd"
    path.write_bytes(small_file())
    return path


@pytest.mark.parametrize(
    "labels", [AWKWARD, list(range(-5, 30)), [2**53, -(2**53), 0]], ids=["text", "numbers", "wide"]
)
def test_labels_survive(labels, tmp_path):
    table = xr.DataArray(np.resize([3, 0, 5], len(labels)), dims="place", coords={"place": labels})
    round_trip(ppd.GeneralizedLaplace(total(), epsilon=1).release(table), tmp_path)


def test_no_label_is_a_formula_of_a_spreadsheet(tmp_path):
    """A reader of CSV in Excel would run =1+1; the apostrophe is not part of the label."""
    labels = ["=1+1", "@SUM(A1)", "-2+3+cmd|' /C calc'!A0", "+1(2)", "'quoted'", "-5", "+1.5", "plain"]
    table = xr.DataArray([3, 1, 4, 1, 5, 9, 2, 6], dims="=dim()", coords={"=dim()": labels})
    release = ppd.GeneralizedLaplace(total(), epsilon=1).release(table)
    round_trip(release, tmp_path)
    with zipfile.ZipFile(saved(release, tmp_path / "formula.ppd")) as file:
        rows = list(csv.reader(file.read("table.csv").decode().splitlines(), strict=True))
    assert rows[0][0] == "'=dim()"
    assert [row[0] for row in rows[1:]] == [f"'{label}" for label in labels[:5]] + labels[5:]


@pytest.mark.quick_cases(0)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_table_survives(data, tmp_path):
    """One to three dimensions with any text, and coordinates of every kind over any of the dimensions."""
    dims = data.draw(st.lists(st.sampled_from(["a", "b c", 'd,"e"', "名"]), min_size=1, max_size=3, unique=True))
    shape = [data.draw(st.integers(1, 3)) for _ in dims]
    text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
    coords = {}
    for dim, size in zip(dims, shape, strict=True):
        kind = data.draw(st.sampled_from([text, st.integers(-(2**53), 2**53)]))
        coords[dim] = data.draw(st.lists(kind, min_size=size, max_size=size, unique=True))
    finite = st.floats(allow_nan=False, allow_infinity=False)
    for name, kind in (("text", text), ("whole", st.integers(-(2**53), 2**53)), ("decimal", finite)):
        along = data.draw(st.permutations(dims))[: data.draw(st.integers(1, len(dims)))]
        size = [len(coords[dim]) for dim in along]
        values = data.draw(st.lists(kind, min_size=int(np.prod(size)), max_size=int(np.prod(size))))
        column = np.empty(len(values), dtype={"text": object, "whole": np.int64, "decimal": np.float64}[name])
        column[:] = values
        coords[name] = (along, column.reshape(size))
    table = xr.DataArray(np.arange(np.prod(shape)).reshape(shape), dims=dims, coords=coords)
    try:
        table = ppd.as_table(table)
    except LabelError:  # look-alikes
        return
    public = covariates("text", "whole", "decimal") & (groups("text") if data.draw(st.booleans()) else Public())
    with warnings.catch_warnings(action="ignore", category=PrivacyWarning):  # cells that a group fixes
        release = ppd.GeneralizedLaplace(public, epsilon="1/7").release(table)
    round_trip(release, tmp_path)


def test_every_kind_of_public_statement_survives(tmp_path):
    table = xr.DataArray(
        [[5, 0], [3, 4], [1, 2]],
        dims=("county", "sex"),
        coords={"county": ["x", "y", "z"], "sex": ["F", "M"], "state": ("county", ["A", "A", "B"])},
    )
    public = groups("county", {"x": "P", "y": "P", "z": "Q"}) & covariates("state") & linear(2 * np.ones((1, 6), int))
    public = public & zeros({"county": "x", "sex": "M"}) & nonnegative() & groups("state")
    again = round_trip(ppd.GeneralizedLaplace(public, epsilon="0.1").release(table), tmp_path)
    assert again.public.empty.tolist() == [False, True, False, False, False, False]


def test_totals_known_independently_survive(tmp_path):
    apart = total().on([3, -1, 2], values=[6])
    release = ppd.Release([3, -1, 2], ppd.GeneralizedLaplace(Public(), epsilon=1), public=apart)
    again = round_trip(release, tmp_path)
    assert again.mechanism.public == Public()
    assert again.public.values.tolist() == [6]


def test_crossing_sums_survive_in_a_release_made_by_hand(tmp_path):
    release = ppd.Release([[3, -1], [2, 4]], ppd.GeneralizedLaplace(margin("dim_0") & margin("dim_1"), epsilon=1))
    assert round_trip(release, tmp_path).plan is None


def test_other_programs_read_the_tables(tmp_path):
    """As R's read.csv with colClasses and na.strings: standard quoting, one header, one row per cell."""
    table = xr.DataArray(np.resize([3, 0, 5], len(AWKWARD)), dims="place", coords={"place": AWKWARD})
    release = ppd.GeneralizedLaplace(total(), epsilon=1).release(table)
    with zipfile.ZipFile(saved(release, tmp_path / "r.ppd")) as archive:
        text = archive.read("table.csv").decode()
        archive.extractall(tmp_path)
    assert stat.S_IMODE(archive.infolist()[0].external_attr >> 16) == 0o644
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    labels = [f"'{label}" if label in ("'", "=1") else label for label in AWKWARD]  # no formulas
    assert rows == [["place", "released"], *[[p, str(n)] for p, n in zip(labels, release.table.values, strict=True)]]
    read = pd.read_csv(tmp_path / "table.csv", dtype={"place": str}, na_filter=False)
    assert read["place"].tolist() == labels
    assert read["released"].tolist() == release.table.values.tolist()


@pytest.mark.quick_cases(0)
def test_the_same_release_is_the_same_file(tmp_path, monkeypatch):
    release = ppd.read_release(small(tmp_path))
    first = saved(release, tmp_path / "a.ppd").read_bytes()
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert saved(release, tmp_path / "b.ppd").read_bytes() == first
    code = (
        "import sys, ppdinf as ppd; r = ppd.Release([3, -1, 2], ppd.GeneralizedLaplace(ppd.invariants.total(), "
        "epsilon='1/4')); r.save(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "there"], check=True, env={"PYTHONHASHSEED": "1"})
    ppd.Release([3, -1, 2], ppd.GeneralizedLaplace(total(), epsilon="1/4")).save(tmp_path / "here")  # of another seed
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()


def test_nothing_confidential_or_about_the_machine_is_inside(tmp_path):
    """Noise of several millions: a confidential count equals a released count with negligible probability."""
    counts = [7_654_321, 8_123_457, 9_031_333, 6_543_219]
    table = xr.DataArray(counts, dims="county", coords={"note": "cut from the secret register"}, name="secret name")
    table.attrs["source"] = "secret source"
    release = ppd.GeneralizedLaplace(total(), epsilon="1/1000000").release(table)
    data = saved(release, tmp_path / "r.ppd").read_bytes().decode("latin-1")
    for secret in [
        *map(str, counts),
        "secret",
        socket.gethostname(),
        getpass.getuser(),
        str(tmp_path),
        str(Path.cwd()),
    ]:
        assert secret not in data
    assert str(sum(counts)) in data
    assert set(json.loads(zipfile.ZipFile(tmp_path / "r.ppd").read("manifest.json"))) == {
        "schema", "provenance", "mechanism", "part_of", "kept", "dimensions", "public", "plan", "guarantee", "dims",
        "coordinates", "parts", "digest",
    }  # fmt: skip


@pytest.mark.quick_cases(0)
def test_every_byte_counts(tmp_path):
    data = small(tmp_path).read_bytes()
    broken = tmp_path / "broken.ppd"
    for at in range(len(data)):
        broken.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        with pytest.raises(ReleaseFileError, match=r"broken\.ppd"):
            ppd.read_release(broken)


@pytest.mark.quick_cases(0)
def test_every_cut_counts(tmp_path):
    data = small(tmp_path).read_bytes()
    broken = tmp_path / "broken.ppd"
    for end in range(len(data)):
        broken.write_bytes(data[:end])
        with pytest.raises(ReleaseFileError):
            ppd.read_release(broken)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_insertion_or_removal_passes(data, tmp_path):
    whole = small(tmp_path).read_bytes()
    at = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(at, min(len(whole), at + 40)))
    changed = whole[:at] + data.draw(st.binary(max_size=20)) + whole[end:]
    (tmp_path / "broken.ppd").write_bytes(changed)
    if changed != whole:
        with pytest.raises(ReleaseFileError):
            ppd.read_release(tmp_path / "broken.ppd")


def forge(path, *, manifest=None, parts=None, seal=True):
    """Modify a release file by hand; if sealed, all checksums are recomputed."""
    with zipfile.ZipFile(path) as archive:
        found = {name: archive.read(name) for name in NAMES}
    found |= parts or {}
    body = json.loads(found["manifest.json"])
    if seal:
        body["parts"] = {
            name: {"bytes": len(found[name]), "sha256": hashlib.sha256(found[name]).hexdigest()} for name in NAMES[1:]
        }
    if manifest is not None:
        manifest(body)
    if seal:
        body["digest"] = sealed.digest(body)
    found["manifest.json"] = sealed.canonical_json(body)
    write_zip(path, [(name, found[name]) for name in NAMES])
    return path


def write_zip(path, entries, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in entries:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, data, compression)


def entries_of(path):
    with zipfile.ZipFile(path) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def test_the_forger_can_write_a_valid_file(tmp_path):
    path = small(tmp_path)
    before = path.read_bytes()
    assert forge(path).read_bytes() == before


def setter(*where, to):
    def change(body):
        for key in where[:-1]:
            body = body[key]
        body[where[-1]] = to

    return change


@pytest.mark.parametrize(
    ("where", "to", "message"),
    [
        (("mechanism", "epsilon"), "1/100", "changed after it was written"),
        (("guarantee", "epsilon"), "1/100", "changed after it was written"),
        (("public", 0, "kind"), "cells", "changed after it was written"),
        (("parts", "table.csv", "bytes"), 1, "changed after it was written"),
    ],
)
def test_edits_that_are_not_sealed_break_the_digest(where, to, message, tmp_path):
    with pytest.raises(ReleaseFileError, match=message):
        ppd.read_release(forge(small(tmp_path), manifest=setter(*where, to=to), seal=False))


@pytest.mark.parametrize(
    ("where", "to", "message"),
    [
        (("schema",), 4, "schema 4 is not known: this version of ppdinf reads the schemas 2 and 3"),
        (("schema",), True, "schema True is not known"),
        (("schema",), "1", "schema '1' is not known"),
        (("schema",), 2, "missing or unknown fields"),
        (("schema",), 3.0, "not written by ppdinf"),
        (("author",), "me", r"missing or unknown fields: \['author'\]"),
        (("mechanism", "epsilon"), "1/100", "not written by ppdinf"),  # the guarantee differs
        (("mechanism", "epsilon"), "0", "epsilon must be positive"),
        (("mechanism", "epsilon"), 0.25, "not written by ppdinf"),
        (("mechanism", "epsilon"), "1e999999999", "finite number"),
        (("mechanism", "kind"), "gaussian", "does not know mechanisms of kind 'gaussian'"),
        (("mechanism", "seed"), 1, "does not have the parameters"),
        (("guarantee", "epsilon"), "1/100", "not written by ppdinf"),
        (("guarantee", "fixed"), 1, "not written by ppdinf"),
        (("provenance",), "checked", "not written by ppdinf"),
        (("provenance",), None, "not written by ppdinf"),
        (("part_of",), {"kind": "top-down"}, "not written by ppdinf"),
        (("plan",), [], "content is invalid"),
        (("plan", "seed"), 7, "content is invalid"),
        (("plan", "sampler"), ["class"], r"'sampler' in the sampler plan is invalid: \['class'\]"),
        (("plan", "exact"), "yes", "'exact' in the sampler plan is invalid: 'yes'"),
        (("plan", "exact"), False, "the sampler plan is contradictory"),
        (("plan", "distance"), 0.5, "the sampler plan is contradictory"),
        (("plan",), {"sampler": "c", "exact": False, "reason": "r", "distance": -0.5}, "is contradictory"),
        (("plan",), {"sampler": "c", "exact": False, "reason": "r", "distance": 5.0}, "is contradictory"),
        (("plan", "acceptance"), 7.0, "the sampler plan is contradictory"),
        (("kept",), [], "not written by ppdinf"),
        (("public",), {}, "stored as a list"),
        (("public", 0, "by"), ["county"], "content is invalid"),
        (("public", 0, "weights"), "size", "not written by ppdinf"),
        (("public", 1, "names"), ["population"], "no dimension or coordinate 'population'"),
        (("dims",), {"county": 2}, "3 rows"),
        (("dims",), {"county": "3"}, "the manifest states"),
        (("dims",), {"county": -3}, "3 rows"),
        (("dims",), {"county": 3.0}, "content is invalid"),
        (("dims",), {"county": 10**30}, "3 rows"),
        (("dims",), ["county"], "content is invalid"),
        (("coordinates", "size", "type"), "string", "not written by ppdinf"),
        (("coordinates", "size", "type"), "pickle", "content is invalid"),
        (("coordinates", "size", "dims"), [], "no dimension or coordinate 'size'"),
        (("coordinates", "size", "dims"), ["county", "sex"], "content is invalid"),
        (("coordinates", "county", "dims"), [], "not written by ppdinf|content is invalid"),
        (("coordinates",), [], "content is invalid"),
        (("parts",), [], "content is invalid"),
        (("parts", "other.csv"), {}, "not written by ppdinf"),
    ],
)
def test_edits_that_are_sealed_still_contradict_themselves(where, to, message, tmp_path):
    with pytest.raises(ReleaseFileError, match=message):
        ppd.read_release(forge(small(tmp_path), manifest=setter(*where, to=to)))


@pytest.mark.quick_cases(0)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_sealed_edit_of_one_field_passes(data, tmp_path):
    path = small(tmp_path)
    whole = path.read_bytes()
    body = json.loads(dict(entries_of(path))["manifest.json"])
    where = []
    while isinstance(body, dict | list) and body:
        keys = list(body) if isinstance(body, dict) else list(range(len(body)))
        where.append(data.draw(st.sampled_from(keys)))
        body = body[where[-1]]
        if data.draw(st.integers(0, 3)) == 0:
            break
    if where[0] == "plan":  # the record of the sampler does not follow from other fields
        return
    junk = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    junk = st.recursive(junk, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=4)
    forge(path, manifest=setter(*where, to=data.draw(junk)))
    if path.read_bytes() != whole:
        with pytest.raises(ReleaseFileError):
            ppd.read_release(path)


@pytest.mark.parametrize(
    ("part", "old", "new", "message"),
    [
        ("public.csv", b"\n", b"\nsurplus,1\n", "content is invalid|not written by"),
        ("public.csv", b'"total"', b'"all"', "not written by ppdinf"),
        ("public.csv", b"6", b"7", "'total'"),
        ("public.csv", b"6", b"+6", "not written by ppdinf"),
        ("public.csv", b"6", b"6.0", "not written by ppdinf"),
        ("public.csv", b'"sum"', b'"name"', "has the columns"),
        ("table.csv", b'"x"', b'"y"', "contains label 'y' twice"),
        ("table.csv", b'"x"', b"x", "not written by ppdinf"),
        ("table.csv", b",10,", b",10.5,", "content is invalid"),
        ("table.csv", b",10,", b",99999999999999999999,", "content is invalid"),
        ("table.csv", b'"z",', b'"z",1,', "not a table"),
        ("table.csv", b'"x",', b'"x,', "not a table|content is invalid|rows"),
        ("table.csv", b"\n", b"\r\n", "has the columns"),
        ("table.csv", b'"county"', b'\xff\xfe"county"', "content is invalid|has the columns"),
        ("table.csv", b'"county"', b'\xef\xbb\xbf"county"', "not written by ppdinf|has the columns"),
        ("table.csv", b'"released"', b'"county"', "has the columns"),
    ],
)
def test_sealed_edits_of_the_tables_are_refused(part, old, new, message, tmp_path):
    path = small(tmp_path)
    data = dict(entries_of(path))[part]
    assert old in data
    with pytest.raises(ReleaseFileError, match=message):
        ppd.read_release(forge(path, parts={part: data.replace(old, new, 1)}))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_invalid_numbers_are_refused(value, tmp_path):
    path = small(tmp_path)
    entries = entries_of(path)
    manifest = entries[0][1].replace(b'"schema": 3', b'"schema": ' + value.encode())
    write_zip(path, [("manifest.json", manifest), *entries[1:]])
    with pytest.raises(ReleaseFileError):
        ppd.read_release(path)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (b'{"schema": 3, "schema": 3}', "repeats a key"),
        (b'{"a": {"b": 1, "b": 2}}', "repeats a key"),
        (b"[" * 100_000, "not JSON"),
        (b'{"schema": ' + b"9" * 5000 + b"}", "release file|JSON|make sense"),
        (b"\xff\xfe", "not JSON"),
        (b"null", "schema None"),
        (b"[1]", "schema None"),
        (b"{}", "schema None"),
        (b'{"schema": 3}', "missing or unknown fields"),
        (b"", "not JSON"),
    ],
)
def test_invalid_manifests_are_refused(manifest, message, tmp_path):
    path = small(tmp_path)
    write_zip(path, [("manifest.json", manifest), *entries_of(path)[1:]])
    with pytest.raises(ReleaseFileError, match=message):
        ppd.read_release(path)


class Trap:
    def __reduce__(self):
        return Path.touch, (Path("trap was sprung"),)


def test_foreign_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = small(tmp_path)
    entries = entries_of(path)
    zipped = tmp_path / "zipped.ppd"
    foreign = {
        "a pickle": pickle.dumps(Trap()),
        "nothing": b"",
        "a table": b"county,count\nx,3\n",
        "a web page": b"<html>not found</html>",
    }
    archives = {
        "another archive": [("readme.txt", b"hello")],
        "an archive of nothing": [],
        "an added part": [*entries, ("notes.txt", b"hello")],
        "a missing part": entries[:2],
        "a part twice": [*entries, entries[1]],
        "another order": [entries[0], entries[2], entries[1]],
        "a path": [entries[0], ("../table.csv", entries[1][1]), entries[2]],
        "an absolute path": [entries[0], ("/tmp/table.csv", entries[1][1]), entries[2]],
        "a folder": [entries[0], ("table.csv/", b""), entries[2]],
        "a pickled table": [entries[0], ("table.csv", pickle.dumps(Trap())), entries[2]],
    }
    for data in foreign.values():
        zipped.write_bytes(data)
        with pytest.raises(ReleaseFileError, match=r"zipped\.ppd"):
            ppd.read_release(zipped)
    for parts in archives.values():
        with warnings.catch_warnings(action="ignore"):  # a name twice
            write_zip(zipped, parts)
        with pytest.raises(ReleaseFileError, match=r"zipped\.ppd"):
            ppd.read_release(zipped)
    assert not list(tmp_path.glob("trap*"))


@pytest.mark.quick_cases(0)
def test_decompression_bombs_are_refused(tmp_path):
    """250 MB of blanks, small when compressed, are refused before decompression."""
    path, bomb = small(tmp_path), tmp_path / "bomb.ppd"
    write_zip(bomb, entries_of(path), zipfile.ZIP_DEFLATED)
    with pytest.raises(ReleaseFileError, match="compressed or encrypted"):
        ppd.read_release(bomb)
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", entries_of(path)[0][1])
        with archive.open("table.csv", "w") as part:
            for _ in range(256):
                part.write(b" " * 2**20)
        archive.writestr("public.csv", b"")
    with pytest.raises(ReleaseFileError, match="compressed or encrypted"):
        ppd.read_release(bomb)


def test_bytes_around_the_archive_are_refused(tmp_path):
    path = small(tmp_path)
    data = path.read_bytes()
    for changed in (data + b"\n", b"#!/bin/sh\n" + data, data[:-2] + b"\x05\x00hello"):
        path.write_bytes(changed)
        with pytest.raises(ReleaseFileError):
            ppd.read_release(path)


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(FileNotFoundError):
        ppd.read_release(tmp_path / "none.ppd")
    with pytest.raises(OSError, match="directory"):
        ppd.read_release(tmp_path)


def test_saving_replaces_an_existing_file(tmp_path):
    path = tmp_path / "r.ppd"
    path.write_bytes(b"x" * 100_000)
    release = ppd.Release([3, -1, 2], ppd.GeneralizedLaplace(cells({"dim_0": 0}), epsilon=1))
    assert ppd.read_release(saved(release, str(path))).public.values.tolist() == [3]


def manifest_of_schema_2():
    """Parts of a file as written by the previous version."""
    table = b'"county","released"\n"x",5\n"y",-1\n"z",2\n'
    public = b'"sum","value"\n"total",6\n"county in P",4\n"county in Q",2\n'
    statements = [
        {"kind": "sums", "by": [], "weights": None, "within": None},
        {"kind": "parents", "dim": "county", "parents": [["x", "P"], ["y", "P"], ["z", "Q"]]},
        {"kind": "between", "low": 0, "high": None},
    ]
    manifest = {
        "schema": 2,
        "mechanism": {"kind": "generalized-laplace", "epsilon": "24/125", "norm": "l1"},
        "kept": statements,
        "public": statements,
        "plan": {"sampler": "class", "exact": True, "reason": "one public total over 3 cells"},
        "guarantee": {
            "variant": "integer-subspace",
            "epsilon": "24/125",
            "metric": "l1",
            "nearest": 2.0,
            "fixed": 1,
            "cells": 3,
            "sampler_distance": 0.0,
        },
        "dims": {"county": 3},
        "coordinates": {"county": {"dims": ["county"], "type": "string"}},
        "parts": {
            name: {"bytes": len(part), "sha256": hashlib.sha256(part).hexdigest()}
            for name, part in (("table.csv", table), ("public.csv", public))
        },
    }
    return manifest, table, public


def write_manifest(path, manifest, table, public):
    manifest["digest"] = sealed.digest(manifest)
    write_zip(path, zip(NAMES, [sealed.canonical_json(manifest), table, public], strict=True))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_files_of_the_previous_schema_are_readable(tmp_path):
    """They do not record who drew the table; saved again they have the current schema, and still do not record it."""
    assert write_manifest(tmp_path / "old.ppd", *manifest_of_schema_2()) == PINNED_2
    release = ppd.read_release(tmp_path / "old.ppd")
    assert release.table.values.tolist() == [5, -1, 2]
    assert release.public.values.tolist() == [6, 4, 2]
    assert release.plan.exact
    assert release.provenance == "unknown"
    assert "the file does not state that a mechanism drew it" in release.guarantee.describe()
    assert round_trip(release, tmp_path).provenance == "unknown"


def test_files_of_the_previous_schema_get_the_current_guarantee(tmp_path):
    """The old guarantee used the kept sums only; the guarantee in such a file is not used."""
    manifest, table, public = manifest_of_schema_2()
    manifest["guarantee"] |= {"nearest": 1.0, "fixed": 0}
    write_manifest(tmp_path / "old.ppd", manifest, table, public)
    found = ppd.read_release(tmp_path / "old.ppd").guarantee
    assert (found.nearest, found.fixed) == (2, 1)
    manifest["mechanism"]["epsilon"] = "0.192"
    write_manifest(tmp_path / "old.ppd", manifest, table, public)
    with pytest.raises(ReleaseFileError, match="not written by ppdinf"):
        ppd.read_release(tmp_path / "old.ppd")


def test_files_of_this_schema_are_readable(tmp_path):
    """A file of schema 3. A change of the format requires a new schema number."""
    manifest, table, public = manifest_of_schema_2()
    manifest |= {"schema": 3}
    rest = {name: manifest.pop(name) for name in list(manifest)[2:]}
    mechanism, kept = manifest.pop("mechanism"), rest.pop("kept")
    manifest |= {"provenance": "drawn", "mechanism": mechanism, "part_of": None, "kept": kept, "dimensions": 1} | rest
    assert write_manifest(tmp_path / "now.ppd", manifest, table, public) == PINNED
    release = ppd.read_release(tmp_path / "now.ppd")
    assert release.provenance == "drawn"
    assert release.table.values.tolist() == [5, -1, 2]


def test_only_release_draws(tmp_path):
    """A table assembled by hand, the confidential table or a seeded draw, has only a stated guarantee."""
    confidential = np.array([30, 4, 12])
    mechanism = ppd.GeneralizedLaplace(total(), epsilon=1)
    drawn, plan = mechanism.release(confidential), mechanism.sampler_plan(confidential)
    seeded = mechanism.simulate(confidential, draws=1, rng=1)[0].values
    assert round_trip(drawn, tmp_path).provenance == "drawn"
    assert drawn.guarantee.assumed == ()
    for table in (confidential, seeded, drawn.table.values):
        made = ppd.Release(table, mechanism, plan=plan)
        for release in (made, round_trip(made, tmp_path)):
            assert release.provenance == "stated"
            assert "stated by the person who put it together" in release.guarantee.describe()
    drawn.table[0] += 1
    assert drawn.provenance == "stated"  # no mechanism drew this table


@pytest.mark.parametrize("how", ["real", "records", "post-processed", "part"])
def test_every_release_is_marked_as_drawn(how, tmp_path):
    table = ppd.as_table([[30, 4], [12, 5]], dims=("state", "sex"))
    release = {
        "real": lambda: ppd.SubspaceGaussian(total(), epsilon=1, delta="1e-6").release(table),
        "records": lambda: ppd.KNormGradient(ppd.mechanisms.Mean(bound=1), epsilon=1).release(np.array([[0.1], [0.4]])),
        "post-processed": lambda: ppd.PostProcessed(total(), epsilon=1).release(table).noisy,
        "part": lambda: ppd.TopDown(total(), epsilon=1, levels=margin("state")).release(table).noisy,
    }[how]()
    again = ppd.read_release(saved(release, tmp_path / "r.ppd"))
    assert release.provenance == again.provenance == "drawn"
    assert again.part_of == release.part_of
    assert (release.part_of is None) == (how in ("real", "records"))


def test_a_file_is_not_overwritten_by_default(tmp_path):
    """Noise cannot be drawn again: an existing file is not changed."""
    path = small(tmp_path)
    before = path.read_bytes()
    other = ppd.GeneralizedLaplace(total(), epsilon=1).release([9, 9, 9])
    with pytest.raises(ReleaseFileError, match=r"small\.ppd exists.*overwrite=True"):
        other.save(path)
    assert path.read_bytes() == before
    other.save(path, overwrite=True)
    assert ppd.read_release(path).table.equals(other.table)


def test_failed_writes_leave_no_file(tmp_path):
    largest = ppd.WassersteinExponential(total() & nonnegative(), 1, 2, "x", loss=lambda y, x: abs(y - x).max())
    with pytest.raises(PrivacyError, match="is code"):
        largest.release([2, 1]).save(tmp_path / "r.ppd")
    assert not (tmp_path / "r.ppd").exists()
