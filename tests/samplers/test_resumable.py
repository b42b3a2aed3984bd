"""Chains of PyMC that are killed go on to the draws of a chain that was not."""

import os
import signal
import subprocess
import sys

import numpy as np
import pymc as pm
import pytest

import ppdinf as ppd
from ppdinf._internal import checkpoint as _kept_work
from ppdinf.samplers.resumable import KeptSteps, kept_steps

RATES = {"tune": 40, "chains": 2, "random_seed": 5}
REST = {"draws": 40, "cores": 1, "progressbar": False, "quiet": True, "compute_convergence_checks": False}


class Killed(BaseException):
    pass


def model_of(walked):
    release = ppd.Release(np.array([30, 4, 12]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4"))
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("level", 2, 1) * pm.Gamma("rate", 2, 0.1, dims=release.dims)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release, marginalize=not walked)
    return model


def kept(model, folder, **other):
    with model:
        steps = kept_steps(folder, target_accept=0.9, **RATES)
        return pm.sample(step=steps, **(RATES | REST | other))


def same(one, two):
    for group in ("posterior", "sample_stats"):
        a, b = one[group].dataset, two[group].dataset
        assert set(a.data_vars) == set(b.data_vars)
        for name in a.data_vars:
            if not any(word in name for word in ("time", "perf_counter", "process")):
                assert np.array_equal(a[name].values, b[name].values, equal_nan=a[name].dtype.kind == "f"), name


@pytest.mark.deep
@pytest.mark.parametrize("walked", [False, True])
def test_killed_anywhere_a_chain_comes_to_the_same_draws(tmp_path, monkeypatch, walked):
    """The draws are those of `pm.sample`, in one process and in several."""
    model = model_of(walked)
    with model:
        whole = pm.sample(nuts_sampler="pymc", target_accept=0.9, **(RATES | REST))
    monkeypatch.setattr(_kept_work, "EVERY", 0.0)
    monkeypatch.setattr(KeptSteps, "step", killing := Killing(KeptSteps.step))
    for steps in (1, 41, 60):
        killing.left = steps
        with pytest.raises(Killed):
            kept(model, tmp_path)
    killing.left = 10**9
    same(kept(model, tmp_path), whole)
    same(kept(model, tmp_path), whole)  # all is kept
    same(kept(model, tmp_path / "two", cores=2), whole)


class Killing:
    """A step that dies after some, kept or taken; bound as a method is."""

    def __init__(self, step):
        self.step, self.left = step, 0

    def __get__(self, steps, kind=None):
        def run(point):
            self.left -= not steps._ahead  # what was kept comes for nothing
            if self.left < 0:
                raise Killed
            return self.step(steps, point)

        return run


ANALYSIS = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import ppdinf as ppd
from ppdinf._internal import checkpoint as _kept_work
from ppdinf.report import analyse_rates
_kept_work.EVERY = 0.0
release = ppd.Release(np.array([30, 4, 12, -3, 7, 9]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4"))
print("ready", flush=True)
from pathlib import Path
kept = analyse_rates(release, draws=150, chains=2, cores=2, keep=Path(sys.argv[1]))
whole = analyse_rates(release, draws=150, chains=2, cores=1)  # in one process, and nothing kept
print(kept.table().to_csv(index=False) == whole.table().to_csv(index=False))
"""


@pytest.mark.deep
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_analysis_of_rates_that_was_killed(tmp_path):
    """All its processes, once what is kept has grown by some draws; then to the end, and to the table of no kill.

    The first process compiles what the later ones find in a cache: both must draw the same.
    """
    flags = ",".join(filter(None, (os.environ.get("PYTENSOR_FLAGS"), f"base_compiledir={tmp_path / 'compiled'}")))
    command = [sys.executable, "-c", ANALYSIS, str(tmp_path / "kept")]
    kills, before = 0, 0
    for wanted in (20, 250, 10**9):
        process = subprocess.Popen(
            command, env=os.environ | {"PYTENSOR_FLAGS": flags}, stdout=subprocess.PIPE, start_new_session=True
        )
        while process.poll() is None:
            if len(list(tmp_path.rglob("*.npz"))) >= wanted:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                kills += 1
        said = process.communicate()[0].split()
        after = len(list(tmp_path.rglob("*.npz")))
        assert after > before
        before = after
    assert (process.returncode, kills) == (0, 2)
    assert said == [b"ready", b"True"]
