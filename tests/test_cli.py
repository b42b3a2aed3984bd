import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import ppdinf
import ppdinf as ppd
from ppdinf.cli import app
from ppdinf.cli.plain_output import PlainErrors
from ppdinf.cli.reproduce_command import cases, described, module_of

FEW = ["--draws", "20", "--chains", "2", "--cores", "1"]  # too few for a posterior, and the commands say so


def run(*arguments, code=0):
    """Run a command and return its output; `code` None: 0 or 1, depending on the checks of the posterior; ...: any."""
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, [str(a) for a in arguments])
    if code is None:
        code = 0 if "No problem found." in result.output else 1
    if code == 0 and result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert code in (..., result.exit_code), result.output
    return " ".join(result.output.split())


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    rows = ["county,sex,state,persons,before,n,note"]
    for i, county in enumerate(["Adder", "Birch", "Cedar", "Dale", "Elm", "Fern"]):
        rows += [f"{county},{sex},{'xy'[i % 2]},{4000 + 900 * i},{7 + i},{317 + 9 * i},-" for sex in "fm"]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def released(table, tmp_path):
    def _released(*options):
        out = tmp_path / "table.ppd"
        text = run(
            "release", table, "--count", "n", "--dims", "county,sex", "--epsilon", "1/2", "--output", out, *options
        )
        return out, text

    return _released


def test_help_is_written_for_analysts():
    assert "privacy noise that keeps public totals exact" in run("--help")
    for command in ("demo", "plan", "release", "check", "infer", "reproduce", "session"):
        text = run(command, "--help")
        assert "Usage" in text
        assert len(text) > 200
    for command in ("infer", "denoise", "demo", "audit"):
        assert "replaced" in run(command, "--help")
    for command in ("release", "counts"):
        assert "must not exist yet" in run(command, "--help")
    assert ppdinf.__version__ in run("--version")


@pytest.mark.deep
@pytest.mark.interpreted
def test_release_check_infer(released, tmp_path):
    """If chains are too short, all files are written, with a clear warning not to use them."""
    file, text = released(
        "--public", "total", "--public", "groups:state", "--covariate", "persons", "--covariate", "before"
    )
    assert "Guarantee" in text
    assert "exp(1) = 2.72" in text
    release = ppd.read_release(file)
    assert release.dims == ("county", "sex")
    assert set(release.frame.coords) == {"county", "sex", "state", "persons", "before"}
    assert release.public.check(release.table)["agrees"].all()

    text = run("check", file)
    assert "verified" not in text
    assert "The file states that ppdinf's release() drew the noise. A file cannot prove this" in text
    assert "12 cells by county (6), sex (2)" in text
    assert "keeps 3 of 3 public sums" in text
    assert "state=x" in text
    assert "persons" in text

    out = tmp_path / "out"
    options = ["--exposure", "persons", "--previous", "before", "--name", "cases", "--output", out]
    text = run("infer", file, *options, *FEW, code=1)
    assert "Largest R-hat" in text
    assert "ess_bulk" in text
    assert "do not use this posterior yet" in text
    least = float(re.search(r"smallest bulk ESS (\d+)", text)[1])
    more = int(re.search(r"Next: the same command with --draws (\d+) --chains 4", text)[1])
    assert more >= 20 * max(2, 400 / (least + 1))  # enough to bring the least effective sample to 400
    assert "Traceback" not in text
    assert {path.name for path in out.iterdir()} == {
        "report.html", "posterior.csv", "posterior.png", "noise.png", "chains.png",
    }  # fmt: skip
    table = pd.read_csv(out / "posterior.csv")
    assert len(table) == 12
    assert (table["posterior_lower"] <= table["posterior_upper"]).all()
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "previous=&#39;before&#39;" in page
    assert "Do not use this posterior" in page


def _forbidden(*arguments, **options):
    raise AssertionError("sampled before everything was validated")


def test_infer_refuses_before_it_makes_or_samples_anything(released, tmp_path, monkeypatch):
    monkeypatch.setattr("ppdinf.report.analysis_report.rate_model", _forbidden)
    file, _ = released("--public", "total", "--covariate", "before")
    for options, message in {
        ("--exposure", "persons"): "no dimension or coordinate 'persons'",
        ("--name", "spread"): "name must differ from the names in the model",
        ("--name", "a/b"): "name must not contain a slash",
    }.items():
        assert message in run("infer", file, "--output", tmp_path / "none", *options, code=1)
    assert "--seed" in run("infer", file, "--output", tmp_path / "none", "--seed", "-1", code=2)
    assert not (tmp_path / "none").exists()

    (tmp_path / "full" / "posterior.csv").mkdir(parents=True)
    assert "posterior.csv could not be written" in run("infer", file, "--output", tmp_path / "full", code=1)


def test_infer_refuses_tables_without_a_report_before_it_samples(tmp_path, monkeypatch):
    monkeypatch.setattr("ppdinf.report.analysis_report.rate_model", _forbidden)
    for dim, public, message in (
        ("rate_lower", ppd.invariants.total(), "'rate_lower' would name two columns"),
        ("sex", ppd.invariants.margin("sex"), "the public sums determine every cell"),
    ):
        table = ppd.as_table([[3, 4], [7, 5]], dims=(dim, "age")).sum("age")
        file = tmp_path / f"{dim}.ppd"
        ppd.Release(table, ppd.GeneralizedLaplace(public, epsilon=1)).save(file)
        assert message in run("infer", file, "--output", tmp_path / "none", code=1)


def test_denoise_refuses_before_it_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("ppdinf.denoising.denoise"), "_sample", _forbidden)
    path, out = tmp_path / "published.csv", tmp_path / "out.csv"
    path.write_text("county,sd,n\nA,x,1-4\nA,y,3\nB,x,2\nB,y,4\n")
    (tmp_path / "folder.csv").mkdir()
    base = ["denoise", path, "--value", "n", "--dims", "county,sd", "--output"]
    for options, message in {
        (out, "--by", "region"): "no dimension or coordinate 'region'",
        (out, "--by", "county", "--by", "county"): "over a dimension twice",
        (out, "--by", "sd"): "'sd' would name two columns",
        (out,): "'sd' would name two columns",
        (tmp_path / "folder.csv",): "folder.csv could not be written",
        (tmp_path / "none" / "out.csv",): "out.csv cannot be written",
        (tmp_path / "out.txt",): "must end in .csv or .parquet",
        (out, "--report", tmp_path / "none" / "out.html"): "out.html cannot be written",
        (out, "--report", out): "name the same file, out.csv",
    }.items():
        assert message in run(*base, *options, code=1)
    assert "--seed" in run(*base, out, "--seed", "-1", code=2)
    with pytest.raises(AssertionError, match="sampled before"):  # the valid command does sample
        run(*base, out, "--by", "county")
    monkeypatch.setattr("ppdinf.denoising.denoised.find_spec", lambda name: None)
    assert "needs pyarrow" in run(*base, tmp_path / "out.parquet", "--by", "county", code=1)
    assert not out.exists()


def test_the_order_of_rows_is_not_published(tmp_path):
    """A file in the order of value_counts(): refused, unless the labels are declared; absent labels count 0."""
    path, out = tmp_path / "counted.csv", tmp_path / "x.ppd"
    path.write_text("place,n\nDale,317\nAdder,40\nCedar,3\n")
    base = ["release", path, "--count", "n", "--dims", "place", "--epsilon", "1/2", "--output", out]
    text = run(*base, code=1)
    assert "labels are in the order of their counts" in text
    assert not any(name in text for name in ("Dale", "Adder", "Cedar", "317"))
    assert not out.exists()
    assert "must be written COLUMN:LABEL" in run(*base, "--labels", "place", code=1)
    run(*base, "--labels", "place:Adder,Birch,Cedar,Dale")
    assert ppd.read_release(out).coords["place"].tolist() == ["Adder", "Birch", "Cedar", "Dale"]


def test_a_release_made_by_hand_is_not_vouched_for(tmp_path):
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1)
    ppd.Release([30, 4, 12], mechanism, plan=mechanism.sampler_plan([30, 4, 12])).save(tmp_path / "hand.ppd")
    text = run("check", tmp_path / "hand.ppd")
    assert "verified" not in text
    assert text.count("creator states the guarantee") + text.count("stated by the person") == 2


def test_a_release_without_public_sums(released):
    _, text = released()
    assert "Nothing is published exactly" in text


def test_fixed_cells_are_announced(table, tmp_path):
    table.write_text(table.read_text().replace("Fern,f,y", "Fern,f,z").replace("Fern,m,y", "Fern,m,w"))
    base = ["--count", "n", "--dims", "county,sex", "--epsilon", "1/2", "--output", tmp_path / "x.ppd"]
    text = run("release", table, *base, "--public", "groups:state")
    assert "Warning:" in text
    assert "fix 2 of 12 cells" in text


@pytest.mark.parametrize(
    ("dims", "public", "said"),
    [
        ("county,sex", ["margin:county,sex"], "--public margin:county,sex fixes"),
        ("county", ["margin:county"], "--public margin:county fixes"),
        ("county", ["total", "groups:state"], "--public total --public groups:state fixes"),
    ],
)
def test_a_typo_does_not_publish_the_table(dims, public, said, table, tmp_path):
    """Every cell would follow from public sums: nothing is written, and the exit code shows it."""
    if dims == "county":
        rows = [f"{name},{name.lower()},{317 + k}" for k, name in enumerate(["Adder", "Birch", "Cedar"])]
        table.write_text("\n".join(["county,state,n", *rows]) + "\n")
    out = tmp_path / "x.ppd"
    options = [option for statement in public for option in ("--public", statement)]
    base = ["release", table, "--count", "n", "--dims", dims, "--epsilon", "1/2", "--output", out]
    text = run(*base, *options, code=1)
    assert said in text
    assert "317" not in text
    assert not out.exists()
    if dims == "county":
        run(*base, "--public", "total")
        assert out.exists()


def test_a_covariate_that_is_the_counts_is_refused(table, tmp_path):
    frame = pd.read_csv(table).assign(again=lambda rows: 2 * rows["n"])
    frame.to_csv(table, index=False)
    out = tmp_path / "x.ppd"
    base = ["release", table, "--count", "n", "--dims", "county,sex", "--epsilon", "1/2", "--output", out]
    assert "'again' is proportional to the counts" in run(*base, "--covariate", "again", code=1)
    assert not out.exists()
    run(*base, "--covariate", "persons")


BAD_RELEASES = {
    "statement": (["--public", "sums"], "--public 'sums' must be total, margin:COLUMN"),
    "margin of nothing": (["--public", "margin:"], "must be total"),
    "unknown column": (["--public", "margin:age"], "'age'"),
    "unknown group": (["--public", "groups:region"], "no column 'region'"),
    "unknown covariate": (["--covariate", "people"], "no column 'people'"),
    "epsilon": (["--epsilon", "-1"], "epsilon must be positive"),
    "epsilon text": (["--epsilon", "much"], "epsilon must be a finite number"),
    "two losses": (["--rho", "1/8"], "--epsilon for Laplace noise or --rho"),
    "norm": (["--norm", "l3"], "norm must be"),
    "count": (["--count", "note"], "column 'note'"),
    "cells repeated": (["--dims", "county"], "county=Adder is on line 2 already"),
}


@pytest.mark.parametrize("case", BAD_RELEASES)
def test_bad_releases_end_in_one_plain_line(case, table, tmp_path):
    options, message = BAD_RELEASES[case]
    base = ["--count", "n", "--dims", "county,sex", "--epsilon", "1/2", "--output", tmp_path / "x.ppd"]
    text = run("release", table, *base, *options, code=1)
    assert "Error:" in text
    assert message in text
    assert "Traceback" not in text
    assert "317" not in text
    assert not (tmp_path / "x.ppd").exists()


@pytest.mark.quick_cases(0)
def test_plan_compares_losses_without_a_count(table, tmp_path):
    base = ["plan", table, "--count", "n", "--dims", "county,sex", "--public", "groups:state"]
    text = run(*base, "--epsilon", "1/4", "--epsilon", "1", "--rho", "1/8", "--size", "50", "--gap", "5")
    assert text.count("Cells: 12 in a public sum of 6 cells") == 1
    rows = [text.index(f" {loss} ", text.index("Cells:")) for loss in ("epsilon = 1/4", "epsilon = 1", "rho = 1/8")]
    assert rows == sorted(rows)
    assert "CV of 50" in text
    other = table.with_name("other.csv")
    other.write_text(table.read_text().replace(",317,", ",9,"))
    assert run(*base) == run(*[other if part is table else part for part in base])
    shape = ["plan", "--shape", "county=67,sex=2", "--public", "margin:county", "--epsilon", "1"]
    text = run(*shape, "--cv", "10%", "--at", "50", "--figure", tmp_path / "plan.svg")
    assert text.startswith("10% at 50 persons requires epsilon = 1/7. One person can lose at most epsilon = 2/7")
    assert re.search(r"epsilon = 1 +2 +x 7.39 ", text)
    assert "<svg" in (tmp_path / "plan.svg").read_text()
    assert "--cv 10 is above 1: state it in percent, as --cv 10%" in run(*shape, "--cv", "10", "--at", "50", code=1)
    for wrong in (["--cv", "10%"], ["--figure", tmp_path / "plan.doc"], ["--shape", "county"], ["--gap", "-1"]):
        assert "Error:" in run(*shape, *wrong, code=1)
    assert "Error:" in run("plan", code=1)
    assert "Error:" in run("plan", table, code=1)


def test_other_laws(released, table, tmp_path):
    _, text = released("--public", "total", "--norm", "l2")
    assert "the Euclidean distance" in text
    out = tmp_path / "gaussian.ppd"
    text = run("release", table, "--count", "n", "--dims", "county,sex", "--rho", "1/8", "--output", out)
    assert "with rho = 0.125" in text
    assert "Gaussian on the lattice" in run("check", out)


def test_a_release_is_not_overwritten(released):
    file, _ = released("--public", "total")
    before = file.read_bytes()
    text = run("release", file, "--count", "n", "--dims", "d", "--epsilon", 1, "--output", file, code=1)
    assert "adds its privacy loss" in text
    assert file.read_bytes() == before


def test_debug_shows_the_origin_of_an_error(tmp_path):
    (tmp_path / "no.ppd").write_text("not a release")
    assert "not a release file" in run("check", tmp_path / "no.ppd", code=1)
    result = CliRunner().invoke(app, ["--debug", "check", str(tmp_path / "no.ppd")])
    assert isinstance(result.exception, ppd.errors.ReleaseFileError)


def test_missing_files_and_edited_releases(released, tmp_path):
    assert "Error:" in run("check", tmp_path / "none.ppd", code=1)
    file, _ = released("--public", "total")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    assert "Error:" in run("check", file, code=1)


def test_reproduce_lists_the_case_studies():
    text = run("reproduce")
    assert run("reproduce", "--list") == text
    assert "or --list" in run("reproduce", "cdp", "--list", code=2)
    for name in cases():
        assert f"{name} " in text
    assert "Congenial differential privacy on sex by age tables" in text
    assert "unknown case study 'elections'; known: " in run("reproduce", "elections", code=2)
    for name, script in cases().items():
        shows, takes = described(script)
        assert shows.endswith("."), name
        assert re.search(r"\d+ (s|min)", takes), f"{name}: how long does it take?"


@pytest.fixture
def own_cases(tmp_path, monkeypatch):
    """An empty folder of case studies, in which the command finds the studies that a test writes."""
    folder = tmp_path / "cases"
    folder.mkdir()
    monkeypatch.setattr(sys.modules["ppdinf.cli.reproduce_command"], "PLACES", {tmp_path / "none": "", folder: "cases"})
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "cases"]:
        del sys.modules[name]


def test_a_missing_folder_of_public_tables_is_named_before_a_case_runs(own_cases, tmp_path, monkeypatch):
    (own_cases / "sums").mkdir()
    script = own_cases / "sums" / "run.py"
    script.write_text(
        '"""Sums."""\nimport ppdinf\ndef main(output):\n    print(ppdinf.datasets.public_file("a.csv"))\n'
    )
    monkeypatch.setenv("PPDINF_DATA", str(tmp_path / "nowhere"))
    text = run("reproduce", "sums", "--output", tmp_path / "out", code=1)
    assert text.startswith("Error: PPDINF_DATA names ")
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("PPDINF_DATA", str(tmp_path))
    assert "has no file 'a.csv'" in run("reproduce", "sums", "--output", tmp_path / "out", code=1)
    (tmp_path / "a.csv").write_text("")
    assert "a.csv" in run("reproduce", "sums", "--output", tmp_path / "out")
    monkeypatch.setenv("PPDINF_DATA", "")
    assert run("reproduce", "sums", "--output", tmp_path / "out").startswith("None")


def test_options_of_a_case_override_the_environment(own_cases, tmp_path, monkeypatch):
    for name, options in {"plain": "", "reading": ", *, data=None, seed=1"}.items():
        (own_cases / name).mkdir()
        text = "data, seed" if options else "'none'"
        script = f'"""One."""\ndef main(output{options}):\n    print("given", {text})\n'
        (own_cases / name / "run.py").write_text(script)
    (tmp_path / "public").mkdir()
    monkeypatch.setenv("PPDINF_DATA", str(tmp_path / "public"))
    assert "given none" in run("reproduce", "plain", "--output", tmp_path / "out")
    assert "given None 1" in run("reproduce", "reading", "--output", tmp_path / "out")
    own = run("reproduce", "reading", "--data", "mine", "--seed", "3", "--output", tmp_path / "out")
    assert "given mine 3" in own
    assert "does not have this option" in run("reproduce", "plain", "--seed", "3", code=2)


def test_reproduce_runs_a_case(own_cases, tmp_path, monkeypatch):
    (own_cases / "sums").mkdir()
    (own_cases / "sums" / "run.py").write_text(
        '"""Sums of two.\n\nMore."""\ndef main(output):\n    print(1 + 1)\n    (output / "two.txt").write_text("2")\n'
    )
    monkeypatch.chdir(tmp_path)
    assert "│ sums │ Sums of two. │" in run("reproduce")
    monkeypatch.delenv("PPDINF_DATA", raising=False)
    assert run("reproduce", "sums").startswith("2 Comparison with the paper")
    assert Path("ppdinf-reproduce/sums/two.txt").read_text() == "2"
    assert "two.txt" in run("reproduce", "sums", "--output", tmp_path / "new" / "folder")


def test_reproduce_names_the_folder_of_the_case_studies(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["ppdinf.cli.reproduce_command"], "PLACES", {tmp_path: ""})
    assert "Error: this installation has no case studies" in run("reproduce", code=1)


def test_demo_refusals(tmp_path):
    assert "no month '2019-01'; it has 2020-03 to 2022-02" in run("demo", "--month", "2019-01", code=1)
    assert "no month '2020-02'" in run("demo", "--month", "2020-03", code=1)  # the month before is needed
    assert "must be written like" in run("demo", "--month", "June", code=1)
    assert "--population requires --data" in run("demo", "--population", tmp_path, code=1)
    (tmp_path / "bad.csv").write_text("county,fips,month,cases,deaths\nA,1001,2021-06,3,0\n")
    assert "bad.csv line 2, column 'fips'" in run("demo", "--data", tmp_path / "bad.csv", code=1)


@pytest.mark.deep
@pytest.mark.interpreted
def test_demo_on_a_small_file(tmp_path):
    rows = ["county,fips,month,cases,deaths"]
    for i in range(8):
        rows += [f"C{i},990{i:02d},2021-0{m},{40 + 25 * i + m},1" for m in (5, 6)]
    (tmp_path / "cases.csv").write_text("\n".join(rows) + "\n")
    out = tmp_path / "demo"
    text = run("demo", "--data", tmp_path / "cases.csv", "--epsilon", "1/4", "--output", out, *FEW, code=1)
    assert "Guarantee" in text
    assert "Largest R-hat" in text
    release = ppd.read_release(out / "cases-2021-06.ppd")
    assert release.covariate("previous_cases").values.tolist() == [45 + 25 * i for i in range(8)]
    assert int(release.table.sum()) == sum(46 + 25 * i for i in range(8))
    assert "naive_rate" not in pd.read_csv(out / "posterior.csv")


@pytest.mark.deep
def test_demo(tmp_path):
    """The simulated epidemic: files that `.ci/run` wrote with the installed script, or else a shorter run."""
    folder = os.environ.get("PPDINF_DEMO")
    if folder is None:
        folder = tmp_path
        run("demo", "--draws", 200, "--chains", 2, "--cores", 1, "--output", folder, code=None)
    assert "simulated" in Path(folder, "report.html").read_text(encoding="utf-8")
    table = pd.read_csv(Path(folder, "posterior.csv"))
    confidential = ppd.datasets.epidemic().cases.sel(month="2021-06").values
    inside = (table["posterior_lower"] <= confidential) & (confidential <= table["posterior_upper"])
    assert inside.mean() > 0.6  # 67 intervals of 90 %: fails once in 1e8 releases


@pytest.mark.parametrize("case", cases())
def test_case_studies_write_to_the_given_folder(case):
    main = module_of(cases()[case]).main
    assert next(iter(inspect.signature(main).parameters)) == "output"
    options = inspect.signature(main).parameters.keys()
    assert {"output", "quick"} <= options <= {"output", "quick", "data", "seed", "workers"}


@pytest.mark.parametrize(("budget", "losses"), [
    (["--epsilon", "2"],
     ["epsilon = 4 (a factor of 54.6 in the odds), delta = 0", "epsilon = 2.82843", "epsilon = 2 "]),
    (["--epsilon", "1", "--delta", "1e-6"], ["epsilon = 2 (a factor of 7.39 in the odds), delta = 3.72e-06"]),
    (["--epsilon", "1", "--contributions", "3"], ["epsilon = 6 ", "epsilon = 4.24265 ", "epsilon = 3 "]),
    (["--rho", "1/8"], ["rho = 0.5 in zCDP, which implies epsilon = 5.2", "rho = 0.25 ", "rho = 0.125 "]),
    (["--rho", "1/8", "--contributions", "2"], ["rho = 2 ", "rho = 1 ", "rho = 0.5 "]),
])  # fmt: skip
def test_a_session_begins_with_the_loss_of_one_person(budget, losses, tmp_path):
    """By l1 noise, l2 noise and for replaced records: 2 k, sqrt(2) k and k times epsilon; their squares for rho."""
    text = run("session", "begin", tmp_path / "a.budget", *budget)
    assert text.startswith("One person ")
    places = [text.index(loss) for loss in losses]
    assert places == sorted(places)
    assert places[0] < text.index("Budget per unit of ")
    assert "delta = " in text[: text.index(" by l1 noise")]


def test_every_command_states_the_loss_of_one_person_first(table, tmp_path):
    budget = tmp_path / "a.budget"
    run("session", "begin", budget, "--epsilon", "2", "--delta", "1e-5")
    loss = "One person can lose at most epsilon = 1 (a factor of 2.72 in the odds), delta = 0."
    base = [table, "--count", "n", "--dims", "county,sex", "--public", "total", "--epsilon", "1/2"]
    assert re.search(r"epsilon = 1/2 +1 +x 2.72 ", run("plan", *base))
    assert "One person can lose at most epsilon = 16/31" in run("plan", *base, "--cv", "10%", "--at", "50")
    text = run("release", *base, "--session", budget, "--output", tmp_path / "a.ppd")
    assert f"Guarantee {loss}" in text
    assert f"All releases: {loss}" in text[text.index("Budget") :]
    assert run("session", "show", budget).startswith(f"All releases: {loss}")
    mixed = tmp_path / "mixed.budget"
    session = ppd.Session.open(mixed, epsilon=2, delta="1e-5")
    session.release(ppd.SubspaceGaussian(ppd.invariants.total(), "1/2", "1e-6", neighbours="added"), [5, 3, 8])
    assert run("session", "show", mixed).startswith(
        "All releases: One person can lose at most epsilon = 1 (a factor of 2.72 in the odds), delta = 2.65e-06."
    )


@pytest.mark.quick_cases(0)
def test_a_session_keeps_the_budget(table, tmp_path):
    budget = tmp_path / "year.budget"
    assert "0 of 0.5 spent, 0.5 remaining" in run("session", "begin", budget, "--epsilon", "1/2", "--unit", "household")
    assert "exists: show it with" in run("session", "begin", budget, "--epsilon", "5", code=1)
    release = ["release", table, "--count", "n", "--dims", "county,sex", "--public", "total", "--session", budget]
    text = run(*release, "--epsilon", "1/4", "--output", tmp_path / "june.ppd")
    assert "epsilon = 0.25 is left" in text
    assert ppd.read_release(tmp_path / "june.ppd").guarantee.unit == "household"
    for options, said in {
        ("--epsilon", "1/2", "--output", tmp_path / "july.ppd"): "0.25 remaining",
        ("--rho", "1/100", "--output", tmp_path / "july.ppd"): "budget of rho",
        ("--epsilon", "1/4", "--output", tmp_path / "none" / "july.ppd"): "cannot be written",
        ("--epsilon", "1/4", "--output", tmp_path / "june.ppd"): "exists",
    }.items():
        assert said in run(*release, *options, code=1)
    assert not (tmp_path / "july.ppd").exists()
    text = run("session", "show", budget)
    assert "0.25 of 0.5 spent, 0.25 remaining" in text
    assert "june" in text
    assert "drawn" in text
    assert ppd.Session.open(budget).digest in text
    assert "does not exist" in run("session", "show", tmp_path / "no.budget", code=1)
    parts = tmp_path / "parts.budget"
    run("session", "begin", parts, "--epsilon", "1/2", "--unit", "household", "--partition", "region:north,south")
    for region in ("north", "south"):
        release[-1] = parts
        out = tmp_path / f"{region}.ppd"
        assert "epsilon = 0.25 is left" in run(*release, "--epsilon", "1/4", "--part", region, "--output", out)
    assert "region (north, south)" in run("session", "show", parts)
    assert "give its file with --session" in run(
        *release[:-2], "--epsilon", "1", "--part", "x", "--output", "x", code=1
    )
    parts.unlink(), parts.with_name("parts.budget.lock").unlink()
    assert "does not exist: correct its name" in run(
        *release[:-1], tmp_path / "yaer.budget", "--epsilon", "1/4", "--output", tmp_path / "july.ppd", code=1
    )
    assert "--epsilon, --epsilon and --delta, or --rho" in run("session", "begin", tmp_path / "no.budget", code=1)
    assert sorted(path.name for path in tmp_path.glob("*.budget*")) == ["year.budget", "year.budget.lock"]


def test_doctor_names_missing_samplers_and_the_remedy_of_a_failure(monkeypatch):
    commands = importlib.import_module("ppdinf.cli.file_commands")
    commands.COMPILED["Kernels of noise"][0]()  # imports that depend on versions precede the false versions
    monkeypatch.setattr(commands, "find_spec", lambda name: None if name == "nutpie" else object())
    monkeypatch.setattr(commands.metadata, "version", lambda name: "1.0")
    monkeypatch.setitem(commands.COMPILED, "Models", (lambda: "compiled.", ""))
    text = run("doctor")
    assert "nutpie: not installed, and optional: pip install 'ppdinf[nutpie]'" in text
    assert "numpyro: 1.0" in text
    assert "Kernels of noise: compiled, and kept in" in text

    def fails():
        raise NotADirectoryError(20, "Not a directory", "/home/none/.pytensor")

    monkeypatch.setitem(commands.COMPILED, "Models", (fails, commands.COMPILED["Models"][1] or "set a folder"))
    text = run("doctor", code=1)
    assert "Failed: Models: [Errno 20] Not a directory: '/home/none/.pytensor' Remedy: set a folder" in text


@pytest.mark.deep
@pytest.mark.interpreted
def test_doctor_without_a_home_that_can_be_written(tmp_path):
    home = tmp_path / "file"
    home.touch()
    environment = os.environ | {"HOME": str(home), "PYTENSOR_FLAGS": "", "COLUMNS": "200"}
    command = [sys.executable, "-m", "ppdinf", "doctor"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Remedy: set PYTENSOR_FLAGS=base_compiledir=FOLDER, where FOLDER can be written" in done.stdout
    environment["PYTENSOR_FLAGS"] = f"base_compiledir={tmp_path}/compiled"
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_printed_paths_are_quoted_for_the_shell(table, tmp_path):
    out = tmp_path / "my release.ppd"
    text = run("release", table, "--count", "n", "--dims", "county,sex", "--epsilon", "1/2", "--output", out)
    assert f"ppdinf check '{out}'" in text


@pytest.mark.parametrize("missing", ["/home/none/.pytensor/numba", "/home/none"])
def test_a_home_without_a_cache_is_an_error_with_the_remedy(missing):
    app = typer.Typer(cls=PlainErrors)

    @app.callback()
    def main():
        """Define a group of one command."""

    @app.command()
    def fit():
        raise NotADirectoryError(20, "Not a directory", missing)

    result = CliRunner(env={"NO_COLOR": "1", "HOME": "/home/none"}).invoke(app, ["fit"])
    assert result.exit_code == 1
    assert "set PYTENSOR_FLAGS=base_compiledir=FOLDER, where FOLDER can be written" in result.output
