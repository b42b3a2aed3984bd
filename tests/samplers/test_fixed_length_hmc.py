"""Fixed-length HMC: reversible steps, the distribution of the draws, cached gradients of the start."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.blocking import DictToArrayBijection, RaveledVars
from scipy.special import digamma, polygamma

import ppdinf as ppd
from ppdinf.errors import ModelError
from ppdinf.samplers import fixed_length_hmc as quarter_turns
from ppdinf.samplers.fixed_length_hmc import FixedLengthHMC

QUIET = {"chains": 1, "cores": 1, "progressbar": False, "quiet": True, "compute_convergence_checks": False}


def curved():
    """Three unknowns, one of which determines the scale of another."""
    with pm.Model() as model:
        spread = pm.Normal("spread")
        pm.Normal("effect", 0, pt.exp(spread / 2))
        pm.Gumbel("level", 0, 1)
    return model


def begin(step, q, p):
    here = DictToArrayBijection.map(step._model.initial_point())
    return step.integrator.compute_state(RaveledVars(np.array(q), here.point_map_info), np.array(p))


def gone(step, q, p, steps=2, size=0.8):
    state = begin(step, q, p)
    for _ in range(steps):
        state = step.integrator.step(size, state)
    return state


def test_a_trajectory_with_reversed_momentum_returns():
    step = FixedLengthHMC(model=curved())
    q, p = np.array([0.3, -0.2, 0.5]), np.array([1.0, -0.4, 0.7])
    end = gone(step, q, p)
    assert np.abs(end.q.data - q).min() > 0.1
    back = gone(step, end.q.data, -end.p)
    assert np.allclose([back.q.data, -back.p], [q, p], rtol=0, atol=1e-12)


def test_trajectories_preserve_volume():
    step = FixedLengthHMC(model=curved())
    start, h = np.array([0.3, -0.2, 0.5, 1.0, -0.4, 0.7]), 1e-5

    def end(x):
        state = gone(step, x[:3], x[3:])
        return np.concatenate([state.q.data, state.p])

    jacobian = [(end(start + h * e) - end(start - h * e)) / (2 * h) for e in np.eye(6)]
    assert abs(np.linalg.det(jacobian) - 1) < 1e-7


def energy_errors():
    """Return the root mean square energy error of a trajectory of 1,000 normals, with six gradients."""
    with pm.Model() as model:
        pm.Normal("z", shape=1000)
    step, rng, errors = FixedLengthHMC(model=model), np.random.default_rng(1), []
    for _ in range(20):
        q, p = rng.normal(size=(2, 1000))
        start = begin(step, q, p)
        errors.append(gone(step, q, p, 2, np.pi / 4).energy - start.energy)
    return np.sqrt(np.mean(np.square(errors)))


@pytest.mark.quick_cases(0)
def test_energy_errors_are_a_sixth_of_those_of_leapfrog_steps(monkeypatch):
    ours = energy_errors()
    monkeypatch.setattr(quarter_turns, "DRIFTS", (1 / 3, 1 / 3, 1 / 3))
    monkeypatch.setattr(quarter_turns, "KICKS", (1 / 6, 1 / 3, 1 / 3, 1 / 6))
    assert ours < energy_errors() / 6


def largest_deviation(shape, draws=4000):
    """Standard scores of means and variances of logarithms of gamma variables; steps of length 2 pi change energies."""
    with pm.Model():
        x = pm.Flat("x", shape=3)
        pm.Potential("density", (shape * x - pt.exp(x)).sum())
        step = FixedLengthHMC(path_length=6, step_scale=10, adapt_step_size=False)
        idata = pm.sample(draws, tune=100, random_seed=2, step=step, **QUIET)
    assert (idata.sample_stats.n_steps == 3).all()
    x = idata.posterior["x"].values[0]
    off = x - digamma(shape)
    spread = polygamma(1, shape)
    scores = []
    for values in (off, off**2 - spread):
        batches = values.reshape(40, -1, 3).mean(axis=1)
        scores.append(batches.mean(axis=0) / (batches.std(axis=0, ddof=1) / np.sqrt(40)))
    return np.abs(scores).max()


@pytest.mark.quick_cases(0)
def test_draws_have_their_distribution():
    """Six scores of Student's t with 39 degrees of freedom: one above 4.5 in 17,000 runs."""
    assert largest_deviation(0.7) < 4.5


@pytest.mark.quick_cases(0)
def test_trajectories_accepted_without_energy_test_are_detected(monkeypatch):
    original = FixedLengthHMC._hamiltonian_step

    def accepted(self, start, p0, step_size):
        class Zero:
            uniform = self.rng.uniform

            def random(self):
                return 0.0

        rng, self.rng = self.rng, Zero()
        try:
            return original(self, start, p0, step_size)
        finally:
            self.rng = rng

    monkeypatch.setattr(FixedLengthHMC, "_hamiltonian_step", accepted)
    assert largest_deviation(0.7) > 4.5


def counted(step):
    """Wrap the density of a step, to count its evaluations."""
    calls, inner = [], step.integrator._logp_dlogp_func

    def density(q, info):
        calls.append(1)
        return inner(q, info)

    step.integrator._logp_dlogp_func = density
    return calls


def test_a_trajectory_takes_three_gradients_per_step_and_none_for_its_start():
    with curved():
        step = FixedLengthHMC()
        calls = counted(step)
        idata = pm.sample(30, tune=10, random_seed=1, discard_tuned_samples=False, step=step, **QUIET)
    spent = int(idata.sample_stats.n_steps.sum() + idata.warmup_sample_stats.n_steps.sum())
    assert len(calls) == spent + 1
    assert not (idata.sample_stats.n_steps % 3).any()


def test_step_sizes_are_bounded_when_one_step_covers_the_trajectory():
    """They would grow while nearly all trajectories are accepted, and be too long for many draws afterwards."""
    with pm.Model():
        pm.Normal("z", shape=3)
        idata = pm.sample(50, tune=500, random_seed=1, step=FixedLengthHMC(), **QUIET)
    assert (idata.sample_stats.n_steps == 3).all()
    assert idata.sample_stats.step_size_bar.max() < 50  # ten times the first step


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("alone", [False, True])
def test_the_start_is_evaluated_again_if_other_steps_move_variables(alone):
    """With a sampled table, which its own step moves; a wrong cache is detected."""
    release = ppd.Release(np.array([3, 1, 2]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords):
        rate = pm.Gamma("rate", 2, 1, dims=release.dims)
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release, marginalize=False)
        step = FixedLengthHMC([rate])
        assert not step.integrator._alone
        step.integrator._alone = alone
        starts, inner = [], step.integrator.compute_state

        def compute_state(q, p):
            state = inner(q, p)
            starts.append(abs(state.model_logp - step.integrator._logp_dlogp_func(q.data, q.point_map_info)[0]))
            return state

        step.integrator.compute_state = compute_state
        pm.sample(30, tune=10, random_seed=1, step=[step, ppd.samplers.LatticeGibbs([x])], **QUIET)
    assert (max(starts) > 1e-9) == alone


def test_changed_data_between_runs_are_used():
    with curved():
        known = pm.Data("known", 1.0)
        pm.Normal("observed", pm.modelcontext(None)["level"], 0.1, observed=known)
        step = FixedLengthHMC()
        pm.sample(3, tune=3, random_seed=1, step=step, **QUIET)
        here = step.integrator.known[-1].q
        pm.set_data({"known": 2.0})
        step.setup_chain(np.random.default_rng(1), 3, 3)
        state = step.integrator.compute_state(here, np.zeros(3))
    assert state.model_logp == step.integrator._logp_dlogp_func(here.data, here.point_map_info)[0]


@pytest.mark.parametrize("wrong", [0, 1, 2, -0.5, float("nan")])
def test_targets_outside_0_to_1_are_refused(wrong):
    with pm.Model():
        pm.Normal("x", 0, 1)
        with pytest.raises(ModelError, match="target_accept must be a probability between 0 and 1"):
            FixedLengthHMC(target_accept=wrong)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("common", [0.0, 0.99])
def test_coordinates_with_other_scales_are_reported(common, caplog):
    """15 normal variables: with a common level, the posterior is four times wider along their mean."""
    covariance = (1 - common) * np.eye(15) + common
    with pm.Model():
        pm.MvNormal("z", np.zeros(15), covariance)
        pm.sample(210, tune=300, random_seed=1, step=FixedLengthHMC(), **QUIET | {"quiet": False})
    warned = [record.message for record in caplog.records if "successive draws of z" in record.message]
    assert len(warned) == (common > 0)
    assert all("Use pm.NUTS" in message for message in warned)
