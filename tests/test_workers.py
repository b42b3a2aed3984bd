"""Tasks have the same results in one process, in several, and on a cluster that loses a worker."""

import os
import pickle
import signal
from concurrent.futures import Future

import cloudpickle
import numpy as np
import pytest

import ppdinf as ppd
from case_studies._shared.study import Study
from ppdinf import invariants as inv
from ppdinf._internal import workers
from ppdinf._internal.workers import run
from ppdinf.diagnostics import calibration
from ppdinf.diagnostics.calibration import calibrate
from ppdinf.errors import WorkersError


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
