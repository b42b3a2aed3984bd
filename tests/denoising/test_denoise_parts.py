"""A table in parts: against enumeration, the same sums in one tree, and least squares; resumed and refused runs."""

import itertools
import os
import signal
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from chi_square import p_value_of_tables
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.denoising import BinomialPrior
from ppdinf.denoising.denoise_parts import TOLERANCES
from ppdinf.denoising.part_sums import PartSums, PartTotals
from ppdinf.errors import DiagnosisWarning, InvariantError, LabelError, ModelError, WorkersError

pytest.importorskip("pyarrow")

inv, laws = ppd.invariants, ppd.laws
UNITS = {"04": [2, 3], "44": [1, 3, 2], "48": [3, 2]}
CELLS = {"04": [3, 1], "44": [0, 4, 1], "48": [1, 2]}  # noisy, variance 3
PAIRS = {"44": 3}  # the first two cells of part 44, variance 2
TOTALS = {"04": 3, "48": 5}  # of parts, within the part, variance 4
PUBLIC, REGION, OF_44 = 9, 7, 5  # all parts; 04 and 44 together (variance 5); part 44, stated at the top (variance 4)
P = 0.6


def gaussian(variance):
    return laws.DiscreteGaussian(variance=variance)


def part(name, **changes):
    cells, totals = changes.get("cells", CELLS), changes.get("totals", TOTALS)
    labels = [f"{name}{letter}" for letter in "abc"[: len(UNITS[name])]]
    parts = [ppd.measured(inv.margin("block"), cells[name], gaussian(3.0))]
    if name in PAIRS:
        parts.append(ppd.measured(inv.linear([[1, 1, 0]]), [PAIRS[name]], gaussian(2.0)))
    if name in totals:
        parts.append(ppd.measured(inv.total(), [totals[name]], gaussian(4.0)))
    return ppd.Measurements({"block": labels}, *parts, coords={"units": ("block", UNITS[name])})


def nation(public=PUBLIC):
    return ppd.Measurements(
        {"state": list(UNITS)},
        ppd.measured(inv.linear([[1, 1, 0]]), [REGION], gaussian(5.0)),
        ppd.measured(inv.linear([[0, 1, 0]]), [OF_44], gaussian(4.0)),
        public={inv.total(): public},
    )


def all_tables():
    """All tables, with the log weights of their cells and sums within parts, and with everything."""
    units = np.concatenate(list(UNITS.values()))
    tables = np.array(list(itertools.product(*(range(n + 1) for n in units))))
    part_of = np.repeat(np.arange(3), [len(u) for u in UNITS.values()])
    totals = np.stack([tables[:, part_of == k].sum(axis=1) for k in range(3)], axis=1)
    log = stats.binom.logpmf(tables, units, P) - (tables - np.concatenate(list(CELLS.values()))) ** 2 / 6
    by_part = np.stack([log[:, part_of == k].sum(axis=1) for k in range(3)], axis=1)
    by_part[:, 1] -= (tables[:, 2] + tables[:, 3] - PAIRS["44"]) ** 2 / 4
    by_part[:, 0] -= (totals[:, 0] - TOTALS["04"]) ** 2 / 8
    by_part[:, 2] -= (totals[:, 2] - TOTALS["48"]) ** 2 / 8
    log = by_part.sum(axis=1) - (totals[:, :2].sum(axis=1) - REGION) ** 2 / 10 - (totals[:, 1] - OF_44) ** 2 / 8
    return tables, part_of, by_part, np.where(totals.sum(axis=1) == PUBLIC, log, -np.inf)


def run(folder, *, draws, top=None, rng=1, **changes):
    sources = changes.pop("sources", {name: part(name) for name in UNITS})
    arguments = {"prior": BinomialPrior("units", P)} | changes
    posterior = ppd.denoise_parts(
        sources, folder, draws, top=nation() if top is None else top, rng=rng, progressbar=False, **arguments
    )
    tables = {name: pd.read_parquet(path) for name, path in posterior.files.items()}
    return posterior, np.concatenate([t.filter(like="draw_").to_numpy().T for t in tables.values()], axis=1), tables


def test_messages_are_sums_over_all_tables_of_a_part():
    tables, part_of, by_part, _ = all_tables()
    for k, name in enumerate(UNITS):
        own, first = np.unique(tables[:, part_of == k], axis=0, return_index=True)
        for tilt in (0.0, 1.3):
            message = PartSums(part(name), BinomialPrior("units", P)).message(tilt, 1e-10)
            for total, log_weight in enumerate(message.log_weight, message.first):
                right = logsumexp(by_part[first, k][own.sum(axis=1) == total])
                assert log_weight == pytest.approx(right + tilt * (total - message.center), abs=1e-10)


def sampled(top, priors, seed=1, draws=3000):
    """Draws without files."""
    parts = [PartSums(part(name), prior) for name, prior in priors.items()]
    messages = [p.message(0.0, 1e-10) for p in parts]
    totals = PartTotals(list(priors), top).posterior(messages)[0].draw(draws, seed)
    rng = np.random.default_rng(seed)
    return np.concatenate([p.draw(m, t, rng) for p, m, t in zip(parts, messages, totals.T, strict=True)], axis=1)


@pytest.mark.quick_cases(0)
def test_draws_have_the_enumerated_law():
    """False alarm rate 1 in 10^5. Without the region, or with the prior of one part 0.2 off, the test fails."""
    tables, _, _, log = all_tables()
    law, prior = np.exp(log - logsumexp(log)), dict.fromkeys(UNITS, BinomialPrior("units", P))
    assert p_value_of_tables(sampled(nation(), prior), tables, law, least=8) > 1e-5
    without = ppd.Measurements({"state": list(UNITS)}, public={inv.total(): PUBLIC})
    assert p_value_of_tables(sampled(without, prior), tables, law, least=8) < 1e-5
    other = prior | {"44": BinomialPrior("units", P - 0.2)}
    assert p_value_of_tables(sampled(nation(), other), tables, law, least=8) < 1e-5


def test_files_have_the_enumerated_law(tmp_path):
    """False alarm rate 1 in 10^5."""
    tables, _, _, log = all_tables()
    posterior, drawn, files = run(tmp_path, draws=300)
    assert p_value_of_tables(drawn, tables, np.exp(log - logsumexp(log)), least=3) > 1e-5
    assert posterior.bound < 1e-9
    assert (drawn.sum(axis=1) == PUBLIC).all()
    for name, file in files.items():
        assert (file.filter(like="draw_").sum().to_numpy() == posterior.totals.sel(state=name)).all()
        assert file["block"].str.startswith(name).all()
        assert file["units"].tolist() == UNITS[name]
        assert file["draw_0"].dtype == np.int8


def wide(parts, cells, share):
    """Measurements of parts, of their totals, a share of the units, and of the same table undivided."""
    rng = np.random.default_rng(1)
    names, units = [f"{k}" for k in range(parts)], rng.integers(5, 40, (parts, cells))
    noisy, total = rng.binomial(units, 0.5) + rng.integers(-3, 4, units.shape), int(share * units.sum())
    labels = [[f"{name}.{c}" for c in range(cells)] for name in names]
    divided = [
        ppd.Measurements(
            {"cell": own}, ppd.measured(inv.margin("cell"), y, gaussian(300.0)), coords={"units": ("cell", n)}
        )
        for own, y, n in zip(labels, noisy, units, strict=True)
    ]
    region = np.arange(parts) < 2
    whole = ppd.Measurements(
        {"cell": np.concatenate(labels)},
        ppd.measured(inv.margin("cell"), noisy.ravel(), gaussian(300.0)),
        ppd.measured(inv.linear(np.repeat(region, cells)[None].astype(int)), [2 * total // 3], gaussian(30.0)),
        coords={"units": ("cell", units.ravel())},
        public={inv.total(): total},
    )
    top = ppd.Measurements(
        {"part": names},
        ppd.measured(inv.linear(region[None].astype(int)), [2 * total // 3], gaussian(30.0)),
        public={inv.total(): total},
    )
    return divided, names, top, PartSums(whole, BinomialPrior("units", 0.5))


def evaluated(part):
    return part._evaluated(part._sums(1e-13), 0.0)


@pytest.mark.parametrize(("share", "passes"), [(0.5, 1), (0.75, 3), (0.97, 6)])
def test_root_is_that_of_the_undivided_tree(share, passes):
    """The total weight, and moments of the region and the nation, up to 45 standard deviations from the prior."""
    divided, names, top, whole = wide(3, 60, share)
    parts = [PartSums(data, BinomialPrior("units", 0.5)) for data in divided]
    totals, tilts = PartTotals(names, top), np.zeros(3)
    for tolerance in TOLERANCES[:passes]:
        messages = [p.message(tilt, tolerance) for p, tilt in zip(parts, tilts, strict=True)]
        found = totals.posterior(messages)
        if found is not None:
            break
        tilts = totals.tilts(messages)
    right = evaluated(whole)
    assert found[0].value.sum() == pytest.approx(right.value.sum(), abs=1e-8)
    mean, variance = found[0].posteriors()[3:]
    right_mean, right_variance = right.posteriors()[3:]
    assert np.isclose(right_mean[:, None], mean, rtol=1e-9).any(axis=1).all()  # region and nation
    assert np.isclose(right_variance[:, None], variance, rtol=1e-5, atol=1e-6).any(axis=1).all()


def test_untilted_messages_are_not_accepted_far_from_the_prior():
    """Messages that are trimmed too much: without the mass that they omit, a wrong total weight would be accepted."""
    divided, names, top, whole = wide(3, 60, 0.55)
    messages = [PartSums(data, BinomialPrior("units", 0.5)).message(0.0, 1e-3) for data in divided]
    totals = PartTotals(names, top)
    assert totals.posterior(messages) is None
    wrong = totals.posterior([replace(message, log_missing=-np.inf) for message in messages])[0]
    assert abs(wrong.value.sum() - evaluated(whole).value.sum()) > 1e-2


def test_large_counts_have_the_moments_of_least_squares():
    """A nation's noisy total, states, counties of two cells, counts in the thousands with a flat prior.

    Moments of totals are exact. Means and covariances of drawn counties, also of different states, are within 4.5
    standard errors: false alarms 1 in 5,000. Without the number of the nation, the test fails.
    """
    rng, cells = np.random.default_rng(2), np.eye(12)
    counties, states = np.kron(np.eye(6), np.ones(2)), np.kron(np.eye(3), np.ones(4))
    x, Q = rng.integers(4000, 9000, 12), np.vstack([cells, counties, states, np.ones(12)])
    v = np.repeat([50.0, 15.0, 20.0, 10.0], [12, 6, 3, 1])
    y = np.rint(Q @ x + rng.normal(0, np.sqrt(v))).astype(int)

    def least_squares(v):
        covariance = np.linalg.inv(Q.T @ (Q / v[:, None]))
        return covariance @ Q.T @ (y / v), covariance

    mean, covariance = least_squares(v)
    parts = []
    for k in range(3):
        stated = (
            ppd.measured(inv.margin("cell"), y[4 * k : 4 * k + 4], gaussian(50.0)),
            ppd.measured(inv.linear([[1, 1, 0, 0], [0, 0, 1, 1]]), y[12 + 2 * k : 14 + 2 * k], gaussian(15.0)),
            ppd.measured(inv.total(), [y[18 + k]], gaussian(20.0)),
        )
        parts.append(PartSums(ppd.Measurements({"cell": range(4)}, *stated), None))
    names = ["a", "b", "c"]
    top = ppd.Measurements({"state": names}, ppd.measured(inv.total(), [y[21]], gaussian(10.0)))
    messages = [part.message(0.0, 1e-10) for part in parts]
    found, _ = PartTotals(names, top).posterior(messages)
    posteriors = found.posteriors()
    assert posteriors.cell_mean == pytest.approx(states @ mean, abs=1e-6)
    assert posteriors.cell_variance == pytest.approx(np.diag(states @ covariance @ states.T), rel=1e-6)
    assert posteriors.variance[-1] == pytest.approx(covariance.sum(), rel=1e-6)
    n = 2000
    drawn = [p.draw(m, t, rng) for p, m, t in zip(parts, messages, found.draw(n, rng).T, strict=True)]
    totals = np.concatenate(drawn, axis=1) @ counties.T

    def farthest(mean, covariance):
        mean, covariance = counties @ mean, counties @ covariance @ counties.T
        spread = np.diag(covariance)
        errors = np.sqrt((np.outer(spread, spread) + covariance**2) / n)
        means = (totals.mean(axis=0) - mean) / np.sqrt(spread / n)
        return max(np.abs(means).max(), np.abs((np.cov(totals.T) - covariance) / errors).max())

    assert farthest(mean, covariance) < 4.5
    assert farthest(*least_squares(np.where(np.arange(22) == 21, 1e6, 1.0) * v)) > 4.5


def test_an_interrupted_run_is_resumed_with_the_same_bits(tmp_path, monkeypatch):
    whole, *_ = run(tmp_path / "whole", draws=20)
    calls, work = [], PartSums.message

    def interrupted():
        raise KeyboardInterrupt

    def counted(sums, *arguments):
        calls.append(sums.data.coords["block"][0])
        return work(sums, *arguments)

    monkeypatch.setattr(PartSums, "message", counted)
    sources = {name: part(name) for name in UNITS}
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "again", draws=20, sources=sources | {"48": interrupted})
    path = tmp_path / "48.ppd"
    sources["48"].save(path)
    again, *_ = run(tmp_path / "again", draws=20, rng=None, sources=sources | {"44": lambda: part("44"), "48": path})
    assert calls == ["04a", "44a", "48a"]  # every message once
    assert (again.totals == whole.totals).all()
    assert [p.read_bytes() for p in again.files.values()] == [p.read_bytes() for p in whole.files.values()]
    again.files["44"].unlink()
    run(tmp_path / "again", draws=20)
    assert [p.read_bytes() for p in again.files.values()] == [p.read_bytes() for p in whole.files.values()]
    assert len(calls) == 3


@pytest.mark.deep
def test_draws_are_the_same_with_two_processes(tmp_path):
    alone, *_ = run(tmp_path / "alone", draws=20)
    shared, *_ = run(tmp_path / "shared", draws=20, workers=2)
    assert [p.read_bytes() for p in shared.files.values()] == [p.read_bytes() for p in alone.files.values()]


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")  # settings of the cluster, such as ports and dependencies
def test_draws_are_the_same_on_a_cluster_that_loses_a_worker(tmp_path):
    distributed = pytest.importorskip("distributed")
    loads = tmp_path / "loads"
    loads.mkdir()

    def killed_twice():
        number = len(list(loads.iterdir()))
        (loads / str(number)).touch()
        if number in (0, 2):  # once in the upward pass, once in the downward pass
            os.kill(os.getpid(), signal.SIGKILL)
        return part("44")

    alone, *_ = run(tmp_path / "alone", draws=20)
    sources = {name: part(name) for name in UNITS} | {"44": killed_twice}
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        shared, *_ = run(tmp_path / "shared", draws=20, sources=sources, workers=client)
    assert len(list(loads.iterdir())) == 4
    assert [p.read_bytes() for p in shared.files.values()] == [p.read_bytes() for p in alone.files.values()]


def test_a_run_of_other_data_is_not_resumed(tmp_path):
    run(tmp_path, draws=5)
    changed = {name: part(name) for name in UNITS} | {"44": part("44", cells=CELLS | {"44": [0, 4, 2]})}
    with pytest.raises(ModelError, match="part '44' have changed"):
        run(tmp_path, draws=5, sources=changed)
    with pytest.raises(ModelError, match="prior of part '04' have changed"):
        run(tmp_path, draws=5, prior=BinomialPrior("units", 0.5))
    for changes in ({"draws": 6}, {"top": nation(10)}, {"rng": 2}):
        with pytest.raises(ModelError, match="started with other"):
            run(tmp_path, **({"draws": 5} | changes))


@pytest.mark.parametrize("other", ["sign", "kind of labels"])
def test_a_part_with_other_signs_or_labels_is_another_part(other, tmp_path):
    def stated(row=(1, 1), labels=(1, 2)):
        public = inv.inequality([list(row)], [-1], ["limit"])
        return ppd.Measurements({"b": list(labels)}, coords={"units": ("b", [3, 3])}, public=public)

    changed = stated(row=(-1, -1)) if other == "sign" else stated(labels=("1", "2"))
    options = {"draws": 5, "prior": BinomialPrior("units", 0.9), "rng": 1, "progressbar": False}
    ppd.denoise_parts({"x": stated()}, tmp_path, **options)
    ppd.denoise_parts({"x": stated()}, tmp_path, **options)
    with pytest.raises(ModelError, match="have changed"):
        ppd.denoise_parts({"x": changed}, tmp_path, **options)


def test_draws_of_other_measurements_are_not_taken_over(tmp_path):
    """The weights of a part were deleted, so that only the file of draws shows the change."""
    run(tmp_path, draws=5)
    (tmp_path / "messages" / "44.0.npz").unlink()
    changed = {name: part(name) for name in UNITS} | {"44": part("44", cells=CELLS | {"44": [0, 4, 2]})}
    with pytest.raises(ModelError, match="draws of part '44' given other measurements"):
        run(tmp_path, draws=5, sources=changed)


def damaged(data, how):
    """A file with one flipped bit in one byte of 29, or the file truncated, empty, or with another content."""
    if how == "bits":
        yield from (data[:k] + bytes([data[k] ^ (1 << k % 8)]) + data[k + 1 :] for k in range(0, len(data), 61))
    else:
        yield from (b"", data[: len(data) // 2], b"{}", b"[1]")


@pytest.mark.parametrize("how", ["bits", "parts"])
def test_damaged_files_are_named_and_made_again(tmp_path, how):
    """Every kind of file of a run, with the remedy of the message: the same bytes are made again."""
    posterior, *_ = run(tmp_path, draws=5)
    files = ["draws/44.parquet", "messages/44.0.npz", "settings.json"]
    whole = posterior.files["44"].read_bytes()
    for name in (*files, *(f"digests/{name.rpartition('/')[2]}.json" for name in files)):
        place = tmp_path / name
        data, of = place.read_bytes(), "part '44'" if "44" in name else "the run"
        message = f"{place.name.removesuffix('.json')}(.json)? of {of} is damaged.*: delete"
        for k, other in enumerate(damaged(data, how)):
            place.write_bytes(other)
            with pytest.raises(ModelError, match=message):
                posterior.read("44") if "parquet" in name and k else run(tmp_path, draws=5)
        if "settings" in name:
            place.write_bytes(data)
        else:
            place.unlink()
        assert run(tmp_path, draws=5)[0].files["44"].read_bytes() == whole
    assert posterior.read("44").equals(pd.read_parquet(posterior.files["44"]))
    with pytest.raises(LabelError, match="'99' is not a part: the parts are 04, 44, 48"):
        posterior.read("99")
    posterior.files["44"].unlink()
    with pytest.raises(ModelError, match=r"44\.parquet of part '44', or its digest, is missing"):
        posterior.read("44")
    (tmp_path / "digests" / "settings.json.json").unlink()
    with pytest.raises(ModelError, match="without a digest"):
        run(tmp_path, draws=5)


def test_parts_and_the_labels_of_their_totals_may_be_in_different_orders(tmp_path):
    """The order of `parts` does not change the draws; the result has this order."""
    whole, *_ = run(tmp_path / "a", draws=5)
    for number, top in enumerate((nation(), None)):
        sources = {name: part(name) for name in reversed(UNITS)}
        if top is None:
            options = {"prior": BinomialPrior("units", P), "rng": 1, "progressbar": False}
            whole = ppd.denoise_parts({name: part(name) for name in UNITS}, tmp_path / "b", 5, **options)
            again = ppd.denoise_parts(sources, tmp_path / f"c{number}", 5, **options)
        else:
            again, *_ = run(tmp_path / f"c{number}", draws=5, top=top, sources=sources)
        assert again.totals.coords[again.totals.dims[1]].values.tolist() == ["48", "44", "04"]
        assert again.totals.equals(whole.totals.sel({whole.totals.dims[1]: ["48", "44", "04"]}))
        assert [again.read(name).equals(whole.read(name)) for name in UNITS] == [True] * 3


def one_cell(name):
    return ppd.Measurements({"b": [name]}, ppd.measured(inv.total(), 0, laws.DoubleGeometric(1)))


def test_a_total_that_contradicts_the_noise_is_reported(tmp_path):
    """Two readings of 0 and the exact total 40: each count is uniform, and the noise truncates its window."""
    parts = {"A": one_cell("a"), "B": one_cell("b")}

    def drawn(total, folder):
        top = ppd.Measurements({"s": ["A", "B"]}, public={inv.total(): total})
        return ppd.denoise_parts(parts, tmp_path / folder, 200, top=top, rng=1, progressbar=False)

    drawn(4, "consistent")
    for _ in range(2):  # drawn, and read
        with pytest.warns(DiagnosisWarning, match=r"draws of 2 cells reach the end .* part 'A': top or other sums"):
            drawn(40, "contradiction")


def test_a_total_that_no_parts_can_have_is_refused(tmp_path):
    """Random rounding leaves the counts 3 and 4, the other part has the total 8: the total 9 is impossible."""
    rounded = ppd.Measurements(
        {"b": ["a"]}, ppd.measured(inv.total(), 4, laws.RandomRounding(2)), coords={"units": ("b", [4])}
    )
    exact = ppd.Measurements({"b": ["c", "d"]}, coords={"units": ("b", [4, 4])}, public={inv.total(): 8})
    top = ppd.Measurements({"s": ["A", "B"]}, public={inv.total(): 9})
    with pytest.raises(ModelError, match="impossible or too improbable given the parts"):
        ppd.denoise_parts({"A": rounded, "B": exact}, tmp_path, 5, top=top, prior=BinomialPrior("units", 0.5))


def measurements(statement, values, labels="abc"):
    return ppd.Measurements({"block": list(labels)}, ppd.measured(statement, values, gaussian(2.0)))


FIRST, OVERLAPPING, WEIGHTED = [[1, 1, 0]], [[1, 1, 0], [0, 1, 1]], [[1, 2, 0]]
TOTAL_3 = ppd.measured(inv.total(), 3, gaussian(2.0))
HALF = ppd.Measurements({"block": ["a"]}, coords={"units": ("block", [1.5])})
REFUSED = {
    "unbounded": (measurements(inv.linear(FIRST), [3]), ModelError, "the count at block=c is unbounded"),
    "crossing": (measurements(inv.linear(OVERLAPPING), [3, 4]), InvariantError, "the sums .* and .* overlap"),
    "weighted": (measurements(inv.linear(WEIGHTED), [3]), InvariantError, "the sum .* has weights other than 1"),
    "not measurements": (lambda: 3, ModelError, "its function must return Measurements, found int"),
    "named as draws": (ppd.Measurements({"draw_0": ["a"]}, TOTAL_3), LabelError, "rename the coordinate 'draw_0'"),
    "negative": (
        ppd.Measurements({"block": ["a", "b"]}, TOTAL_3, public={inv.margin("block"): [4, -1]}),
        InvariantError,
        "'block=b' is published as -1",
    ),
    "trials": (HALF, ModelError, "the coordinate 'units' must contain integers >= 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_parts_are_refused_by_name(case, tmp_path):
    source, error, message = REFUSED[case]
    prior = BinomialPrior("units", 0.5) if case == "trials" else "flat"
    with pytest.raises(error, match=f"part 'x': {message}"):
        ppd.denoise_parts({"x": source}, tmp_path, 5, prior=prior, progressbar=False)


def test_arguments_are_refused(tmp_path):
    sources, outside = {name: part(name) for name in UNITS}, {"../x": part("04")}
    for number, (changes, error, message) in enumerate(
        (
            ({"top": measurements(inv.total(), [9])}, LabelError, "names of the parts"),
            ({"top": nation(99)}, InvariantError, "'total' contradicts"),
            ({"top": nation(-1)}, InvariantError, "'total' is published as -1"),
            ({"sources": outside, "top": measurements(inv.total(), [3], outside)}, LabelError, "name of a file"),
            ({"sources": {}}, ModelError, "at least one part"),
            ({"prior": "learned"}, ModelError, "prior must be 'flat'"),
            ({"rng": 0.5}, ModelError, "rng must be an integer >= 0"),
            ({"rng": -1}, ModelError, "rng must be an integer >= 0"),
            ({"sources": {1: part("04")}, "top": None}, LabelError, "name of a part must be text"),
            ({"workers": 0}, WorkersError, "processes >= 1"),
            ({"draws": 0}, ModelError, "draws must be an integer >= 1"),
            ({"draws": 5.0}, ModelError, "draws must be an integer >= 1"),
        )
    ):
        with pytest.raises(error, match=message):
            run(tmp_path / str(number), **({"draws": 5, "sources": sources} | changes))
    with pytest.raises(ModelError, match="between 0 and 1"):
        BinomialPrior("units", 1.0)
