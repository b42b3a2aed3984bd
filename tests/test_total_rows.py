"""Totals among the labels of a table are refused wherever a table enters the package."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from typer.testing import CliRunner

import ppdinf as ppd
from ppdinf import read_published
from ppdinf.cli import app
from ppdinf.errors import LabelError
from ppdinf.tables.frame import Frame
from ppdinf.tables.totals import named_totals, refuse_totals

inv = ppd.invariants
MESSAGE = "a total would count everybody twice"
COUNTIES = {"Adams": 212, "Beaver": 95, "Carbon": 330, "Dauphin": 41}
STATE = COUNTIES | {"Pennsylvania": 678}
CODES = {"01000": 47, "01001": 12, "01003": 35, "02000": 20, "02013": 11, "02016": 9}
NAMES = [
    *("TOTAL:", "*Total*", "_T", "all_ages", "(All)", "State total", "US Total", "Statewide", "Both sexes"),
    "All causes of death",
    *("All races", "Total population", "Total, all ages", "Males and females", "Sub-total", "Overall", "TOT"),
    *("gesamt", "Insgesamt", "Summe", "Gesamtergebnis", "Beide Geschlechter", "Alle Altersgruppen", "Zusammen"),
    *("Ensemble", "Total général", "Sous-total", "Les deux sexes", "Tous les âges", "Toutes"),
    *("Total general", "Ambos sexos", "Todas las edades", "Totale complessivo", "Tutte le età", "Maschi e femmine"),
    *("Total geral", "Todas as idades", "Ambos os sexos", "Totaal"),
]
OTHERS = [
    *("Allegheny", "Wallace", "All Saints", "All other", "Somme", "Sumter", "Gesamtschule", "Total loss"),
    "Nordic combined",
]


def series(counts, name="county"):
    return pd.Series(counts).rename_axis(name)


def refused(labels, *tables, **options):
    """Return whether labels with tables of counts by dimension are refused."""
    frame = Frame(tuple(labels), tuple(map(len, labels.values())), {
        dim: ((dim,), np.array(texts, dtype=object)) for dim, texts in labels.items()
    })  # fmt: skip
    try:
        refuse_totals(frame, tables, **options)
    except LabelError:
        return True
    return False


@pytest.mark.parametrize("name", NAMES)
def test_names_of_totals(name):
    assert refused({"age": ["young", name]})
    assert not refused({"age": [name]})
    assert not refused({"age": ["young", name]}, not_totals=[name])


def test_names_that_resemble_totals():
    assert not named_totals(np.array(OTHERS, dtype=object))[0].any()


def test_every_door_of_curators_refuses_a_total_that_only_its_counts_show():
    table = series(STATE)
    mechanism = ppd.GeneralizedLaplace(inv.Public(), epsilon=1)
    doors = [
        lambda given: ppd.as_table(given),
        lambda given: ppd.as_table(given.rename("n").reset_index(), count="n", dims=["county"]),
        mechanism.release,
        lambda given: mechanism.simulate(given, draws=1, rng=1),
        lambda given: ppd.plan(lambda epsilon: ppd.GeneralizedLaplace(inv.Public(), epsilon), given, [1]),
        lambda given: mechanism.expected_error(given),
        lambda given: ppd.counts.TwoStage(1, n=1000).release(given),
        lambda given: ppd.PostProcessed(inv.Public(), 1, "rounded").release(given),
    ]
    for door in doors:
        for given in (table, xr.DataArray(table)) if door is not doors[1] else (table,):
            with pytest.raises(LabelError, match=MESSAGE) as caught:
                door(given)
            assert "'Pennsylvania'" in str(caught.value)
            assert not {str(count) for count in STATE.values()} & set(str(caught.value).split())
    stated = ppd.as_table(table, not_totals=["Pennsylvania"])
    assert stated.attrs == {"not_totals": ("Pennsylvania",)}
    for door in (*doors[:1], *doors[2:]):
        door(stated)
    assert not mechanism.release(stated).table.attrs  # whether a count equals a sum is confidential


def test_a_session_refuses_a_total_before_it_spends(tmp_path):
    session = ppd.Session.open(tmp_path / "budget", epsilon=2)
    with pytest.raises(LabelError, match=MESSAGE):
        session.release(ppd.GeneralizedLaplace(inv.Public(), epsilon=1), series(STATE))
    assert session.left["epsilon"] == 2


@pytest.mark.parametrize("kind", ["text", "integers", "short"])
def test_codes_of_states_among_counties(kind):
    counts = {
        "text": CODES,
        "integers": {int(code): n for code, n in CODES.items()},
        "short": {code[:2] if code.endswith("000") else code: n for code, n in CODES.items()},
    }[kind]
    with pytest.raises(LabelError, match=f"begin with the same code.*{MESSAGE}"):
        ppd.as_table(series(counts))
    first, _, _, second, _, _ = counts
    assert ppd.as_table(series(counts), not_totals=[first, second]).size == 6
    assert ppd.as_table(
        series({code: n + 1 if code == second else n for code, n in counts.items()}), not_totals=[first]
    ).size


def test_labels_with_a_common_beginning():
    groups = {"Hispanic": 40, "Hispanic, white": 28, "Hispanic, other": 12, "White": 31}
    with pytest.raises(LabelError, match="'Hispanic' equal"):
        ppd.as_table(series(groups))
    assert ppd.as_table(series(groups | {"Hispanic": 41})).size == 4


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_totals_along_each_dimension(axis):
    table = np.random.default_rng(1).poisson(3, (3, 2, 4))
    whole = np.concatenate([table, table.sum(axis=axis, keepdims=True)], axis=axis)
    with pytest.raises(LabelError, match=f"of 'dim_{axis}'"):
        ppd.as_table(whole)
    whole[0, 0, 0] += 1  # no longer the sums of the others
    assert ppd.as_table(whole).size == whole.size


@pytest.mark.parametrize(
    "counts",
    [[0, 0, 0, 0], [7, 7], [900, 900, 0], [900, 900, 0, 0], [3, 1, 2], [8, 5, 3, 0], [0, 1, 0, 1, 0], [1, 1, 0]],
)
def test_small_or_empty_tables_are_no_evidence(counts):
    assert not refused({"c": [f"c{k}" for k in range(len(counts))]}, (["c"], np.array(counts), np.array(counts)))


@pytest.mark.parametrize("shape", [(3,), (6,), (3, 3), (12,)])
@pytest.mark.parametrize("law", ["equally likely", "half", "poisson"])
def test_tables_without_totals_are_accepted(shape, law):
    """At most a share of 1/20 is refused, and 1/15 in 1,000 tables with probability below 1e-2."""
    rng = np.random.default_rng(len(shape) * 100 + shape[0])
    labels = {f"d{k}": [f"{k} {chr(97 + j)}" for j in range(n)] for k, n in enumerate(shape)}
    wrong = 0
    for _ in range(1000):
        table = {
            "equally likely": lambda: rng.geometric(1 / 60, shape) - 1,
            "half": lambda: rng.poisson(
                np.where(np.arange(shape[0]) == 0, 30 * (shape[0] - 1), 30).reshape(-1, *[1] * (len(shape) - 1)), shape
            ),
            "poisson": lambda: rng.poisson(2, shape),
        }[law]()
        wrong += refused(labels, (list(labels), table, table))
    assert wrong <= 1000 / 15


def test_wide_ranges_of_codes_are_no_evidence():
    """Census blocks such as 1000, 1001, ... in eight groups; without the correction for many codes 38 are refused."""
    rng, wrong = np.random.default_rng(3), 0
    for _ in range(200):
        codes = [f"{group}{block:03d}" for group in range(1, 9) for block in range(int(rng.integers(6, 16)))]
        low = np.where(rng.random(len(codes)) < 0.85, 0, rng.integers(0, 60, len(codes))).astype(float)
        wrong += refused({"block": codes}, (["block"], low, low + rng.integers(40, 120, len(codes))))
    assert wrong <= 200 / 15


def test_published_totals_with_suppressed_cells():
    labels = {"county": [*COUNTIES, "Pennsylvania"]}
    for values, wrong in [
        ([212, "1-9", 330, 41, 590], True),
        ([212, "1-9", 330, 41, 583], False),  # below the sum of the published counts and 1
        ([212, "1-9", 330, 41, 593], False),
        ([212, "1-9", "1-9", 41, 263], False),  # 17 sums are possible: no evidence
        ([212, None, 330, 41, 590], False),
        ([212, 7, 330, 41, ">=500"], False),
    ]:
        public = {inv.margin("county"): values}
        if wrong:
            with pytest.raises(LabelError, match=MESSAGE):
                ppd.Measurements(labels, public=public)
            assert ppd.Measurements(labels, public=public, not_totals=["Pennsylvania"]).shape == (5,)
        else:
            assert ppd.Measurements(labels, public=public).shape == (5,)


def test_published_numbers_with_laws():
    labels, counts = {"county": [*COUNTIES, "Pennsylvania"]}, np.array(list(STATE.values())) * 100
    rounded = 5 * np.round(counts / 5).astype(int)
    noisy = counts + np.random.default_rng(1).integers(-3, 4, 5)
    for values, law in ((rounded, ppd.laws.Rounded(5)), (noisy, ppd.laws.DoubleGeometric(1))):
        with pytest.raises(LabelError, match="'Pennsylvania'"):
            ppd.Measurements(labels, ppd.measured(inv.margin("county"), values, law))
        ppd.Measurements(labels, ppd.measured(inv.margin("county"), 5 * (values // 500), law))  # too inaccurate
    with pytest.raises(LabelError, match="'Pennsylvania'"):  # a margin of a larger table
        ppd.Measurements(labels | {"sex": ["f", "m"]}, public={inv.margin("county"): list(STATE.values())})


def test_files_and_models_of_exempt_labels(tmp_path):
    labels = ppd.as_table(series(STATE) * 0, not_totals=["Pennsylvania"])
    public = {inv.margin("county"): list(STATE.values())}
    seen = ppd.Measurements(labels, public=public)
    seen.save(tmp_path / "state.ppd")
    assert ppd.read_measurements(tmp_path / "state.ppd").equals(seen)
    sums = inv.margin("county").on(labels, values=list(STATE.values()))
    with pm.Model():
        table = ppd.models.ConstrainedCounts("n", pm.Poisson.dist(np.full(5, 100.0)), sums)
        assert table.eval().shape == (5,)


def test_possible_totals_are_named_in_an_audit(tmp_path):
    """Too few numbers for an error: 17 may be the sum of 12 and a count from 1 to 9, which then is 5."""
    table, run = csv(tmp_path / "t.csv", {"A": 12, "B": "*", "OH": 17}), CliRunner().invoke
    command = ["audit", table, "--value", "n", "--dims", "county", "--suppressed", "1-9"]
    result = run(app, command)
    assert "'OH' may be a total" in " ".join(result.output.split())
    assert "may be a total" not in " ".join(run(app, [*command, "--not-total", "OH"]).output.split())
    codes = {"01": 17, "01001": 12, "01003": "*", "02": 30, "02001": 30}
    result = run(app, ["audit", csv(tmp_path / "c.csv", codes), *command[2:]])
    assert "'01' may be a total" in " ".join(result.output.split())


def test_exempt_labels_are_labels():
    with pytest.raises(LabelError, match="'Ohio', which is not a label"):
        ppd.as_table(series(STATE), not_totals=["Ohio"])
    with pytest.raises(LabelError, match=r"must be a list of labels, such as not_totals=\['Ohio'\]"):
        ppd.Measurements({"county": ["Ohio", "Utah"]}, not_totals="Ohio")


def csv(path, counts, head="county,n"):
    path.write_text(head + "\n" + "".join(f"{label},{n}\n" for label, n in counts.items()))
    return str(path)


def test_commands_of_curators(tmp_path):
    table, run = csv(tmp_path / "t.csv", STATE), CliRunner().invoke
    common = ["--count", "n", "--dims", "county", "--epsilon", "1"]
    for command in (["release", table, *common, "--output", str(tmp_path / "t.ppd")], ["plan", table, *common]):
        result = run(app, command)
        assert result.exit_code == 1
        assert "'Pennsylvania'" in result.output
        assert run(app, [*command, "--not-total", "Pennsylvania"]).exit_code == 0


def test_commands_for_published_tables(tmp_path):
    """12 of Adams and 17 of both counties disclose 5 of Beaver."""
    table, run = csv(tmp_path / "t.csv", {"Adams": 12, "Beaver": "*", "Statewide": 17}), CliRunner().invoke
    options = ["--value", "n", "--dims", "county", "--suppressed", "1-9"]
    for command in (["audit", table, *options], ["denoise", table, *options, "--output", str(tmp_path / "d.csv")]):
        result = run(app, command)
        assert result.exit_code == (command[0] == "audit"), result.output
        assert "Beaver" in result.output
    assert run(app, ["audit", table, *options, "--not-total", "Statewide"]).exit_code == 0
    seen = read_published(table, value="n", dims=["county"], rule="suppressed(1, 9)")
    assert ppd.identified_bounds(seen).lower.tolist() == [12, 5]
    counties = csv(tmp_path / "c.csv", {"Adams": 12, "Beaver": "*"})
    (tmp_path / "state.csv").write_text("n\n17\n")
    result = run(app, ["audit", counties, *options, "--public", str(tmp_path / "state.csv")])
    assert result.exit_code == 1
    assert "Beaver    5" in result.output
