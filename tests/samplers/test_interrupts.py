"""Ctrl-C keeps the finished draws."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from typer.testing import CliRunner

import ppdinf as ppd
from ppdinf.cli import app
from ppdinf.errors import DiagnosisWarning
from ppdinf.samplers.interrupts import between_draws

SETTINGS = {"tune": 50, "cores": 1, "random_seed": 1, "progressbar": False, "quiet": True}
INTERRUPTED = """
import os, signal, sys
from ppdinf.samplers.lattice_gibbs import LatticeGibbs

step, steps = LatticeGibbs.step, []

def counted(self, point):
    steps.append(point)
    if len(steps) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGINT)
    return step(self, point)

LatticeGibbs.step = counted
from ppdinf.cli import app

app(["infer", *sys.argv[2:]])
"""


def model_of(marginalize):
    release = ppd.Release(np.array([30, 4, 12]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4"))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 0.1)), release=release, marginalize=marginalize)
    return model


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("marginalize", [True, False])
@pytest.mark.filterwarnings("ignore::ppdinf.errors.DiagnosisWarning")
def test_the_draws_before_an_interrupt_are_kept(marginalize):
    model, seen = model_of(marginalize), []
    with model, between_draws() as stop:

        def callback(trace, draw):
            seen.append(draw)
            if len(seen) == 200:  # soon, anywhere in the program
                threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
            stop(trace, draw)

        idata = pm.sample(
            100_000, chains=2, callback=callback, nuts_sampler="pymc", compute_convergence_checks=False, **SETTINGS
        )
    assert 100 < idata.posterior.sizes["draw"] < 100_000
    assert np.isfinite(idata.posterior["rate"].values).all()
    assert (ppd.sample_confidential(idata, model).sum("dim_0") == 46).all()
    assert ppd.diagnose(idata, model).problems
    assert signal.getsignal(signal.SIGINT) is not None


def test_the_signal_handler_of_the_program_is_restored():
    before = signal.getsignal(signal.SIGINT)
    with between_draws() as stop:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)  # a second signal interrupts at once
    assert signal.getsignal(signal.SIGINT) is before


def stopped(chains, draws):
    """Return a stand-in for `pm.sample` whose chains were stopped: few of them are left, and few draws of each."""

    def sample(**settings):
        if not chains:
            raise ValueError("Not enough samples to build a trace.")
        shape, rng = (chains, draws), np.random.default_rng(1)
        numbers = {"intercept": rng.normal(2, 0.1, shape), "spread": rng.gamma(20, 0.02, shape)}
        posterior = xr.Dataset(
            {name: (("chain", "draw"), values) for name, values in numbers.items()}
            | {
                name: (("chain", "draw", "dim_0"), rng.gamma(20, 0.5, (*shape, 3)))
                for name in ("deviation", "mean_rate")
            },
            {"chain": range(chains), "draw": range(draws), "dim_0": range(3)},
        )
        stats = xr.Dataset({"diverging": (("chain", "draw"), np.zeros(shape, dtype=bool))}, posterior["draw"].coords)
        return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats})

    return sample


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("chains", "draws"), [
    (0, 0), (1, 20), (2, 1),
    *(pytest.param(*left, marks=pytest.mark.deep) for left in [(1, 1), (1, 3), (1, 5), (2, 3), (2, 4), (2, 19)]),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::ppdinf.errors.DiagnosisWarning")
def test_infer_after_an_interruption_gives_figures_or_a_sentence(chains, draws, tmp_path, monkeypatch):
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4")
    ppd.Release(np.array([30, 4, 12]), mechanism).save(tmp_path / "x.ppd")
    monkeypatch.setattr(pm, "sample", stopped(chains, draws))
    command = ["infer", tmp_path / "x.ppd", "--output", tmp_path / "out", "--draws", 20, "--chains", 2, "--cores", 1]
    result = CliRunner(env={"COLUMNS": "300"}).invoke(app, list(map(str, command)))
    assert isinstance(result.exception, SystemExit)  # no traceback
    if chains:
        assert f"Interrupted: the results use the first {draws} of 20 draws of {chains} of 2 chains." in result.output
        assert "Checks: do not use this posterior yet" in result.output
        assert {"report.html", "posterior.csv", "chains.png"} <= {path.name for path in (tmp_path / "out").iterdir()}
    else:
        assert result.exit_code == 130
        assert "Interrupted." in result.output


@pytest.mark.deep
@pytest.mark.parametrize(("steps", "chains"), [(100, 0), (330, 1), (700, 1), (950, 1), (1120, 2)])
def test_infer_is_interrupted_at_any_time(steps, chains, tmp_path):
    """Each of two chains takes 300 steps of tuning and 300 more, in turn; PyMC keeps the chains with most draws."""
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4", norm="l2")
    ppd.Release(np.array([30, 4, 12, -3, 7, 9]), mechanism).save(tmp_path / "x.ppd")
    command = [tmp_path / "x.ppd", "--output", tmp_path / "out", "--draws", 300, "--chains", 2, "--cores", 1]
    program = [sys.executable, "-c", INTERRUPTED, str(steps), *map(str, command)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600, env=os.environ | {"COLUMNS": "300"})
    assert "Traceback" not in done.stderr, done.stderr
    assert "Interrupted" in done.stdout + done.stderr
    assert ("Written" in done.stdout) == (chains > 0)
    assert done.returncode == (1 if chains else 130)
    assert (f"draws of {chains} of 2 chains" in done.stdout) == (chains > 0)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemError("returned a result with an exception set")])
def test_ctrl_c_in_any_command_ends_without_a_traceback(error, monkeypatch):
    """Within compiled functions Ctrl-C arrives as a SystemError."""

    def interrupted(*given, **settings):
        if isinstance(error, SystemError):
            raise error from KeyboardInterrupt()
        raise error

    monkeypatch.setattr(ppd.measurements, "read_ppd", interrupted)
    result = CliRunner().invoke(app, ["check", __file__])
    assert (result.exit_code, result.output) == (130, "Interrupted.\n")


def ragged(lengths):
    """Return the result of nutpie when stopped: chains filled with nan."""
    rng = np.random.default_rng(1)
    rate = rng.gamma(20, 1, (len(lengths), max(lengths)))
    rate[np.arange(max(lengths)) >= np.array(lengths)[:, None]] = np.nan
    posterior = xr.Dataset({"rate": (("chain", "draw"), rate)}, {"chain": range(len(lengths))})
    return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": posterior.rename(rate="energy")})


@pytest.mark.quick_cases(0)
@pytest.mark.filterwarnings("ignore:The chains have")  # draws of another distribution, which is reported
def test_chains_of_unequal_length_are_truncated_to_the_shortest():
    model = model_of(True)
    with pytest.warns(DiagnosisWarning, match="stopped after 30, 25 draws: the first 25 of each are used"):
        table = ppd.sample_confidential(ragged([30, 25]), model, random_seed=1)
    assert table.sizes["draw"] == 25
    assert (table.sum("dim_0") == 46).all()
    with pytest.warns(DiagnosisWarning, match="the first 900 of each are used"):
        found = ppd.diagnose(ragged([1000, 900]), model)
    assert found.parameters["ess_bulk"].min() > 400
    assert not [problem for problem in found.problems if "not a number" in problem]


@pytest.mark.filterwarnings("ignore::ppdinf.errors.DiagnosisWarning")
def test_nan_in_the_draws_is_reported():
    idata = ragged([1000, 1000])
    idata.posterior["rate"][0, 10] = np.nan
    assert "not a number" in " ".join(ppd.diagnose(idata, model_of(True)).problems)
