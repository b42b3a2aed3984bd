"""Releases in parts: the law of the complete release, verified parts, one expense, nothing half published."""

import itertools
import os
import secrets
import signal
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from typer.testing import CliRunner

import ppdinf as ppd
from ppdinf.cli import app
from ppdinf.errors import (
    BudgetError,
    CountError,
    InternalError,
    InvariantError,
    LabelError,
    ModelError,
    PrivacyError,
    PrivacyWarning,
    ReleaseFileError,
    SignatureError,
    WriteError,
)
from ppdinf.mechanisms import table_mechanism
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.releases import part_writer, read_parts, release_parts, sealed
from ppdinf.releases.signatures import new_key, sign, verify

inv = ppd.invariants
STATES = ["A", "B", "C"]
ADD_UP = "does not add up over parts"
MECHANISM = ppd.GeneralizedLaplace(inv.hierarchy("state", "county"), epsilon="1/2")


def table(state, blocks=6, counties=2):
    """Blocks in counties of one state, whose counts depend on the label of the state."""
    county = [f"{state}{k * counties // blocks}" for k in range(blocks)]
    coords = {"county": ("block", county), "state": ("block", [state] * blocks)}
    return xr.DataArray(np.arange(blocks) * (ord(state) - 64), dims="block", coords=coords)


def released(folder, mechanism=MECHANISM, read=table, labels=STATES, **options):
    return release_parts(mechanism, read, labels, by="state", folder=folder, progressbar=False, **options)


# -- law --------------------------------------------------------------------------------------------------------------


def largest_difference(mechanism, parts):
    """Spread of log P(noise of the complete table) - sum of log P(noise of a part), over noise in {-2, ..., 2}.

    It is 0 if the noise of the complete table is a product of the noise of the parts, and infinite if they have other
    sums.
    """
    local = mechanism.on_part(part_writer.split_statements(mechanism.public, "state")[0])
    whole = xr.concat(parts, "block")
    bound = [(m, m.public.on(x), x.values) for m, x in ((mechanism, whole), *((local, part) for part in parts))]
    ends = np.cumsum([part.size for part in parts])[:-1]
    found = set()
    for noise in map(np.array, itertools.product(range(-2, 3), repeat=whole.size)):
        pieces = [noise, *np.split(noise, ends)]
        joint, *single = (
            -np.inf if (system.A @ z).any() else m.log_weight(system, x + z, x)
            for (m, system, x), z in zip(bound, pieces, strict=True)
        )
        if np.isfinite([joint, sum(single)]).any():
            found.add(round(joint - sum(single), 9))
    return np.ptp(list(found)) if np.isfinite(list(found)).all() else np.inf


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("mechanism", [
    MECHANISM,
    ppd.GeneralizedGaussian(inv.margin("state"), rho="1/8"),
    ppd.GeneralizedLaplace(inv.covariates("state", "county"), epsilon=1),
], ids=["hierarchy", "Gaussian", "no sums"])  # fmt: skip
def test_the_noise_is_that_of_the_complete_table(mechanism):
    assert largest_difference(mechanism, [table("A", 3, 1), table("B", 2, 1)]) == 0


def test_other_noise_is_not_a_product(monkeypatch):
    """Wrong variants: the national total alone is public; the noise has one scale for all cells."""
    parts = [table("A", 2), table("B", 2)]
    monkeypatch.setattr(part_writer, "_sums_up", lambda *_: True)
    assert largest_difference(ppd.GeneralizedLaplace(inv.total() & inv.covariates("state"), epsilon=1), parts) > 0.1
    l2 = ppd.GeneralizedLaplace(inv.margin("state"), epsilon=1, norm="l2")
    monkeypatch.setattr(ppd.GeneralizedLaplace, "on_part", ppd.GeneralizedLaplace._with_public)
    assert largest_difference(l2, parts) > 0.1


def noise(folder):
    """Released noise of three equal parts of 400 cells, one row per part."""
    mechanism = ppd.GeneralizedLaplace(inv.covariates("state", "county"), epsilon="1/4")
    parts = released(folder, mechanism, lambda state: table(state, 400) * 0)
    return np.stack([parts[state].table.values for state in parts])


def test_parts_have_independent_noise(tmp_path, monkeypatch):
    """Of 400 cells, correlations are below 0.25 except in one of 2 million runs; the variance is 31.8."""
    independent = noise(tmp_path / "a")
    assert np.abs(np.corrcoef(independent)[np.triu_indices(3, 1)]).max() < 0.25
    assert 25 < independent.var() < 40
    monkeypatch.setattr(table_mechanism, "secure_stream", lambda: seeded_stream(1))  # wrong variant: one stream
    assert np.abs(np.corrcoef(noise(tmp_path / "b"))[np.triu_indices(3, 1)]).max() > 0.99


# -- content and files ------------------------------------------------------------------------------------------------


def test_public_sums_and_guarantee_are_those_of_the_complete_table(tmp_path):
    parts = released(tmp_path / "out")
    whole = xr.concat([table(state) for state in STATES], "block").assign_coords(block=range(18))
    complete = MECHANISM.release(whole)
    joint = {"total": int(whole.sum())}
    assert dict(parts.sums) == joint
    single = Counter(dict(zip(complete.public.names, complete.public.values.tolist(), strict=True))) - Counter(joint)
    assert single == sum((Counter(dict(zip(part.public.names, part.public.values.tolist(), strict=True)))
                          for part in parts.values()), Counter())  # fmt: skip
    assert all(part.check().agrees.all() for part in parts.values())
    assert parts.guarantee.numbers() == complete.guarantee.numbers()
    assert parts.guarantee.unprotected == complete.guarantee.unprotected
    assert parts["B"].provenance == "drawn"
    assert "state = B" in parts["B"].guarantee.describe()
    assert list(parts) == STATES
    assert "Z" not in parts
    with pytest.raises(KeyError):
        parts["Z"]


def test_only_the_accessed_part_is_read(tmp_path):
    released(tmp_path / "out")
    (tmp_path / "out" / "part-00000.ppd").unlink()
    parts = read_parts(tmp_path / "out")
    assert parts["C"].table.sum() == table("C").sum()
    assert "A" in parts
    with pytest.raises(ReleaseFileError, match=r"part-00000.ppd, the part state=A, is missing"):
        parts["A"]


def test_changed_parts_are_detected(tmp_path):
    released(tmp_path / "out")
    other = released(tmp_path / "other")
    parts = read_parts(tmp_path / "out")
    first, second = (tmp_path / "out" / f"part-0000{k}.ppd" for k in (0, 1))
    original = second.read_bytes()
    for data in (original[:-1], original.replace(b'"B0"', b'"B9"', 1), first.read_bytes(),
                 (other.folder / second.name).read_bytes()):  # fmt: skip
        second.write_bytes(data)
        with pytest.raises(ReleaseFileError, match="state=B, was changed"):
            parts["B"]
    second.write_bytes(original)
    index = tmp_path / "out" / "index.ppd"
    index.write_bytes(index.read_bytes().replace(b'"state"', b'"stale"', 1))
    with pytest.raises(ReleaseFileError):
        read_parts(tmp_path / "out")
    with pytest.raises(ReleaseFileError, match=r"ppd\.releases\.read_parts"):
        ppd.read_release(other.folder / "index.ppd")


def test_a_part_under_another_label_is_refused(tmp_path):
    """An index that names each file for another part, with correct digests."""
    parts = released(tmp_path / "out")
    files = dict(zip(STATES, [parts.files[label] for label in "BAC"], strict=True))
    a, b = (tmp_path / "out" / f"part-0000{k}.ppd" for k in (0, 1))
    contents = a.read_bytes(), b.read_bytes()
    b.write_bytes(contents[0])
    a.write_bytes(contents[1])
    vars(parts)["files"].update(files)
    with pytest.raises(ReleaseFileError, match="is not the part state=A"):
        parts["A"]


def test_a_part_without_rows_is_named(tmp_path):
    rows = pd.DataFrame({"state": ["A", "A"], "county": ["A0", "A1"], "n": [3, 1]})

    def read(state):
        return ppd.as_table(rows[rows.state == state], count="n", dims=["county"], covariates=["state"])

    with pytest.raises(CountError, match=r"^state=B: the table has shape"):
        released(tmp_path / "out", ppd.GeneralizedLaplace(inv.margin("state"), epsilon=1), read, ["A", "B"])


def test_a_signature_covers_every_part(tmp_path):
    pytest.importorskip("cryptography")
    index = released(tmp_path / "out").folder / "index.ppd"
    new_key(tmp_path / "agency.key")
    sign(index, tmp_path / "agency.key", title="Persons by block", period="2030")
    command = ["check", str(index), "--key", str(tmp_path / "agency.key.pub")]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0
    assert "18 cells in 3 files by state" in shown.output
    assert "epsilon = 1 " in shown.output
    stated = verify(index, tmp_path / "agency.key.pub", period="2030")
    assert (stated.kind, stated.title) == ("release in parts", "Persons by block")
    again = released(tmp_path / "again").folder / "index.ppd"
    index.write_bytes(again.read_bytes())
    with pytest.raises(SignatureError):
        verify(index, tmp_path / "agency.key.pub")
    (tmp_path / "again" / "part-00001.ppd").write_bytes((tmp_path / "out" / "part-00001.ppd").read_bytes())
    changed = CliRunner().invoke(app, ["check", str(again)])
    assert changed.exit_code == 1
    assert "state=B, was changed" in " ".join(changed.output.split())


@pytest.mark.deep
def test_processes(tmp_path):
    parts = released(tmp_path / "out", workers=2, labels=["A", "B"])
    assert parts["B"].table.sum() == table("B").sum()


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")  # settings of the cluster, such as ports and dependencies
def test_a_part_of_a_lost_worker_is_drawn_again(tmp_path):
    """A worker is lost in the second pass, which draws: one file of every part is published."""
    distributed = pytest.importorskip("distributed")

    def lost_once(label):
        begun = tmp_path / f"{label}-{secrets.token_hex(4)}"
        begun.touch()
        if label == "B" and len(list(tmp_path.glob("B-*"))) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return table(label)

    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        parts = released(tmp_path / "out", read=lost_once, workers=client, labels=["A", "B"])
    assert len(list(tmp_path.glob("B-*"))) == 3
    assert {name: parts[name].table.sum().item() for name in "AB"} == {name: table(name).sum() for name in "AB"}
    assert len(list((tmp_path / "out").iterdir())) == 3  # two parts and the index


# -- sessions and failures --------------------------------------------------------------------------------------------


def session_of(tmp_path):
    return ppd.Session.open(tmp_path / "people.budget", epsilon=1)


def test_all_parts_are_one_expense(tmp_path):
    session = session_of(tmp_path)
    options = {"by": "state", "progressbar": False, "name": "2030"}
    parts = session.release_parts(MECHANISM, table, STATES, folder=tmp_path / "out", **options)
    assert parts["A"].provenance == "drawn"
    assert session.left == {"epsilon": 1 - MECHANISM.epsilon}
    assert session.table()[["name", "cells", "outcome"]].values.tolist() == [["2030", "18", "drawn"]]
    dear = ppd.GeneralizedLaplace(MECHANISM.public, epsilon=2)
    with pytest.raises(BudgetError):  # before a part is read
        session.release_parts(dear, lambda state: pytest.fail("read"), STATES, folder=tmp_path / "more", **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "people.budget", "people.budget.lock"]
    with pytest.raises(PrivacyError, match="one line of text"):
        session.release_parts(MECHANISM, table, STATES, by="state", folder=tmp_path / "more", name="a\nb")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, InternalError])
def test_an_interruption_spends_one_expense_and_publishes_nothing(tmp_path, error):
    session, reads = session_of(tmp_path), []

    def read(state):
        reads.append(state)
        if len(reads) == 5:  # the second part of the second pass
            raise error("interrupted")
        return table(state)

    with pytest.raises(error):
        session.release_parts(MECHANISM, read, STATES, by="state", folder=tmp_path / "out", progressbar=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.budget", "people.budget.lock"]
    spent = 0 if error is InternalError else MECHANISM.epsilon
    assert session.spent == {"epsilon": spent}
    assert len(session.table()) == 1


def test_a_table_that_changes_between_the_passes(tmp_path):
    reads = Counter()

    def read(state):
        reads[state] += 1
        return table(state, 6 + (reads["B"] == 2))

    with pytest.raises(LabelError, match="state=B changed"):
        released(tmp_path / "out", read=read)
    assert list(tmp_path.iterdir()) == []

    def renamed(state):
        reads[state] += 1
        return table(state).assign_coords(county=("block", [f"{state}{reads[state]}"] * 6))

    with pytest.raises(LabelError, match="state=A changed"):
        released(tmp_path / "out", read=renamed)
    assert list(tmp_path.iterdir()) == []
    reads.clear()

    def more(state):
        reads[state] += 1
        return table(state) + (reads["C"] == 2)

    with pytest.raises(InvariantError, match="the public sums of state=C changed after they were validated"):
        released(tmp_path / "out", read=more)
    assert list(tmp_path.iterdir()) == []


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "error", "message"),
    [
        (ppd.GeneralizedLaplace(inv.total() & inv.covariates("state", "county"), epsilon=1), InvariantError,
         r"the total can have cells of several labels of 'state'.*add margin\('state'\)"),
        (ppd.GeneralizedLaplace(inv.margin("state") & inv.margin("county"), epsilon=1), InvariantError,
         "the sum for every county can have cells of several labels"),
        (ppd.GeneralizedLaplace(inv.margin("state", "county") & inv.groups("block", dict.fromkeys(range(6), 0)),
                                epsilon=1), InvariantError, "group of block"),
        (ppd.Conditioned(inv.margin("state", "county") & inv.nonnegative(), ppd.mechanisms.DoubleGeometric(1)),
         ModelError, "Conditioned"),
        (ppd.GeneralizedLaplace(inv.margin("state", "county"), epsilon=1, norm="l2"), PrivacyError, ADD_UP),
        (ppd.SubspaceLaplace(inv.margin("state", "county"), epsilon=1), PrivacyError, ADD_UP),
        (ppd.GeneralizedGaussian(inv.margin("state", "county"), epsilon=1, delta=1e-6, calibration="exact"),
         PrivacyError, ADD_UP),
        ("laplace", PrivacyError, "must be a ppdinf mechanism"),
    ],
)  # fmt: skip
def test_what_is_not_proved_is_refused(tmp_path, mechanism, error, message):
    def read(state):
        raise AssertionError("a refusal needs no table")

    with pytest.raises(error, match=message):
        released(tmp_path / "out", mechanism, read)
    assert list(tmp_path.iterdir()) == []


REGIONS = {"A": "west", "B": "east", "C": "west"}


def in_region(state, nation="US"):
    coords = {"region": ("block", [REGIONS[state]] * 6), "nation": ("block", [nation] * 6)}
    return table(state).assign_coords(coords)


def test_coarser_levels_follow_from_nested_levels(tmp_path):
    """With parts by state, sums of regions are sums of states; by region, counties lie in states and states in regions.

    Wrong variant: without the statement that states lie in regions, sums of regions do not follow.
    """
    levels = inv.hierarchy("nation", "region", "state", "county")
    mechanism = ppd.GeneralizedLaplace(levels, epsilon=1)
    parts = released(tmp_path / "states", mechanism, in_region)
    wanted = {state: int(table(state).sum()) for state in STATES}
    joint = {"region=west": wanted["A"] + wanted["C"], "region=east": wanted["B"]}
    whole = sum(wanted.values())
    assert dict(parts.sums) == joint | {"total": whole, "nation=US": whole}

    def region(name):
        return xr.concat([in_region(state) for state in STATES if REGIONS[state] == name], "block").assign_coords(
            block=range(6 * sum(found == name for found in REGIONS.values()))
        )

    by_region = release_parts(
        mechanism, region, ["west", "east"], by="region", folder=tmp_path / "regions", progressbar=False
    )
    assert set(by_region["west"].public.names) >= {"region=west", "state=A", "state=C", "county=A0", "county=C1"}
    assert dict(by_region.sums) == {"total": whole, "nation=US": whole}
    assert largest_difference(mechanism, [in_region("A")[:2], in_region("B")[:2]]) == 0
    loose = ppd.GeneralizedLaplace(inv.margin("region") & inv.hierarchy("state", "county"), epsilon=1)
    with pytest.raises(InvariantError, match="the sum for every region can have cells of several labels"):
        released(tmp_path / "loose", loose, in_region)


def test_outer_levels_that_do_not_nest_across_parts_are_refused(tmp_path):
    mechanism = ppd.GeneralizedLaplace(inv.hierarchy("nation", "region", "state", "county"), epsilon=1)
    with pytest.raises(InvariantError, match="region=west lies in nation=A and in nation=C"):
        released(tmp_path / "out", mechanism, lambda state: in_region(state, nation=state))


def test_labels_of_two_kinds_are_refused(tmp_path):
    """1 and "1" would be added to one public sum."""
    mechanism = ppd.GeneralizedLaplace(inv.margin("state", "age") & inv.margin("age"), epsilon=1)

    def read(state):
        ages = [0, 1] if state == "A" else ["0", "1"]
        coords = {"age": ages, "state": ("age", [state] * 2)}
        return xr.DataArray([[3, 4], [1, 2]], dims=("sex", "age"), coords=coords | {"sex": ["f", "m"]})

    with pytest.raises(LabelError, match="the labels of 'age' are str in state=B, but int in state=A"):
        released(tmp_path / "out", mechanism, read)
    with pytest.raises(LabelError, match="the table of state=1 must have this label only, found '1'"):
        released(tmp_path / "out", read=lambda _: table("A").assign_coords(state=("block", ["1"] * 6)), labels=[1])


def with_count(state, value):
    found = table(state)
    return found.where(found.block != 2, value).astype(np.int64)


@pytest.mark.parametrize(
    ("read", "error", "message"),
    [
        (lambda state: with_count(state, -1), CountError, "state=A: "),
        (lambda state: table("B"), LabelError, "state='A' must have this label only, found 'B'"),
        (lambda state: table(state).drop_vars("state"), LabelError, "state=A: .* no dimension or coordinate 'state'"),
        (lambda state: table(state).assign_coords(home=("block", range(6))), LabelError, "'home' public"),
        (lambda state: table(state).rename(block=f"block{state}"), LabelError, "state=B has the dimensions"),
        (lambda state: table(state).assign_coords(county=("block", [f"{'A' if state == 'C' else state}1"] * 6)),
         InvariantError, "county=A1 lies in state=A and in state=C"),
    ],
)  # fmt: skip
def test_tables_are_validated_before_anything_is_drawn(tmp_path, monkeypatch, read, error, message):
    monkeypatch.setattr(table_mechanism, "secure_stream", lambda: pytest.fail("noise was drawn"))
    with pytest.raises(error, match=message):
        released(tmp_path / "out", read=read)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_reader_names_the_part(tmp_path):
    with pytest.raises(ZeroDivisionError) as caught:
        released(tmp_path / "out", read=lambda state: table(state) if state == "A" else 1 // 0)
    assert caught.value.__notes__ == ["The error occurred in the part state=B."]


def test_folders_and_labels(tmp_path):
    with pytest.raises(LabelError, match="at least one part, each once, found 0 labels"):
        released(tmp_path / "out", labels=[])
    with pytest.raises(LabelError, match="each once, found 2"):
        released(tmp_path / "out", labels=["A", "A"])
    with pytest.raises(ReleaseFileError, match="no release can be drawn again"):
        released(tmp_path)
    with pytest.raises(WriteError):
        released(tmp_path / "absent" / "out")


def test_warnings_come_once(tmp_path):
    mechanism = ppd.GeneralizedLaplace(inv.margin("state", "county") & inv.cells({"block": 0}), epsilon=1)
    with pytest.warns(PrivacyWarning, match="fix 1 of 6 cells") as caught:
        parts = released(tmp_path / "out", mechanism, labels=["A"])
    assert len([w for w in caught if issubclass(w.category, PrivacyWarning)]) == 1
    assert parts.guarantee.fixed == 1


def test_an_index_with_invalid_fields_is_refused(tmp_path):
    released(tmp_path / "out")
    manifest = sealed.unpack((tmp_path / "out" / "index.ppd").read_bytes(), lambda _: ("public.csv",))[0]
    for change in ({"schema": 2}, {"by": 3}, {"files": [{"label": 1.5, "size": 1, "sha256": ""}]}, {"holds": "x"},
                   {"guarantee": manifest["guarantee"] | {"cells": "many"}}, {"unknown": 1}):  # fmt: skip
        data = sealed.pack(manifest | change, {"public.csv": b'"sum","value"\n"total",45\n'})
        (tmp_path / "out" / "index.ppd").write_bytes(data)
        with pytest.raises(ReleaseFileError):
            read_parts(tmp_path / "out")
