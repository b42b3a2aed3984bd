"""Release files: round trips, JSON Schema, and refusal of modified files."""

import copy
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

import jsonschema
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from saved_files import TEXT, WHOLE, array_of, labels_of_every_kind, round_trip

import ppdinf as ppd
from ppdinf.errors import LabelError, PrivacyError, PrivacyWarning, ReleaseFileError
from ppdinf.invariants import Public, cells, covariates, groups, labels, linear, margin, nonnegative, total, unit, zeros
from ppdinf.mechanisms import Mean
from ppdinf.releases import sealed

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


def any_release(draw, labels):
    """Coordinates of every kind over any of the dimensions."""
    coords, finite = dict(labels), st.floats(allow_nan=False, allow_infinity=False)
    for name, kind, dtype in (("text", TEXT, object), ("whole", WHOLE, np.int64), ("decimal", finite, np.float64)):
        along = draw(st.permutations(list(labels)))[: draw(st.integers(1, len(labels)))]
        coords[name] = (along, array_of(draw, kind, [len(labels[dim]) for dim in along], dtype))
    shape = [len(values) for values in labels.values()]
    table = ppd.as_table(xr.DataArray(np.arange(np.prod(shape)).reshape(shape), dims=list(labels), coords=coords))
    public = covariates("text", "whole", "decimal") & (groups("text") if draw(st.booleans()) else Public())
    with warnings.catch_warnings(action="ignore", category=PrivacyWarning):  # cells that a group fixes
        return ppd.GeneralizedLaplace(public, epsilon="1/7").release(table)


def any_measurements(draw, labels):
    """Values and scales of any sums, some of them missing."""
    first = next(iter(labels))
    states = draw(st.lists(TEXT, min_size=len(labels[first]), max_size=len(labels[first])))
    by = draw(st.lists(st.sampled_from(list(labels)), min_size=1, unique=True))
    shape = [len(labels[dim]) for dim in by]
    scales = array_of(draw, st.fractions("1/9", 9), shape)
    return ppd.Measurements(
        labels,
        ppd.measured(margin(*by), array_of(draw, WHOLE | st.none(), shape), LAWS.DoubleGeometric(scales)),
        ppd.measured(groups("state"), [1] * len(set(states)), LAWS.DiscreteGaussian(2)),
        coords={"state": (first, states)},
        public={total(): draw(WHOLE)},
    )


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("made", [any_release, any_measurements])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), labels=labels_of_every_kind())
def test_any_content_survives(data, labels, made, tmp_path):
    try:
        content = made(data.draw, labels)
    except LabelError:  # look-alikes
        return
    round_trip(content, tmp_path)


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


def manifest_in(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("manifest.json"))


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


@pytest.mark.parametrize(("where", "to", "message"), [
    (("schema",), 4, "schema 4 is not known: this version of ppdinf reads schema 3"),
    (("schema",), True, "schema True is not known"),
    (("schema",), "1", "schema '1' is not known"),
    (("schema",), 2, "schema 2 is not known"), (("schema",), 3.0, "not written by ppdinf"),
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
    (("plan",), [], "content is invalid"), (("plan", "seed"), 7, "content is invalid"),
    (("plan", "sampler"), ["class"], r"'sampler' in the sampler plan is invalid: \['class'\]"),
    (("plan", "exact"), "yes", "'exact' in the sampler plan is invalid: 'yes'"),
    (("plan", "exact"), False, "the sampler plan is contradictory"),
    (("plan", "distance"), 0.5, "the sampler plan is contradictory"),
    (("plan",), {"sampler": "c", "exact": False, "reason": "r", "distance": -0.5}, "is contradictory"),
    (("plan",), {"sampler": "c", "exact": False, "reason": "r", "distance": 5.0}, "is contradictory"),
    (("plan", "acceptance"), 7.0, "the sampler plan is contradictory"),
    (("kept",), [], "not written by ppdinf"), (("public",), {}, "stored as a list"),
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
    (("coordinates",), [], "content is invalid"), (("parts",), [], "content is invalid"),
    (("parts", "other.csv"), {}, "not written by ppdinf"),
])  # fmt: skip
def test_edits_that_are_sealed_still_contradict_themselves(where, to, message, tmp_path):
    with pytest.raises(ReleaseFileError, match=message):
        ppd.read_release(forge(small(tmp_path), manifest=setter(*where, to=to)))


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


@pytest.mark.parametrize(("manifest", "message"), [
    (b'{"schema": 3, "schema": 3}', "repeats a key"),
    (b'{"a": {"b": 1, "b": 2}}', "repeats a key"),
    (b"[" * 100_000, "not JSON"),
    (b'{"schema": ' + b"9" * 5000 + b"}", "release file|JSON|make sense"),
    (b"\xff\xfe", "not JSON"), (b"null", "schema None"), (b"[1]", "schema None"), (b"{}", "schema None"),
    (b'{"schema": 3}', "missing or unknown fields"),
    (b"", "not JSON"),
])  # fmt: skip
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
        "a line after the archive": path.read_bytes() + b"\n",
        "a script before the archive": b"#!/bin/sh\n" + path.read_bytes(),
        "a comment in the archive": path.read_bytes()[:-2] + b"\x05\x00hello",
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


def test_files_of_this_schema_are_readable(tmp_path):
    """A change of the format requires a new schema number."""
    parts = {
        "table.csv": b'"county","released"\n"x",5\n"y",-1\n"z",2\n',
        "public.csv": b'"sum","value"\n"total",6\n"county in P",4\n"county in Q",2\n',
    }
    statements = [
        {"kind": "sums", "by": [], "weights": None, "within": None},
        {"kind": "parents", "dim": "county", "parents": [["x", "P"], ["y", "P"], ["z", "Q"]]},
        {"kind": "between", "low": 0, "high": None},
    ]
    manifest = {
        "schema": 3, "provenance": "drawn",
        "mechanism": {"kind": "generalized-laplace", "epsilon": "24/125", "norm": "l1"},
        "part_of": None, "kept": statements, "dimensions": 1, "public": statements,
        "plan": {"sampler": "class", "exact": True, "reason": "one public total over 3 cells"},
        "guarantee": {"variant": "integer-subspace", "epsilon": "24/125", "metric": "l1", "nearest": 2.0, "fixed": 1,
                      "cells": 3, "sampler_distance": 0.0},
        "dims": {"county": 3},
        "coordinates": {"county": {"dims": ["county"], "type": "string"}},
    }  # fmt: skip
    data = sealed.pack(manifest, parts)
    assert hashlib.sha256(data).hexdigest() == PINNED
    (tmp_path / "now.ppd").write_bytes(data)
    release = ppd.read_release(tmp_path / "now.ppd")
    assert release.provenance == "drawn"
    assert release.table.values.tolist() == [5, -1, 2]
    assert release.public.values.tolist() == [6, 4, 2]
    assert release.plan.exact
    CHECK.validate(manifest_in(tmp_path / "now.ppd"))


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
    with pytest.raises(ReleaseFileError, match=r"small\.ppd exists.*no release can be drawn again.*overwrite=True"):
        other.save(path)
    assert path.read_bytes() == before
    other.save(path, overwrite=True)
    assert ppd.read_release(path).table.equals(other.table)


def test_failed_writes_leave_no_file(tmp_path):
    largest = ppd.WassersteinExponential(total() & nonnegative(), 1, 2, "x", loss=lambda y, x: abs(y - x).max())
    with pytest.raises(PrivacyError, match="is code"):
        largest.release([2, 1]).save(tmp_path / "r.ppd")
    assert not (tmp_path / "r.ppd").exists()


SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "release_file.schema.json").read_text(encoding="utf-8"))
CHECK = jsonschema.Draft202012Validator(SCHEMA)
TABLE = ppd.as_table([[30, 4], [12, 5]], dims=("state", "sex"))
POPULATED = TABLE.assign_coords(people=("state", [100, 50]), region=("state", ["a", "b"]))
BOUNDED = total() & nonnegative()

RELEASES = {
    "laplace": lambda: ppd.GeneralizedLaplace(total(), epsilon="1/4").release(TABLE),
    "everything public": lambda: ppd.GeneralizedLaplace(
        groups("region") & margin("sex") & covariates("people") & labels("sex", [0, 1])
        & unit("household", contributions=3) & ppd.invariants.cells({"state": 0, "sex": 1}), epsilon=1, norm="l2",
    ).release(POPULATED),
    "zeros": lambda: ppd.GeneralizedLaplace(zeros({"dim_0": 1}), epsilon=1).release([3, 0, 2]),
    "gaussian": lambda: ppd.GeneralizedGaussian(total(), rho="1/8").release(TABLE),
    "calibrated": lambda: ppd.GeneralizedGaussian(total(), 1, "1e-6", calibration="exact").release(TABLE),
    "conditioned": lambda: ppd.Conditioned(BOUNDED, noise=ppd.laws.Staircase(1, 2)).release(TABLE),
    "wasserstein": lambda: ppd.WassersteinExponential(BOUNDED, 1, 2, "x").release(TABLE),
    "subspace": lambda: ppd.SubspaceGaussian(total(), 1, "1e-6").release(TABLE),
    "k-norm": lambda: ppd.KNorm(total(), epsilon="1/4").release(TABLE),
    "suppression": lambda: ppd.Suppression(total()).release(TABLE),
    "post-processed": lambda: ppd.PostProcessed(total(), epsilon=1).release(TABLE).noisy,
    "rounded": lambda: ppd.mechanisms.random_rounding(3, 40).release(TABLE),
    "two-stage": lambda: ppd.counts.TwoStage(1, 40).release(TABLE),
    "mean": lambda: ppd.KNormGradient(Mean(bound=1), epsilon=1).release(np.array([[0.1], [0.4]])),
    "stated": lambda: ppd.Release(TABLE, ppd.GeneralizedLaplace(total(), epsilon="1/4")),
    "part": lambda: ppd.GeneralizedLaplace(margin("sex"), epsilon=1).release(TABLE).sel(sex=1),
}  # fmt: skip

DOCS = Path(__file__).parents[2] / "docs"
MEASURED = jsonschema.Draft202012Validator(
    json.loads((DOCS / "measurement_file.schema.json").read_text(encoding="utf-8"))
)
LAWS = ppd.laws
MEASUREMENTS = {
    "sums": (ppd.measured(margin("state"), [30, -2], LAWS.DoubleGeometric("1/4")),),
    "several": (
        ppd.measured(total(), [51], LAWS.DiscreteGaussian(variance=2)),
        ppd.measured(margin("sex"), [42, np.nan], LAWS.RandomRounding(3)),
    ),
    "matrix": (ppd.measured(margin("state", "sex"), [[0, 1], [1, 0]], LAWS.TransitionMatrix(np.full((2, 2), 0.5))),),
    "nothing": (),
}


def manifest_of(content, path):
    content.save(path)
    return manifest_in(path)


def test_the_schemas_are_valid():
    for checked in (CHECK, MEASURED):
        jsonschema.Draft202012Validator.check_schema(checked.schema)


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_measurement_files_are_valid(name, tmp_path):
    """Files with a missing or modified field are not valid."""
    public = {total(): 1} if name == "nothing" else {}
    manifest = manifest_of(ppd.Measurements(POPULATED, *MEASUREMENTS[name], public=public), tmp_path / "m.ppd")
    MEASURED.validate(manifest)
    for change in (
        {"schema": 2}, {"schema": True}, {"holds": "releases"}, {"seed": 1}, {"digest": "0"}, {"dims": {"a": 0}},
        {"parts": {}}, {"measured": [[]]}, {"measured": [{}]}, {"public": {}}, {"coordinates": {"a": {"dims": ["a"]}}},
        {"parts": manifest["parts"] | {"measured-0.csv": manifest["parts"]["cells.csv"]}},
    ):  # fmt: skip
        assert not MEASURED.is_valid(manifest | change), change
    for field in manifest:
        assert not MEASURED.is_valid({key: value for key, value in manifest.items() if key != field}), field
    assert not CHECK.is_valid(manifest)


@pytest.mark.filterwarnings("ignore::ppdinf.errors.PrivacyWarning")
@pytest.mark.parametrize("name", RELEASES)
def test_written_files_are_valid(name, tmp_path):
    manifest = manifest_of(RELEASES[name](), tmp_path / "r.ppd")
    CHECK.validate(manifest)
    assert manifest["provenance"] == ("stated" if name == "stated" else "drawn")


def test_wrong_files_are_not_valid(tmp_path):
    now = manifest_of(RELEASES["laplace"](), tmp_path / "r.ppd")
    for change in (
        {"schema": 4}, {"schema": 2}, {"provenance": "checked"}, {"seed": 1}, {"digest": "0"}, {"dims": {"a": 0}},
        {"plan": {"sampler": "class"}}, {"mechanism": {"kind": "generalized-laplace", "epsilon": 0.25}}, {"parts": {}},
        {"guarantee": now["guarantee"] | {"fixed": -1}}, {"kept": {}},
    ):  # fmt: skip
        assert not CHECK.is_valid(copy.deepcopy(now) | change), change
    for name in now:
        assert not CHECK.is_valid({key: value for key, value in now.items() if key != name}), name
