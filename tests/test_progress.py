"""Off a terminal, a long computation prints a line at most every 10 seconds, with the share done and the time left."""

import threading

import numpy as np
import pytest

import ppdinf as ppd
from ppdinf._internal import progress as module
from ppdinf.report import analyse_rates


class Clock:
    """A clock that a test advances."""

    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(module, "time", clock := Clock())
    return clock


def test_lines_are_ten_seconds_apart_and_state_the_time_left(clock, capsys):
    with module.progress("Sampling [1]", 100) as advance:
        for _ in range(100):
            clock.now += 4
            advance(1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Sampling [1]: 4%, about 6 min left"
    assert lines[-1] == "Sampling [1]: 97%, about 12 s left"
    assert len(lines) == 32


def test_time_before_the_first_step_does_not_enter_the_estimate(clock, capsys):
    with module.progress("Sampling", 8000) as advance:
        clock.now += 24  # compilation
        advance(1)
        clock.now += 10
        advance(1000)
    assert capsys.readouterr().out == "Sampling: 13%, about 70 s left\n"


def test_short_computations_print_nothing(clock, capsys):
    assert list(module.tracked(iter(range(50)), "Short", 50)) == list(range(50))
    with module.progress("Long", 3, disable=True) as advance:
        clock.now += 60
        advance(1)
    assert capsys.readouterr().out == ""


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


def test_denoising_prints_lines(monkeypatch, capsys):
    monkeypatch.setattr(module, "EVERY", 0.0)
    inv = ppd.invariants
    law = ppd.laws.DoubleGeometric(1)
    seen = ppd.Measurements(
        {"area": ["A", "B"]}, ppd.measured(inv.margin("area"), [3, 5], law), public={inv.total(): 8}
    )
    posterior = ppd.denoise(seen, draws=10, rng=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * 15 - 2
    assert lines[0].startswith("Denoising: 7%, about ")
    assert (posterior.sums(inv.total()).values == 8).all()


def test_a_rate_analysis_prints_lines(monkeypatch, capsys):
    monkeypatch.setattr(module, "EVERY", 0.0)
    release = ppd.Release(np.array([3, -1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pytest.warns(ppd.errors.DiagnosisWarning):
        analyse_rates(release, draws=20, chains=2, cores=1, progressbar=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * 40 - 2
    assert lines[0].startswith("Sampling: 2%, about ")
