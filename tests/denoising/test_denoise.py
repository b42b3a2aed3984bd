"""Posteriors without a user-written model: against enumeration of all tables, errors, and coverage."""

import importlib
import pickle
import re

import cloudpickle
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from chi_square import p_value_of_tables

import ppdinf as ppd
from ppdinf.denoising import table_gibbs
from ppdinf.denoising.learned_prior import FixedPrior
from ppdinf.errors import InvariantError, LabelError, ModelError, ReleaseFileError
from ppdinf.report import denoised_report

MODULE = importlib.import_module("ppdinf.denoising.denoise")
inv, laws = ppd.invariants, ppd.laws
NOISE = laws.DoubleGeometric(1)
PAIR = ppd.Measurements({"area": ["A", "B"]}, ppd.measured(inv.margin("area"), [36, 3], NOISE))


def two(values, law=NOISE, by=inv.margin("a"), **public):  # noqa: B008
    """Return measurements of two cells."""
    return ppd.Measurements({"a": ["A", "B"]}, ppd.measured(by, values, law), **public)


WITHOUT_MARGIN = two([5, 3], public={inv.total(): 7})  # nested sums: tables are drawn exactly given their prior
SEEN = ppd.Measurements(
    {"a": ["A", "B"], "b": ["f", "m"]},
    ppd.measured(inv.margin("a"), [5, 3], laws.DiscreteGaussian(variance=2)),
    ppd.measured(inv.margin("b"), [3, np.nan], laws.DoubleGeometric(1)),
    ppd.measured(inv.margin("a", "b"), [[4, 1], [1, 2]], laws.DiscreteGaussian(variance=[[4, 3], [9, 2]])),
    public={inv.total(): 7},
)


def listed():
    tables = np.array([(i, j, k, 7 - i - j - k) for i in range(8) for j in range(8 - i) for k in range(8 - i - j)])
    i, j, k, m = tables.T
    log_weight = -((5 - i - j) ** 2) / 4 - (3 - k - m) ** 2 / 4 - abs(3 - i - k)
    log_weight = log_weight - (4 - i) ** 2 / 8 - (1 - j) ** 2 / 6 - (1 - k) ** 2 / 18 - (2 - m) ** 2 / 4
    weight = np.exp(log_weight - log_weight.max())
    return tables, weight / weight.sum()


@pytest.mark.quick_cases(0)
def test_flat_posterior_is_that_of_all_tables():
    posterior = ppd.denoise(SEEN, draws=2000, prior="flat", rng=1, progressbar=False)
    draws = posterior.draws.values.reshape(-1, 4)
    tables, law = listed()
    assert p_value_of_tables(draws, tables, law) > 1e-5
    wrong = law ** (1 / 1.5)
    assert p_value_of_tables(draws, tables, wrong / wrong.sum()) < 1e-9


def test_sums_and_summaries():
    posterior = ppd.denoise(SEEN, draws=50, rng=1, progressbar=False)
    assert (posterior.sums(inv.total()) == 7).all()
    by_a = posterior.sums(inv.margin("a"))
    assert by_a.dims == ("chain", "draw", "a")
    assert (by_a == posterior.draws.sum("b")).all()
    table = posterior.summary(inv.margin("a"))
    assert list(table.index) == ["A", "B"]
    assert table.loc["A", "estimate"] == pytest.approx(float(by_a.sel(a="A").mean()))
    assert ((table.lower <= table.estimate) & (table.estimate <= table.upper)).all()
    share = posterior.summary(by_a / 7)
    assert share.loc["A", "estimate"] == pytest.approx(table.loc["A", "estimate"] / 7)
    mapped = posterior.summary(inv.groups("a", {"A": "all", "B": "all"}))
    assert mapped.estimate.tolist() == [7]
    cells = posterior.summary()
    assert list(cells.index) == [("A", "f"), ("A", "m"), ("B", "f"), ("B", "m")]
    assert posterior.to_dataset()["estimate"].sel(a="B", b="m") == cells.loc[("B", "m"), "estimate"]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("chains", [1, 2])
def test_few_draws_are_a_problem_and_no_traceback(chains, tmp_path):
    for draws in (1, 3):
        posterior = ppd.denoise(SEEN, draws=draws, chains=chains, rng=1, progressbar=False)
        assert posterior.problems == ["there are fewer than 4 draws per chain, too few for diagnostics: draw more"]
        posterior.report(tmp_path / "few.html")
    assert "fewer than 4 draws" in (tmp_path / "few.html").read_text(encoding="utf-8")


def test_files(tmp_path):
    posterior = ppd.denoise(SEEN, draws=20, rng=1, progressbar=False)
    posterior.save(tmp_path / "cells.csv")
    assert pd.read_csv(tmp_path / "cells.csv").columns[:3].tolist() == ["a", "b", "estimate"]
    posterior.save(tmp_path / "cells.csv", probability=0.5)
    half = posterior.to_dataset(probability=0.5)
    np.testing.assert_allclose(pd.read_csv(tmp_path / "cells.csv")["upper"], half["upper"].values.ravel())
    assert half["margin_of_error"].sum() < posterior.to_dataset()["margin_of_error"].sum()
    with pytest.raises(ReleaseFileError, match="parquet"):
        posterior.save(tmp_path / "cells.xlsx")


def same(one, other):
    """Return whether two posteriors are bitwise equal."""
    parameters = one.parameters.keys() == other.parameters.keys()
    parameters &= all(np.array_equal(one.parameters[name], other.parameters[name]) for name in one.parameters)
    return parameters and one.draws.identical(other.draws) and one.plan == other.plan


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("data", [SEEN, WITHOUT_MARGIN], ids=["overlapping", "nested"])
def test_chains_elsewhere_have_the_same_draws(data, monkeypatch):
    """Every chain is copied, as to another process."""
    alone = ppd.denoise(data, draws=20, chains=3, rng=5, progressbar=False)
    copied = lambda task: pickle.loads(cloudpickle.dumps(task))  # noqa: E731
    monkeypatch.setattr(MODULE, "run", lambda f, tasks, workers: (copied(f)(copied(task)) for task in tasks))
    assert same(ppd.denoise(data, draws=20, chains=3, rng=5, progressbar=False, workers=2), alone)
    monkeypatch.setattr(MODULE, "run", lambda f, tasks, workers: map(f, list(tasks)[::-1]))
    assert not same(ppd.denoise(data, draws=20, chains=3, rng=5, progressbar=False, workers=2), alone)


def test_finished_chains_elsewhere_outlast_an_interruption(monkeypatch):
    def interrupted(after):
        def results(function, tasks, workers):
            for k, task in enumerate(tasks):
                if k == after:
                    raise KeyboardInterrupt
                yield function(task)

        return results

    alone = ppd.denoise(SEEN, draws=20, chains=3, rng=5, progressbar=False)
    monkeypatch.setattr(MODULE, "run", interrupted(2))
    found = ppd.denoise(SEEN, draws=20, chains=3, rng=5, progressbar=False, workers=2)
    assert (found.draws == alone.draws[:2]).all()
    monkeypatch.setattr(MODULE, "run", interrupted(0))
    with pytest.raises(KeyboardInterrupt):
        ppd.denoise(SEEN, draws=20, rng=5, progressbar=False, workers=2)


@pytest.mark.quick_cases(0)
def test_draws_at_the_end_of_a_window_are_a_problem():
    """Readings of 0 and the exact total 40: each count is uniform, and the noise truncates its window."""

    def problems(total, prior):
        seen = two([0, 0], public={inv.total(): total})
        return ppd.denoise(seen, draws=400, prior=prior, rng=1, progressbar=False).problems

    for prior in ("flat", "learned"):
        assert not any("the end of the range" in problem for problem in problems(4, prior))
        assert "draws of 2 cells reach the end of the range" in problems(40, prior)[0]


def few_draws(**statements):
    """Return the problems of 2 x 20 draws of two rows and two columns with noisy cells and some certain statements."""
    seen = ppd.Measurements(
        {"a": ["A", "B"], "b": ["f", "m"]},
        ppd.measured(inv.margin("a", "b"), [[4, 1], [1, 2]], laws.DiscreteGaussian(variance=2)),
        **statements,
    )
    return " ".join(ppd.denoise(seen, draws=20, prior="flat", rng=1, progressbar=False).problems)


def test_cells_that_statements_determine_need_no_draws():
    assert few_draws(public={inv.margin("a", "b"): [[3, 1], [0, 2]]}) == ""
    assert few_draws(public={inv.margin("a"): [0, 0]}) == ""  # and no count is negative
    assert "2 of 2 cells have fewer than 400 effective draws" in few_draws(public={inv.margin("a"): [4, 0]})
    # noise of which 0 has almost the whole weight does not prove that a cell is constant
    found = ppd.denoise(two([4, 3], laws.DoubleGeometric(60)), draws=20, prior="flat", rng=1, progressbar=False)
    assert (found.draws == [4, 3]).all()
    assert "2 of 2 cells have fewer than 400" in found.problems[0]


def test_cells_that_ranges_determine_need_no_draws():
    """The ranges and the sum leave one table, but no cell is published."""
    seen = two(["<5", "3-9"], laws.Interval(), public={inv.total(): 13})
    found = ppd.denoise(seen, draws=20, prior="flat", rng=1, progressbar=False)
    assert (found.draws == [4, 9]).all()
    assert found.problems == []


@pytest.mark.parametrize("probability", [0, 1, -0.1, 1.5])
def test_a_probability_outside_of_0_and_1_is_refused(probability):
    with pytest.raises(ModelError, match="probability must be between 0 and 1"):
        ppd.denoise(SEEN, draws=10, rng=1, progressbar=False).summary(probability=probability)


@pytest.mark.quick_cases(0)
def test_several_releases():
    table = np.array([12, 0, 31])
    mechanism = ppd.GeneralizedLaplace(inv.total(), epsilon=1)
    releases = [ppd.Release(y, mechanism) for y in mechanism.simulate(table, draws=3, rng=1)]
    both = ppd.denoise(releases, draws=400, rng=1, progressbar=False)
    one = ppd.denoise(releases[0], draws=400, rng=1, progressbar=False)
    assert (both.draws.sum("dim_0") == 43).all()
    assert both.summary().sd.sum() < one.summary().sd.sum()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ppd.denoise([1, 2]), ModelError, "Release"),
        (lambda: ppd.denoise(3), ModelError, "Measurements"),
        (lambda: ppd.denoise(SEEN, prior="uniform"), ModelError, "'flat'"),
        (lambda: ppd.denoise(SEEN, draws=0), ModelError, "at least 1"),
        (lambda: ppd.denoise(two([3], by=inv.cells({"a": "A"}))), ModelError, "a=B"),
        (lambda: ppd.denoise(two([31, 4], public={inv.total(): 5000})), InvariantError, "total"),
        (lambda: ppd.denoise(two([2**36, 5]), prior="flat"), ModelError, r"the count at a=A can exceed 134,217,728"),
        (lambda: ppd.models.aggregate(ppd.as_table([1, 2]), inv.total()), LabelError, "chain"),
    ],
)
def test_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_the_plan_states_the_sampler_and_the_reason():
    posterior = ppd.denoise(SEEN, draws=10, rng=1, progressbar=False)
    assert posterior.plan.startswith("sampled along lines, because noisy and exact sums cross each other. Moves: ")
    assert "all 4 noisy and exact sums" in posterior.plan
    free = ppd.Measurements(
        {"a": ["A", "B"], "b": ["f", "m"]},
        ppd.measured(inv.margin("a"), [5, 3], NOISE),
        ppd.measured(inv.margin("b"), [5, 3], NOISE),
    )
    said = ppd.denoise(free, draws=10, rng=1, progressbar=False).plan
    assert "preserve the sum for every a" in said
    assert ppd.denoise(WITHOUT_MARGIN, draws=10, rng=1, progressbar=False).plan.startswith("drawn exactly")


@pytest.mark.quick_cases(0)
def test_report_of_sums_escapes_labels(tmp_path):
    seen = ppd.Measurements(
        {"area": ["<b>A</b>", "B", "C"]},
        ppd.measured(inv.margin("area"), [12, -1, 31], NOISE),
        coords={"part": ("area", ["N", "N", "S"])},
    )
    posterior = ppd.denoise(seen, draws=50, rng=1, progressbar=False)
    posterior.report(tmp_path / "page.html", title="Cases & more")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;A&lt;/b&gt;" in text
    assert "<b>A</b>" not in text
    assert "Cases &amp; more" in text
    assert "effective draws" in text  # 50 draws are too few, and the page reports it
    posterior.report(tmp_path / "sums.html", inv.groups("part"))
    assert "<td>N</td>" in (tmp_path / "sums.html").read_text(encoding="utf-8").replace('<td class="text">', "<td>")


def test_report_shows_the_bounds_of_ranges(tmp_path):
    counts = ppd.measured(inv.margin("a", "b"), [["<5", "<5"], ["20", "<5"]], laws.Interval())
    seen = ppd.Measurements({"a": ["A", "B"], "b": ["f", "m"]}, counts, public={inv.margin("a"): [6, 23]})
    ppd.denoise(seen, draws=50, rng=1, progressbar=False).report(tmp_path / "page.html")
    text = re.sub(r"(\s|<[^>]+>)+", " ", (tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "margin_of_error least most" in text
    assert re.search(r"A f [\d. ]+ 2 4 – A m", text)
    assert "Not published but determined, 1 of 4: B, m" in text


@pytest.mark.deep
def test_intervals_cover_in_sparse_tables_and_flat_ones_do_not():
    """90 % intervals of cells published above 5, in 8 tables of 240 cells, half of them 0: 94.5 %; flat priors 86 %."""
    rng, inside = np.random.default_rng(3), {"learned": [], "flat": []}
    for _ in range(8):
        mean = np.exp(rng.normal(0, 1, (12, 1)) + rng.normal(0, 1, (1, 20)) - 0.5)
        table = rng.negative_binomial(0.3, 0.3 / (0.3 + 4 * mean))
        noise = [rng.normal(0, sd, shape).round().astype(int) for sd, shape in ((2, 12), (2, 20), (5, (12, 20)))]
        seen = ppd.Measurements(
            {"a": range(12), "b": range(20)},
            ppd.measured(inv.margin("a"), table.sum(1) + noise[0], laws.DiscreteGaussian(2)),
            ppd.measured(inv.margin("b"), table.sum(0) + noise[1], laws.DiscreteGaussian(2)),
            ppd.measured(inv.margin("a", "b"), table + noise[2], laws.DiscreteGaussian(5)),
            public={inv.total(): int(table.sum())},
        )
        for prior, found in inside.items():
            cells = ppd.denoise(seen, draws=400, chains=1, prior=prior, rng=1, progressbar=False).summary()
            covered = (cells.lower.to_numpy() <= table.ravel()) & (table.ravel() <= cells.upper.to_numpy())
            found.append(covered[(table + noise[2]).ravel() > 5])  # chosen by the published number, not by the count
    learned, flat = (np.concatenate(inside[prior]).mean() for prior in ("learned", "flat"))
    # four standard errors of 0.01; the difference is 0.08 with a standard error of 0.014
    assert 0.905 < learned < 0.985
    assert flat < learned - 0.03


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("law", [laws.DiscreteGaussian(300.0), laws.DoubleGeometric("1/200")], ids=["gauss", "l1"])
def test_slices_and_listed_lines_have_the_same_posterior(law, monkeypatch):
    """Means of cells within 5 standard errors of each other, 6 cells and 2 laws: a false alarm in 100,000 runs."""
    x = np.array([[300, 40, 100], [900, 20, 0]])
    parts = [ppd.measured(inv.margin(*names), s + 50, law) for names, s in ((["a"], x.sum(1)), (["b"], x.sum(0)))]
    seen = ppd.Measurements({"a": ["f", "m"], "b": ["x", "y", "z"]}, *parts, public={inv.total(): int(x.sum())})
    posteriors = []
    for wide in (1000, 10**9):
        monkeypatch.setattr(table_gibbs, "WIDE", wide)
        posteriors.append(ppd.denoise(seen, draws=300, rng=1, progressbar=False))
        assert (posteriors[-1].draws.sum(("a", "b")) == x.sum()).all()
    assert ["slice sampling" in posterior.plan for posterior in posteriors] == [True, False]
    means, errors = zip(
        *((p.draws.mean(("chain", "draw")), p.draws.std(("chain", "draw")) / np.sqrt(p.convergence.ess_bulk.min()))
          for p in posteriors), strict=True,
    )  # fmt: skip
    assert (abs(means[0] - means[1]) < 5 * np.hypot(*errors)).all()


def test_sums_and_differences_of_draws_do_not_overflow():
    """Wrong variant: at twice the limit, the sum of two int32 counts is negative without a warning."""
    draws = ppd.denoise(PAIR, 20, tune=0, prior="flat", rng=1, progressbar=False).draws
    assert draws.dtype == np.int32
    assert draws.sum().dtype == ppd.models.aggregate(draws, inv.total()).dtype == np.int64
    prior = FixedPrior(np.zeros(1), np.zeros(2))
    for largest, kind in ((MODULE.SMALL - 1, np.int32), (MODULE.SMALL, np.int64)):
        count = MODULE._allocate(prior, 2, largest, 1, 1, 1)["table"]
        count[:] = largest
        assert count.dtype == kind
        assert (count + count).tolist() == [[[2 * largest] * 2]]
        assert (-count - count).tolist() == [[[-2 * largest] * 2]]
    wrong = np.full(1, MODULE.SMALL, dtype=np.int32)
    assert (wrong + wrong)[0] < 0


@pytest.mark.parametrize(("workers", "needed"), [({}, r"2 x .* 1\.6"), ({"chains": 4, "workers": 2}, r"4 x .* 3\.2")])
def test_draws_that_exceed_the_memory_are_refused_before_the_first(workers, needed, monkeypatch):
    monkeypatch.setattr(MODULE, "_memory", lambda: 1e9)
    monkeypatch.setattr(MODULE, "run", lambda function, tasks, workers: map(function, tasks))
    with pytest.raises(ModelError, match=rf"{needed} GB, .* has 1\.0 GB"):
        ppd.denoise(PAIR, 10**8, prior="flat", progressbar=False, **workers)


def test_the_figure_of_a_large_table_shows_the_uncertain_cells():
    """Of 60 cells, three small ones are suppressed and the others are exact."""
    counts = np.arange(60).reshape(6, 10) + 20.0
    counts[1, 2] = counts[3, 4] = counts[5, 9] = np.nan
    coords = {"area": list("ABCDEF"), "age": list(range(10))}
    table = xr.DataArray(counts, dims=("area", "age"), coords=coords)
    cells = ppd.suppressed(table, below=10, least=1, empty="suppressed")
    seen = ppd.Measurements(coords, public={inv.margin("area", "age"): cells})
    posterior = ppd.denoise(seen, draws=50, rng=1, progressbar=False)
    figure = posterior.plot()
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(shown) == 40
    assert {"B, 2", "D, 4", "F, 9"} <= set(shown)
    assert denoised_report._margins(posterior, posterior.summary(), None) is not None
    assert denoised_report._margins(posterior, posterior.summary(inv.groups("area")), inv.groups("area")) is None
