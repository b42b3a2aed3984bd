import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.diagnostics import Diagnosis
from ppdinf.plots import plot_posterior_table
from ppdinf.report import RateAnalysis, analyse_rates, write_bounds, write_report, write_scores

HOSTILE = ['<script>alert("x")</script>', "O'Brien & Sons", "{{ 7 * 7 }}", "$\\frac{1}{", "</td></table>"]
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """Checks that tags close in order, and collects loaded addresses and the text of the page."""

    def __init__(self, text):
        super().__init__()
        self.open, self.loads, self.scripts, self.text = [], [], 0, ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        self.loads += [value for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """A tag that closes itself."""

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def diagnosed(*failures):
    return Diagnosis(pd.DataFrame(), pd.DataFrame(), list(failures))


def written(analysis, folder):
    """Return the page of an analysis and the text that is read on it."""
    write_report(analysis, folder / "report.html", title="t", release_file="f.ppd")
    page = (folder / "report.html").read_text(encoding="utf-8")
    return page, Page(page).text


@pytest.fixture(scope="module")
def analysis():
    persons = np.array([900, 5000, 20_000, 300, 70_000])
    table = xr.DataArray([4, -3, 25, 0, 61], dims="county", coords={"county": HOSTILE, "persons": ("county", persons)})
    public = ppd.invariants.total() & ppd.invariants.covariates("persons")
    release = ppd.Release(table, ppd.GeneralizedLaplace(public, epsilon="1/2"))
    rng = np.random.default_rng(1)
    count = rng.poisson([4, 1, 24, 1, 57], size=(4, 200, 5))
    idata = xr.Dataset(
        {
            "cases": (("chain", "draw", "county"), count),
            "rate": (("chain", "draw", "county"), rng.gamma(count + 1.0) / persons),
            "intercept": (("chain", "draw"), rng.normal(size=(4, 200))),
            "spread": (("chain", "draw"), rng.gamma(2, size=(4, 200))),
        },
        coords={"chain": range(4), "draw": range(200), "county": HOSTILE},
    )
    sampling = {"draws": 200, "tune": 200, "chains": 4, "random_seed": 1}
    return RateAnalysis(
        release, "cases", "persons", None, sampling, xr.DataTree.from_dict({"posterior": idata}), diagnosed()
    )


@pytest.fixture(scope="module")
def page(analysis, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_report(analysis, folder / "report.html", title="Cases & more", release_file="<a>.ppd", about="Made up.")
    return folder / "report.html"


@pytest.mark.quick_cases(0)
def test_the_page_is_complete_and_loads_nothing(page):
    text = page.read_text(encoding="utf-8")
    parsed = Page(text)
    assert parsed.scripts == 0
    loads = [load for load in parsed.loads if not load.startswith("#part-")]  # the contents list
    assert len(loads) == 3
    assert all(load.startswith("data:image/png;base64,") for load in loads)
    assert not re.search(r"https?:|@import|url\(", text)
    assert len(text) < 1_000_000
    assert "Cases & more" in parsed.text
    assert "Made up." in parsed.text


def test_labels_and_names_are_always_text(page):
    parsed = Page(page.read_text(encoding="utf-8"))
    for label in [*HOSTILE, "<a>.ppd"]:
        assert label in parsed.text


def test_the_page_agrees_with_the_release(page, analysis):
    parsed = " ".join(Page(page.read_text(encoding="utf-8")).text.split())
    for sentence in (" ".join(p.split()) for p in analysis.release.guarantee.describe().split("\n\n")):
        assert sentence in parsed
    assert "keeps every public sum" in parsed
    assert str(int(analysis.release.public.values[0])) in parsed
    assert "The posterior passed its checks." in parsed
    first = analysis.table().iloc[0]
    assert f"{first.posterior_mean:.1f}" in parsed
    assert f"{first.naive_rate:.1f}" in parsed
    assert "persons='persons'" not in parsed
    assert "exposure='persons'" in parsed


def test_figures_are_next_to_the_page_and_agree_with_it_about_the_noise(page, analysis):
    title = analysis.figures()["noise"].axes[0].get_title(loc="left").strip()
    assert f"<p>{title}." in page.read_text(encoding="utf-8")
    for name in ("posterior", "noise", "chains"):
        assert (page.parent / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_failed_check_is_loud(analysis, tmp_path):
    changes = {"diagnosis": diagnosed("Stuck <here>."), "truth": analysis.release.table.copy(data=TRUTH)}
    text, parsed = written(RateAnalysis(**vars(analysis) | changes), tmp_path)
    assert "Do not use this posterior yet: its checks failed." in parsed
    assert "Stuck <here>." in parsed
    assert "passed" not in parsed
    assert text.count('data-stamp="The checks failed: do not use."') == 2  # at both figures of the posterior
    assert text.index("Stuck") < text.index("<img")  # before the first figure
    assert "Treated as true" not in text.split("<img")[0]  # no finding
    assert "confidential, known<br>in this demo only" in text


TRUTH = [5, 90, 25, 0, 61]


def test_a_known_truth_is_named_as_confidential(analysis):
    known = RateAnalysis(**vars(analysis) | {"truth": analysis.release.table.copy(data=TRUTH)})
    table = analysis.table()
    inside = int(((table.posterior_lower <= TRUTH) & (table.posterior_upper >= TRUTH)).sum())
    assert inside < 5
    figure = plot_posterior_table(analysis.idata, analysis.release, "cases", truth=known.truth)
    said = f"contain {inside} of the 5 confidential counts, which are known in this demo only"
    assert said in known.finding(figure)
    assert "confidential" not in analysis.finding(figure)
    assert figure.axes[0].get_legend().get_texts()[-1].get_text() == "confidential, known in this demo only"


LAW = ppd.laws.DoubleGeometric(1)


@pytest.fixture(scope="module")
def in_notebooks():
    total = ppd.invariants.total() & ppd.invariants.labels("area", HOSTILE)
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1)
    release = ppd.Release([3, -1, 4], mechanism)
    seen = ppd.Measurements({"area": HOSTILE}, ppd.measured(ppd.invariants.margin("area"), [3, 1, 4, 0, 2], LAW))
    return {
        "public": (total, "Published exactly: the total"),
        "mechanism": (mechanism, "GeneralizedLaplace. One person can lose at most epsilon = 2"),
        "suppression": (
            ppd.Suppression(ppd.invariants.total()),
            "Suppression. One person can lose at most epsilon = 0",
        ),
        "guarantee": (release.guarantee, "One person can lose at most epsilon = 2"),
        "sampler": (mechanism.sampler_plan([3, 4, 5]), "sampler (exact)"),
        "plan": (ppd.plan(lambda e: mechanism, (3,), [1]), "Errors of released cells"),
        "release": (release, "Release by GeneralizedLaplace; Published exactly: the total."),
        "posterior": (ppd.denoise(seen, draws=20, rng=1, progressbar=False), "Do not use these counts yet: "),
    }


def test_notebooks_show_sentences_and_figures_and_escape_labels(in_notebooks):
    for name, (value, words) in in_notebooks.items():
        parsed = Page(value._repr_html_())
        assert words in " ".join(parsed.text.split()), name
        assert parsed.scripts == 0, name
    assert all(in_notebooks[name][0].plot().axes for name in ("plan", "release", "posterior"))


BOUNDS = pd.DataFrame(
    {"lower": [1, 4, 0], "upper": [3, 4, np.inf], "disclosed": [False, True, False], "exact": True},
    index=pd.Index(["A", "<B>", "C"], name="area"),
)


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        ({}, "bad", "1 cell is not published, but determined by what is published. <B>. 2 of 3 cells"),
        ({"disclosed": False}, "good", "No cell that is not published is determined."),
        ({"disclosed": False, "exact": False}, "open", "Undecided: the time was not sufficient for a proof."),
    ],
)
def test_bounds_name_and_mark_disclosed_cells(change, state, words, tmp_path):
    write_bounds(BOUNDS.assign(**change), tmp_path / "bounds.html")
    text = (tmp_path / "bounds.html").read_text(encoding="utf-8")
    assert f'<body class="{state}">' in text
    assert words in " ".join(Page(text).text.split())
    assert text.count('<tr class="marked">') == text.count(">disclosed</td>") == (state == "bad")
    assert "no limit" in text


def test_scores_say_which_method_is_best_and_what_intervals_contain(tmp_path):
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/2")
    methods = {"noisy": mechanism, "none": (mechanism, lambda release: release.table * 0)}
    scores = ppd.compare(methods, np.array([0, 1, 30]), draws=40, rng=1, progressbar=False)
    write_scores(scores, tmp_path / "scores.html")
    shown = Page(scores._repr_html_()).text
    assert shown.index("noisy") < shown.index("none: the estimate")
    assert "draws" not in Page(scores.sel(analysis="noisy")._repr_html_()).text.split("Attributes")[0]
    text = " ".join(Page((tmp_path / "scores.html").read_text(encoding="utf-8")).text.split())
    assert "noisy has the smallest error" in text
    assert f"contain the truth: {float(scores.coverage.sel(analysis='noisy').mean()):.1%} of those of noisy." in text
    assert [label.get_text() for label in scores.plot().axes[0].get_yticklabels()] == ["noisy", "none"]


@pytest.mark.quick_cases(0)
def test_the_same_analysis_gives_the_same_page(page, analysis, tmp_path):
    write_report(analysis, tmp_path / "report.html", title="Cases & more", release_file="<a>.ppd", about="Made up.")
    assert (tmp_path / "report.html").read_bytes() == page.read_bytes()


def test_table_by_hand(analysis):
    table = analysis.table()
    draws = analysis.idata.posterior["cases"].values.reshape(-1, 5)
    np.testing.assert_allclose(table["posterior_mean"], draws.mean(axis=0))
    np.testing.assert_allclose(table["posterior_upper"], np.quantile(draws, 0.95, axis=0, method="inverted_cdf"))
    assert table["released"].tolist() == [4, -3, 25, 0, 61]
    assert table["naive_rate"][0] == pytest.approx(1e5 * 4 / 900)
    rates = analysis.idata.posterior["rate"].values.reshape(-1, 5)
    np.testing.assert_allclose(table["posterior_rate"], 1e5 * rates.mean(axis=0))


@pytest.mark.quick_cases(0)
def test_without_exposure_the_page_has_no_rates_per_person(analysis, tmp_path):
    plain = RateAnalysis(**vars(analysis) | {"exposure": None})
    assert "naive_rate" not in plain.table()
    assert "per 100,000" not in written(plain, tmp_path)[1]


def test_the_code_on_the_page_is_code(analysis):
    code = RateAnalysis(**vars(analysis) | {"previous": "persons"}).code("it's.ppd")
    compile(code, "page", "exec")
    assert "previous='persons'" in code


def two_way(**changes):
    """A fitted two-way table, made by hand: one of its cells has no persons at risk."""
    table = xr.DataArray(
        [[4, 0], [9, 3]],
        dims=("county", "sex"),
        coords={"county": ["a", "b"], "sex": ["f", "m"], "persons": (("county", "sex"), [[100, 0], [300, 200]])},
    )
    public = ppd.invariants.total() & ppd.invariants.covariates("persons")
    release = ppd.Release(table, ppd.GeneralizedGaussian(public, rho="1/8"))
    rng = np.random.default_rng(1)
    dims = ("chain", "draw", "county", "sex")
    posterior = {
        "count": (dims, rng.poisson([[4, 0], [9, 3]], size=(4, 100, 2, 2))),
        "rate": (dims, rng.gamma(3, size=(4, 100, 2, 2))),
        "intercept": (("chain", "draw"), rng.normal(size=(4, 100))),
    }
    labels = {dim: table[dim] for dim in table.dims}
    groups = {
        "posterior": xr.Dataset(posterior, labels),
        "sample_stats": xr.Dataset({"moved": (("chain", "draw"), [[1]])}),
    }
    sampling = {"draws": 100, "tune": 100, "chains": 4, "random_seed": 1}
    return RateAnalysis(release, "count", "persons", None, sampling, xr.DataTree.from_dict(groups), diagnosed())


def test_the_page_describes_the_model_that_was_fitted(analysis, tmp_path):
    both = two_way()
    assert "additive effects of county and sex" in both.model()
    assert "effects" not in analysis.model()
    assert "sampled along moves" in both.model()
    assert "marginalized exactly" in analysis.model()  # no step of the table left its notes
    assert "In 1 cells nobody is at risk: the count is 0." in both.model()
    assert " ".join(both.model().split()) in " ".join(written(both, tmp_path)[1].split())


def test_the_page_states_the_unit_of_the_loss_and_omits_rates_of_empty_cells(tmp_path):
    _, parsed = written(two_way(), tmp_path)
    assert "One person can lose at most rho = 0.25 in zCDP, which implies epsilon = " in parsed
    assert "epsilon: privacy loss" not in parsed
    assert " nan" not in parsed
    table = two_way().table()
    assert table.loc[1, ["naive_rate", "posterior_rate", "rate_lower", "rate_upper"]].isna().all()
    assert table.drop(index=1).notna().all(axis=None)


def test_figures_do_not_state_convergence_after_failed_checks(analysis):
    failed = RateAnalysis(**vars(analysis) | {"diagnosis": diagnosed("Stuck.")})
    assert "agree (" in analysis.figures()["chains"].get_suptitle()
    assert "checks of the posterior failed" in failed.figures()["chains"].get_suptitle()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("diverging", "stored", "tried"), [((0, 0), 20, [0.8]), ((3, 0), 20, [0.8, 0.95]), ((3, 0), 7, [0.8])]
)
@pytest.mark.filterwarnings("ignore::ppdinf.errors.DiagnosisWarning")
def test_divergent_chains_are_sampled_again_with_shorter_steps(monkeypatch, diverging, stored, tried):
    """Not again if the user stopped them: fewer draws are stored than were asked for."""
    release = ppd.Release(np.array([4, 9, 25]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    wanted, rng, sampled = iter(diverging), np.random.default_rng(1), []

    def sample(**options):
        sampled.append(options["target_accept"])
        model, shape = pm.modelcontext(None), (2, stored)
        diverged = np.zeros(shape, dtype=bool)
        diverged[0, : next(wanted)] = True
        drawn = {name: (("chain", "draw"), rng.gamma(9, 0.1, size=shape)) for name in ("intercept", "spread")}
        for name in ("deviation", "mean_rate"):
            drawn[name] = (("chain", "draw", *model.named_vars_to_dims[name]), rng.gamma(9, 0.1, size=(*shape, 3)))
        stats = {"diverging": (("chain", "draw"), diverged)}
        return xr.DataTree.from_dict({"posterior": xr.Dataset(drawn), "sample_stats": xr.Dataset(stats)})

    monkeypatch.setattr(pm, "sample", sample)
    analysis = analyse_rates(release, draws=20, chains=2, cores=1)
    assert sampled == tried
    assert analysis.sampling["target_accept"] == tried[-1]
    assert f"target_accept={tried[-1]}" in analysis.code("file.ppd")
