"""Tasks in one process, several, and on a cluster that loses a worker; the lines that long computations print."""

import os
import pickle
import signal
import threading
from concurrent.futures import Future

import cloudpickle
import numpy as np
import pymc as pm
import pytest

import ppdinf as ppd
from case_studies._shared.study import Study
from ppdinf import invariants as inv
from ppdinf._internal import progress as module
from ppdinf._internal import workers
from ppdinf._internal.workers import run
from ppdinf.diagnostics import calibration
from ppdinf.diagnostics.calibration import calibrate
from ppdinf.errors import WorkersError
from ppdinf.report import analyse_rates
from ppdinf.samplers import posterior_rejection


def drawing(seed):
    """Return a function that draws from the stream of its task; it is copied to processes without this file."""
    return lambda k: (k, np.random.default_rng([seed, k]).normal(size=3).tolist())


def simulate(rng):
    mean = rng.normal()
    return {"mean": mean}, mean + rng.normal()


def infer(seen, rng):
    return {"mean": rng.normal(seen / 2, 2**-0.5, size=9)}


def test_results_are_in_the_order_of_the_tasks():
    alone = list(run(drawing(1), range(5)))
    assert [k for k, _ in alone] == list(range(5))
    assert list(run(drawing(1), range(5), 1)) == alone
    assert list(run(drawing(1), range(5), np.int64(2))) == alone
    assert list(run(abs, [], 2)) == []


def test_tasks_that_share_a_generator_depend_on_the_processes():
    """Wrong variant: the stream is not a part of the task."""

    def results(workers):
        rng = np.random.default_rng(1)
        return list(run(lambda k: rng.random(), range(4), workers))

    assert results(2) != results(None)


def test_tasks_start_when_results_are_read():
    started = []
    results = run(started.append, range(3))
    assert started == []
    next(results)
    assert started == [0]


@pytest.mark.parametrize("workers", [0, -1, True, False, 2.0, "2", [2], {}], ids=repr)
def test_refusals(workers):
    with pytest.raises(WorkersError, match="workers must be a number of processes >= 1"):
        run(abs, [1], workers)
    with pytest.raises(WorkersError):
        calibrate(simulate, infer, replicates=1, workers=workers)


def test_replicates_of_a_calibration_are_tasks(monkeypatch):
    """Each replicate has the same result if its function and its generator are copied, as to another process."""
    alone = calibrate(simulate, infer, replicates=8, rng=1)
    copied = lambda task: pickle.loads(cloudpickle.dumps(task))  # noqa: E731
    monkeypatch.setattr(calibration, "run", lambda f, tasks, workers: (copied(f)(copied(task)) for task in tasks))
    assert calibrate(simulate, infer, replicates=8, rng=1).equals(alone)
    assert len(set(alone["mean"])) == 8


def test_an_error_of_a_task_is_raised():
    with pytest.raises(ZeroDivisionError):
        list(run(lambda k: 1 // k, [1, 0], 2))


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")  # settings of the cluster, such as ports and dependencies
def test_a_cluster_repeats_the_task_of_a_lost_worker(tmp_path):
    distributed = pytest.importorskip("distributed")

    def killed_once(k):
        begun = tmp_path / f"{k}-{os.getpid()}"
        begun.touch()
        if k == 2 and len(list(tmp_path.glob("2-*"))) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return drawing(1)(k)

    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        assert list(run(killed_once, range(6), client)) == list(run(drawing(1), range(6)))
        assert len(list(tmp_path.glob("2-*"))) == 2  # two processes began the task
        with pytest.raises(ZeroDivisionError):
            list(run(lambda k: 1 // k, [1, 0], client))
        found = [
            Study("A title", tmp_path / str(workers is None), about="", settings={}).replicates(
                lambda rng, k: rng.normal(), 4, workers=workers
            )
            for workers in (client, None)
        ]
        assert found[0] == found[1]
        seen = ppd.Measurements({"a": ["A", "B"]}, ppd.measured(inv.margin("a"), [5, 3], ppd.laws.DoubleGeometric(1)))
        chains = [
            ppd.denoise(seen, draws=50, chains=3, rng=1, progressbar=False, workers=workers).draws
            for workers in (client, 2, None)
        ]
        assert chains[0].identical(chains[2])
        assert chains[1].identical(chains[2])
    with pytest.raises(WorkersError, match="connected client"):
        run(abs, [1], client)


def test_a_cluster_closed_between_two_tasks_is_named():
    """A client that is closed cancels its tasks."""

    class Closing:
        def map(self, function, tasks, pure):
            self.futures = [Future() for _ in tasks]
            self.futures[0].set_result(function(tasks[0]))
            return self.futures

    client = Closing()
    results = workers._on_cluster(abs, [-1, -2, -3], client)
    assert next(results) == 1
    for future in client.futures[1:]:
        future.cancel()
    with pytest.raises(WorkersError, match="closed before 2 tasks were done: connect a client and run again"):
        next(results)


class Clock:
    """A clock that a test advances."""

    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(module, "CHECKED", 1000.0)
    monkeypatch.setattr(module, "time", clock := Clock())
    return clock


@pytest.fixture
def always(monkeypatch):
    """Print a line at every step."""
    monkeypatch.setattr(module, "EVERY", 0.0)
    monkeypatch.setattr(module, "CHECKED", 1000.0)


@pytest.fixture
def printed(monkeypatch):
    """Set whenever the thread that prints during long steps has printed a line."""
    event = threading.Event()
    monkeypatch.setattr(module, "CHECKED", 0.001)
    monkeypatch.setattr(module, "print", lambda *args, **kwargs: (print(*args), event.set()), raising=False)
    return event


def test_lines_are_ten_seconds_apart_and_state_the_time_left(clock, capsys):
    with module.progress("Sampling [1]", 100) as advance:
        for _ in range(100):
            clock.now += 4
            advance(1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Sampling [1]: 4% after 16 s", "Sampling [1]: 7% after 28 s"]
    assert lines[6] == "Sampling [1]: 21%, about 5 min left"
    assert lines[-1] == "Sampling [1]: 99%, about 4 s left"
    assert len(lines) == 33


@pytest.mark.parametrize(
    ("total", "steps", "line"),
    [(100, [(0.4, 1)] * 22, "21%, about 32 s left"), (8000, [(24, 1), (10, 1000)], "13%, about 70 s left")],
)
def test_the_first_estimate_follows_a_second_of_timed_steps(total, steps, line, clock, capsys):
    """Time before the first step, as of compilation, does not enter the estimate."""
    with module.progress("Sampling", total) as advance:
        for seconds, n in steps:
            clock.now += seconds
            advance(n)
    assert capsys.readouterr().out == f"Sampling: {line}\n"


def test_slow_first_steps_are_not_extrapolated(clock, capsys):
    """Five steps of 8,000 during compilation, then many fast steps: at the rate of the first, hours would be left."""
    with module.progress("Sampling", 8000, before="compiling the model") as advance:
        for n in (0, 1, 1, 1, 1, 1, 200, 2000):
            clock.now += 30
            if n:
                advance(n)
        clock.now += 11
        advance(1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Sampling: 0% after 90 s", "Sampling: 0% after 2 min"]
    assert "h left" not in "".join(lines)


def test_the_rate_of_the_last_minute_is_extrapolated(clock, capsys):
    """A hundred steps of 10 s, then 0.5 s a step: after a minute of these, the slow ones do not count."""
    with module.progress("Sampling", 1000) as advance:
        for seconds in [10] * 100 + [0.5] * 300:
            clock.now += seconds
            advance(1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[97] == "Sampling: 10%, about 2.5 h left"
    assert lines[-1] == "Sampling: 40%, about 5 min left"


def test_a_bar_has_the_same_words_at_most_every_five_seconds(clock):
    pace = module._Pace(1000, "compiling")
    words = module._Words(pace)
    shown = []
    for n, seconds in ((0, 0), (0, 4), (10, 2), (15, 4), (15, 1.5)):
        clock.now += seconds
        if n:
            pace.advance(n)
        shown.append(words.render(None).plain)
    assert shown == ["compiling, 0 s"] * 2 + ["1% after 6 s"] * 2 + ["4%, about 3 min left"]


def test_compilation_is_named(clock, printed, capsys):
    with module.progress("Sampling", 8000, before="compiling the model"):
        clock.now += 12
        assert printed.wait(10)
    assert capsys.readouterr().out == "Sampling: compiling the model, 12 s\n"


def test_lines_appear_during_long_steps(clock, printed, capsys):
    with module.progress("Sampling", 4) as advance:
        clock.now += 12
        assert printed.wait(10)
        clock.now += 1
        advance(1)
        clock.now += 2
        advance(1)
        printed.clear()
        clock.now += 13
        assert printed.wait(10)
    first, *others = capsys.readouterr().out.splitlines()
    assert first == "Sampling: 0% after 12 s"
    assert others == ["Sampling: 50%, about 30 s left"]


def test_short_computations_print_nothing(clock, capsys):
    assert list(module.tracked(iter(range(50)), "Short", 50)) == list(range(50))
    with module.progress("Long", 3, disable=True) as advance:
        clock.now += 60
        advance(1)
    assert capsys.readouterr().out == ""


def test_only_the_outer_of_two_nested_computations_is_shown(clock, capsys):
    for _ in module.tracked(iter("abc"), "Outer", 3):
        for _ in module.tracked(iter("abc"), "Inner", 3):
            clock.now += 20
    assert capsys.readouterr().out == "Outer: 67%, about 60 s left\n"


def test_steps_of_several_threads_are_counted_once(clock, capsys):
    with module.progress("Threads", 4001) as advance:
        advance(0)
        threads = [threading.Thread(target=lambda: [advance(1) for _ in range(1000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        clock.now += 4000
        advance(0)
    assert capsys.readouterr().out == "Threads: 100%, about 1 s left\n"


def test_denoising_prints_lines(always, capsys):
    inv = ppd.invariants
    law = ppd.laws.DoubleGeometric(1)
    seen = ppd.Measurements(
        {"area": ["A", "B"]}, ppd.measured(inv.margin("area"), [3, 5], law), public={inv.total(): 8}
    )
    posterior = ppd.denoise(seen, draws=10, rng=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * 15 - 2
    assert lines[0].startswith("Denoising: 7% after ")
    assert lines[-1].startswith("Denoising: 97%, about ")
    assert (posterior.sums(inv.total()).values == 8).all()


@pytest.mark.quick_cases(0)
def test_a_rate_analysis_prints_lines(always, capsys):
    release = ppd.Release(np.array([3, -1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pytest.warns(ppd.errors.DiagnosisWarning):
        analyse_rates(release, draws=20, chains=2, cores=1, progressbar=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == (2 * 40 - 2) + (2 * 20 - 2)
    assert lines[0].startswith("Sampling: 2% after ")
    assert lines[-1].startswith("Drawing tables: 98%, about ")


def test_plans_print_lines(always, capsys):
    plan = ppd.plan(lambda epsilon: ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=epsilon), (3,), [1, 2])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == ["Planning: 50%", "Planning: 75%"]
    plan.loss_for(sd=1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("Finding the loss: 96%, about ")


def test_rejection_prints_lines(always, monkeypatch, capsys):
    monkeypatch.setattr(posterior_rejection, "BATCH", 64)
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 1)
        pm.Poisson("seen", rate, observed=2)
    ppd.samplers.rejection(model, 200, rng=1)
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(line.startswith("Rejection: ") and line.endswith(" left") for line in lines)
