"""The JSON Schema of the format, against written files and refused files."""

import copy
import json
import zipfile
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import ppdinf as ppd
from ppdinf.invariants import covariates, groups, labels, margin, nonnegative, total, unit, zeros
from ppdinf.mechanisms import Mean

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


def manifest_of(release, path):
    release.save(path)
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read("manifest.json"))


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


def test_stored_files_are_valid_and_wrong_files_are_not(tmp_path):
    from test_release_file import manifest_of_schema_2, write_manifest

    manifest, table, public = manifest_of_schema_2()
    write_manifest(tmp_path / "old.ppd", manifest, table, public)
    CHECK.validate(manifest)
    assert ppd.read_release(tmp_path / "old.ppd").provenance == "unknown"
    now = manifest_of(RELEASES["laplace"](), tmp_path / "r.ppd")
    for change in (
        {"schema": 4}, {"schema": 2}, {"provenance": "checked"}, {"seed": 1}, {"digest": "0"}, {"dims": {"a": 0}},
        {"plan": {"sampler": "class"}}, {"mechanism": {"kind": "generalized-laplace", "epsilon": 0.25}}, {"parts": {}},
        {"guarantee": now["guarantee"] | {"fixed": -1}}, {"kept": {}},
    ):  # fmt: skip
        assert not CHECK.is_valid(copy.deepcopy(now) | change), change
    for name in now:
        assert not CHECK.is_valid({key: value for key, value in now.items() if key != name}), name
