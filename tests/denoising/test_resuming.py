"""`denoise` that is interrupted or killed goes on to the draws that it would have come to."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import ppdinf as ppd
from ppdinf._internal import checkpoint as _kept_work
from ppdinf.denoising.table_walk import Chain
from ppdinf.errors import ModelError

inv, laws = ppd.invariants, ppd.laws
NESTED = ppd.Measurements(
    {"a": list("ABCDEF")},
    ppd.measured(inv.margin("a"), [5, 3, 0, -2, 9, 4], laws.DoubleGeometric(1)),
    public={inv.total(): 17},
    coords={"part": ("a", list("xxyyzz"))},
)
CROSSED = ppd.Measurements(
    {"a": ["A", "B"], "b": ["f", "m"]},
    ppd.measured(inv.margin("a"), [5, 3], laws.DiscreteGaussian(variance=2)),
    ppd.measured(inv.margin("b"), [3, np.nan], laws.DoubleGeometric(1)),
    public={inv.total(): 7},
)
QUIET = {"rng": 3, "progressbar": False}


class Killed(BaseException):
    pass


def same(one, two):
    assert (one.draws.values == two.draws.values).all()
    assert one.parameters.keys() == two.parameters.keys()
    assert all(np.array_equal(one.parameters[name], two.parameters[name]) for name in one.parameters)


@pytest.mark.parametrize(("seen", "prior"), [(NESTED, "learned"), (NESTED, "flat"), (CROSSED, "learned")])
def test_killed_anywhere_it_comes_to_the_same_draws(tmp_path, monkeypatch, seen, prior):
    """Each run dies after a few writes of files, before or after a file gets its name."""
    whole = ppd.denoise(seen, draws=40, prior=prior, **QUIET)
    monkeypatch.setattr(_kept_work, "EVERY", 0.0)
    write, rng = _kept_work.write_whole, np.random.default_rng(1)

    def killing(*given):
        killing.left -= 1
        if killing.left < 0:
            if rng.random() < 0.5:
                write(*given)
            raise Killed
        write(*given)

    monkeypatch.setattr(_kept_work, "write_whole", killing)
    kills = 0
    while True:
        killing.left = int(rng.integers(3, 30))
        try:
            found = ppd.denoise(seen, draws=40, prior=prior, keep=tmp_path, **QUIET)
            break
        except Killed:
            kills += 1
    assert kills > 5
    same(found, whole)
    killing.left = 10**9
    same(ppd.denoise(seen, draws=40, prior=prior, keep=tmp_path, **QUIET), whole)


def test_what_is_kept_is_of_one_seed_and_one_table(tmp_path):
    ppd.denoise(NESTED, draws=20, keep=tmp_path, **QUIET)
    other = ppd.denoise(CROSSED, draws=20, keep=tmp_path, **QUIET)
    same(other, ppd.denoise(CROSSED, draws=20, **QUIET))
    more = ppd.denoise(NESTED, draws=21, keep=tmp_path, **QUIET)
    same(more, ppd.denoise(NESTED, draws=21, **QUIET))
    for rng in (None, np.random.default_rng(1)):
        with pytest.raises(ModelError, match="same seed"):
            ppd.denoise(NESTED, draws=20, rng=rng, keep=tmp_path)


def test_ctrl_c_gives_what_there_is_and_keeps_it(tmp_path, monkeypatch):
    whole = ppd.denoise(CROSSED, draws=300, tune=10, **QUIET)
    sweep, done, once = Chain.sweep, Counter(), threading.Lock()

    def interrupted(*given):
        done[id(given[0])] += 1
        if len(done) == 2 and min(done.values()) >= 50 and once.acquire(blocking=False):  # both chains have draws
            os.kill(os.getpid(), signal.SIGINT)
        if once.locked():
            time.sleep(0.1)  # until it is seen
        sweep(*given)

    monkeypatch.setattr(Chain, "sweep", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background Ctrl-C is ignored
    try:
        part = ppd.denoise(CROSSED, draws=300, tune=10, keep=tmp_path, **QUIET)
    finally:
        signal.signal(signal.SIGINT, before)
    assert 0 < part.draws.sizes["draw"] < 300
    monkeypatch.undo()
    same(ppd.denoise(CROSSED, draws=300, tune=10, keep=tmp_path, **QUIET), whole)


def test_ctrl_c_while_chains_are_begun_stops_the_first_one(monkeypatch):
    """Nothing is waited for: a chain that has not begun has no draws, and all have as many."""
    submit, sweep, begun, swept = ThreadPoolExecutor.submit, Chain.sweep, [], []

    def interrupted(*given):
        if begun:
            raise KeyboardInterrupt
        begun.append(submit(*given))
        return begun[0]

    def counted(*given):
        swept.append(given)
        time.sleep(0.01)
        sweep(*given)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    monkeypatch.setattr(Chain, "sweep", counted)
    with pytest.raises(KeyboardInterrupt):
        ppd.denoise(CROSSED, draws=1000, tune=10, **QUIET)
    assert len(swept) < 1000


KILLING = """
import gc, os, random, signal, sys, time
sys.path.insert(0, sys.argv[1])
from test_resuming import CROSSED, NESTED, QUIET, same
import ppdinf as ppd
from ppdinf._internal import checkpoint as _kept_work
kills, random.seed = 0, random.seed(1)
whole = {}
for seen in (NESTED, CROSSED):
    whole[id(seen)] = ppd.denoise(seen, draws=10, **QUIET)  # compiles as well
_kept_work.EVERY = 0.0
def begun(seen, name):
    child = os.fork()
    if not child:
        try:
            found = ppd.denoise(seen, draws=10, keep=sys.argv[2] + f"/{name}", **QUIET)
            same(found, whole[id(seen)])
        except BaseException as error:
            print(type(error), error, flush=True)
            os._exit(3)
        os._exit(0)
    return child
gc.collect()
gc.freeze()
start = time.monotonic()
for seen in (NESTED, CROSSED):
    assert os.waitpid(begun(seen, "no kill"), 0)[1] == 0
took = (time.monotonic() - start) / 2  # of a run that begins anew: how long others live depends on it, on any machine
results = 0
while kills < int(sys.argv[3]):
    seen = (NESTED, CROSSED)[results % 2]
    child = begun(seen, results)
    time.sleep(random.uniform(0.0, took / 2))
    os.kill(child, signal.SIGKILL)
    state = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(state):
        kills += 1
    else:
        assert os.WEXITSTATUS(state) == 0
        results += 1
print("results", results, "kills", kills)
"""


@pytest.mark.deep
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_two_hundred_kills(tmp_path):
    """Processes killed at random moments: what they leave goes on to the same draws."""
    here = str(Path(__file__).parent)
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", KILLING, here, str(tmp_path), "200"],
                         capture_output=True, text=True, timeout=600)  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    results = int(run.stdout.split()[1])
    assert results > 5  # and each of them is compared
