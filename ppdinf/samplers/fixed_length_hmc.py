"""Hamiltonian paths of a quarter of a turn, for unknowns that move as what is near standard normal.

Hamilton's equations turn a standard normal and its momentum around each other: after a quarter of the way around
nothing of where a path ends tells of where it began. What keeps leapfrog steps short in thousands of dimensions is the
error of energy they add up; steps of three stages, whose error is smallest, go a quarter in one or two.

References
----------
R. M. Neal, "MCMC using Hamiltonian dynamics", Handbook of Markov Chain Monte Carlo (2011), section 5.3.3, for paths.
S. Blanes, F. Casas, J. M. Sanz-Serna, "Numerical integrators for the Hybrid Monte Carlo method", SIAM Journal on
Scientific Computing 36 (2014), A1556-A1580, section 4.2, for three stages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import CpuLeapfrogIntegrator, HMCStepData, RaveledVars, State
from ppdinf.errors import ModelError

__all__ = ["FixedLengthHMC"]

DRIFT, KICK = 0.29619504261126, 0.11888010966548
DRIFTS = (DRIFT, 1 - 2 * DRIFT, DRIFT)  # parts of a step by which places move, between
KICKS = (KICK, 0.5 - KICK, 0.5 - KICK, KICK)  # those by which momenta do

FIRST = 4.0  # step to begin with, as PyMC scales it: half a radian in 4,000 dimensions
UNEVEN = 0.15  # by how much the length of a path varies, so that none leads back again and again


class FixedLengthHMC(pm.HamiltonianMC):
    """Step method of PyMC: Hamiltonian paths of a quarter turn, in steps of three stages.

    For models in which all that moves is near standard normal, above all those of `ppdinf.models.ready.log_rates`:
    their draws then are nearly independent, of 3,143 counties for 6 gradients each, where leapfrog steps take 12 and
    NUTS 15 (`benchmarks/nation.py`). A path of fixed length is wasted, or leads back to its start, where scales differ
    by more than the diagonal metric evens out, and falls short where the density ends at once, with a potential of
    -inf: use NUTS there. The posterior is the same in any case.

    Parameters
    ----------
    vars : list of variables, optional
        Continuous ones; all of the model by default.
    target_accept : float, optional
        Mean probability with which paths are accepted, about, that the number of steps of a path is made for; since
        that is a whole number, often more are. With thousands of unknowns 0.8 is enough: errors of many add up, none of
        them large. With fewer, longer steps miss where a spread is small.
    **options
        Of `pymc.HamiltonianMC`.

    Raises
    ------
    ModelError
        `target_accept` that is no probability.

    Notes
    -----
    A path of k steps takes 3 k gradients, which ``sample_stats`` and progress bars count as ``n_steps``. That of its
    start is known from the path before, unless other steps have moved something since.

    Source: see the module, `ppdinf.samplers.fixed_length_hmc`.

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> from ppdinf.models.ready import log_rates
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
            raise ModelError(f"target_accept is a probability between 0 and 1, found {target_accept}")
        options = {"path_length": np.pi / 2, "step_scale": FIRST, "step_rand": None} | options
        super().__init__(vars, target_accept=target_accept, **options)
        self.integrator = _ThreeStages(self.potential, self._logp_dlogp_func, alone=not self.shared)

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Begin a chain: data of the model may be others than before."""
        super().setup_chain(rng, tune, draws)
        self.integrator.known.clear()

    def _hamiltonian_step(self, start: State, p0: NDArray[np.float64], step_size: float) -> HMCStepData:
        turn = self.path_length
        self.path_length *= self.rng.uniform(1 - UNEVEN, 1 + UNEVEN)
        step = self.path_length / np.ceil(turn / step_size)
        try:
            found = super()._hamiltonian_step(start, p0, step * (1 - 1e-9))  # PyMC takes as many as fit in, whole ones
        finally:
            self.path_length = turn
        found.stats["n_steps"] *= len(DRIFTS)
        if step_size > 2 * turn:  # one step in any case: from an ever longer one it would be long to come back
            return found._replace(accept_stat=min(found.accept_stat, self.target_accept))
        return found


class _ThreeStages(CpuLeapfrogIntegrator):
    """Three drifts of places between four kicks of momenta: reversible and true to volume, as leapfrog steps are.

    Parameters
    ----------
    alone : bool
        Whether nothing but the place decides on the density; other steps move nothing then.
    """

    def __init__(self, potential: Any, logp_dlogp_func: Any, *, alone: bool) -> None:
        super().__init__(potential, logp_dlogp_func)
        self._alone = alone
        self.known: list[State] = []

    def compute_state(self, q: RaveledVars, p: NDArray[np.float64]) -> State:
        """Begin a path where the one before ended, or began, for its density and gradient are known."""
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
