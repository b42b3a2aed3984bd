"""Fixed-length Hamiltonian Monte Carlo (trajectory length pi/2) for nearly standard-normal posteriors.

For a standard normal, Hamilton's equations rotate position and momentum. After a quarter turn (pi/2) the position is
independent of the start. In thousands of dimensions the accumulated energy error limits the length of leapfrog steps.
Three-stage integrators have the smallest error and take one or two steps per trajectory.

References
----------
R. M. Neal, "MCMC using Hamiltonian dynamics", Handbook of Markov Chain Monte Carlo (2011), section 5.3.3, for
trajectories.
S. Blanes, F. Casas, J. M. Sanz-Serna, "Numerical integrators for the Hybrid Monte Carlo method", SIAM Journal on
Scientific Computing 36 (2014), A1556-A1580, section 4.2, for three stages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm

from ppdinf._internal.pymc_compat import (
    CpuLeapfrogIntegrator,
    HMCStepData,
    RaveledVars,
    SamplerWarning,
    State,
    WarningType,
)
from ppdinf._internal.values import Reals
from ppdinf.errors import ModelError

DRIFT, KICK = 0.29619504261126, 0.11888010966548
DRIFTS = (DRIFT, 1 - 2 * DRIFT, DRIFT)  # fractions of a step for the updates of positions, between
KICKS = (KICK, 0.5 - KICK, 0.5 - KICK, KICK)  # the fractions for the updates of momenta

CHECKED = 200  # draws after tuning from which autocorrelations are estimated
LARGEST = 0.8  # lag-1 autocorrelation of suitable coordinates; its standard error is 1 / sqrt(CHECKED) = 0.07

FIRST_STEP = 4.0  # initial step, as PyMC scales it: 0.5 radian in 4,000 dimensions
JITTER = 0.15  # relative variation of trajectory lengths, against periodic trajectories


class FixedLengthHMC(pm.HamiltonianMC):
    """PyMC step method: Hamiltonian trajectories of length pi/2 by a three-stage integrator.

    For models whose unconstrained variables are nearly standard normal, above all those of `ppdinf.models.log_rates`:
    half the gradients of NUTS (docs/speed.md). Use NUTS where scales differ by more than the diagonal metric adapts to,
    and where the density has a sharp edge (a potential of -inf). The posterior is the same in every case.

    Parameters
    ----------
    vars : list of variables, optional
        Continuous variables; by default all of the model.
    target_accept : float, optional
        Approximate mean acceptance probability that determines the number of steps of a trajectory. The number is an
        integer, so the acceptance is often higher. With thousands of unknowns 0.8 is enough, because the error is a
        sum of many small terms. With fewer unknowns, longer steps fail where a scale is small.
    **options
        Options of `pymc.HamiltonianMC`.

    Raises
    ------
    ModelError
        `target_accept` is not between 0 and 1.

    See Also
    --------
    ppdinf.models.log_rates, ppdinf.samplers.LatticeGibbs

    Notes
    -----
    If standard deviations differ from 1 in units of the metric, draws are correlated (docs/speed.md). The
    autocorrelation of the first 200 draws after tuning is measured for every coordinate, and PyMC logs a warning if an
    absolute value exceeds 0.8. A trajectory of k steps takes 3 k gradients, which ``sample_stats`` and progress bars
    report as ``n_steps``.

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> from ppdinf.models import log_rates
    >>> release = ppd.Release(np.array([30, 4, 12]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> quiet = dict(progressbar=False, quiet=True, compute_convergence_checks=False)
    >>> with pm.Model(coords=release.coords):
    ...     rate = pm.math.exp(log_rates(release, ["dim_0"]))
    ...     x = ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
    ...     idata = pm.sample(20, tune=20, chains=1, step=ppd.samplers.FixedLengthHMC(), random_seed=1, **quiet)
    >>> int(idata.sample_stats.n_steps.min())
    3
    """

    name = "quarter_turns"
    path_length: float

    def __init__(self, vars: Any = None, *, target_accept: float = 0.95, **options: Any) -> None:  # noqa: A002
        if not 0 < target_accept < 1:
            raise ModelError(f"target_accept must be a probability between 0 and 1, found {target_accept}")
        options = {"path_length": np.pi / 2, "step_scale": FIRST_STEP, "step_rand": None} | options
        super().__init__(vars, target_accept=target_accept, **options)
        self.integrator = _ThreeStages(self.potential, self._logp_dlogp_func, alone=not self.shared)
        self._positions: list[Reals] = []

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Start a chain; the data of the model may have changed."""
        super().setup_chain(rng, tune, draws)
        self.integrator.known.clear()
        self._positions = []

    def astep(self, q0: RaveledVars) -> tuple[Any, list[dict[str, Any]]]:
        """Draw once; the draw after which the autocorrelations are known carries a warning if one is large."""
        q, stats = super().astep(q0)
        if not self.tune and len(self._positions) < CHECKED:
            self._positions.append(np.array(q))
            if len(self._positions) == CHECKED and (message := self._fault(q0)):
                stats[0]["warning"] = SamplerWarning(WarningType.CONVERGENCE, message, "warn", self.iter_count)
        return q, stats

    def _fault(self, q0: RaveledVars) -> str | None:
        """Return which variable has a large autocorrelation between successive draws, or None."""
        x = np.array(self._positions)
        x -= x.mean(axis=0)
        rho = (x[1:] * x[:-1]).sum(axis=0) / np.maximum((x**2).sum(axis=0), np.finfo(float).tiny)
        worst = int(np.argmax(np.abs(rho)))
        if abs(rho[worst]) <= LARGEST:
            return None
        names = [name for name, _, size, _ in q0.point_map_info for _ in range(size)]
        return (
            f"FixedLengthHMC: successive draws of {names[worst]} have an autocorrelation of {rho[worst]:.2f} (limit "
            f"{LARGEST}): the scales of its directions differ, so trajectories of one length do not suit "
            "them. Use pm.NUTS, or coordinates that are nearly standard normal (ppdinf.models.log_rates)"
        )

    def _hamiltonian_step(self, start: State, p0: Reals, step_size: float) -> HMCStepData:
        turn = self.path_length
        self.path_length *= self.rng.uniform(1 - JITTER, 1 + JITTER)
        step = self.path_length / np.ceil(turn / step_size)
        try:
            # PyMC takes as many complete steps as fit into the length
            result = super()._hamiltonian_step(start, p0, step * (1 - 1e-9))
        finally:
            self.path_length = turn
        result.stats["n_steps"] *= len(DRIFTS)
        if step_size > 2 * turn:  # one long step: cap the acceptance, so that tuning does not lengthen it
            return result._replace(accept_stat=min(result.accept_stat, self.target_accept))
        return result


class _ThreeStages(CpuLeapfrogIntegrator):
    """Three position updates between four momentum updates; reversible and volume-preserving, like leapfrog steps."""

    def __init__(self, potential: Any, logp_dlogp_func: Any, *, alone: bool) -> None:
        super().__init__(potential, logp_dlogp_func)
        self._alone = alone
        self.known: list[State] = []

    def compute_state(self, q: RaveledVars, p: Reals) -> State:
        """Start a trajectory with the density and gradient that the previous trajectory computed there."""
        for state in self.known if self._alone else ():
            if np.array_equal(state.q.data, q.data):
                v = self._potential.velocity(p)
                energy = self._potential.energy(p, velocity=v) - state.model_logp
                begun = State(q, p, v, state.q_grad, energy, state.model_logp, 0)
                break
        else:
            begun = super().compute_state(q, p)
        self.known = [begun]
        return begun

    def _step(self, epsilon: float, state: State) -> State:
        q, p, gradient = state.q.data.copy(), state.p.copy(), state.q_grad
        p += epsilon * KICKS[0] * gradient
        for drift, kick in zip(DRIFTS, KICKS[1:], strict=True):
            q = q + epsilon * drift * self._potential.velocity(p)
            logp, gradient = self._logp_dlogp_func(q, state.q.point_map_info)
            p += epsilon * kick * gradient
        v = np.empty_like(q)
        energy = self._potential.velocity_energy(p, v) - logp
        index = state.index_in_trajectory + int(np.sign(epsilon))
        ended = State(RaveledVars(q, state.q.point_map_info), p, v, gradient, energy, logp, index)
        self.known = [self.known[0], ended]
        return ended
