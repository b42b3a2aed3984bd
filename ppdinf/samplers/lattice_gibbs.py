"""Gibbs sampling of a confidential table along the lines of its fiber, by exact full conditionals.

State: an integer table x on the fiber ``{A x = a}`` with cell weights ``w_i(x_i)``, the product of
the data model and the noise law at the released count. Kernel: pick two cells under the same public
sums, draw how many persons to transfer between them from its exact conditional law, many times per
draw. No tuning and no rejection (heat bath along the line ``x + t (e_i - e_j)``).

Transfers inside a group connect every fiber whose cells have intervals as supports: any table can
be carried into any other one person at a time (the excess of one cell fills the deficit of another).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numba
import numpy as np
import pymc as pm
from numpy.typing import NDArray
from pymc.pytensorf import compile as compile_pymc
from pymc.pytensorf import inputvars
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_value_vars_from_user_vars
from pytensor.graph.traversal import ancestors

from ppdinf.errors import ModelError
from ppdinf.samplers.fiber import Fiber

__all__ = ["LatticeGibbs", "sweep"]

SAFE = 1e-20  # a line whose linear weights sum to less than this is summed again in logarithms


@numba.njit(cache=True, nogil=True)
def _draw(weights: NDArray[np.float64], n: int, mass: float, rng: Any) -> int:
    u = rng.random() * mass
    for k in range(n - 1):
        u -= weights[k]
        if u < 0:
            return k
    return n - 1


@numba.njit(cache=True, nogil=True)
def _transfer(
    x: NDArray[np.int64],
    i: int,
    j: int,
    lower: NDArray[np.int64],
    weights: NDArray[np.float64],
    log_weights: NDArray[np.float64],
    buffer: NDArray[np.float64],
    rng: Any,
) -> None:
    """Move t persons from cell j to cell i, t from its exact full conditional."""
    width = weights.shape[1]
    at, from_ = x[i] - lower[i], x[j] - lower[j]
    first = -min(at, width - 1 - from_)
    n = min(width - 1 - at, from_) - first + 1
    mass = 0.0
    for k in range(n):
        buffer[k] = weights[i, at + first + k] * weights[j, from_ - first - k]
        mass += buffer[k]
    if mass < SAFE:  # both cells sit far out in a tail: products of small numbers lose digits or vanish
        top = -np.inf
        for k in range(n):
            buffer[k] = log_weights[i, at + first + k] + log_weights[j, from_ - first - k]
            top = max(top, buffer[k])
        mass = 0.0
        for k in range(n):
            buffer[k] = np.exp(buffer[k] - top)
            mass += buffer[k]
    t = first + _draw(buffer, n, mass, rng)
    x[i] += t
    x[j] -= t


@numba.njit(cache=True, nogil=True)
def sweep(
    x: NDArray[np.int64],
    groups: NDArray[np.int64],
    starts: NDArray[np.int64],
    free: NDArray[np.int64],
    lower: NDArray[np.int64],
    log_weights: NDArray[np.float64],
    transfers: int,
    rng: Any,
) -> None:
    """Update the table in place: `transfers` transfers per cell, then every unconstrained cell.

    Parameters
    ----------
    x : array of int64, shape (d,)
        A point of the fiber with finite weight; stays one.
    groups, starts : arrays of int64
        Cells of group g are ``groups[starts[g]:starts[g + 1]]``; two or more each.
    free : array of int64
        Cells under no public sum.
    lower : array of int64, shape (d,)
        Count that column 0 of `log_weights` stands for.
    log_weights : array of float64, shape (d, width)
        Up to a constant per cell; ``-inf`` outside the support.
    transfers : int
        Transfers per cell of each group.
    rng : numpy.random.Generator
    """
    weights = np.empty_like(log_weights)
    for i in range(weights.shape[0]):
        top = log_weights[i].max()
        for k in range(weights.shape[1]):
            weights[i, k] = np.exp(log_weights[i, k] - top)
    buffer = np.empty(weights.shape[1])
    for g in range(starts.size - 1):
        members = groups[starts[g] : starts[g + 1]]
        n = members.size
        for _ in range(transfers * n):
            a = rng.integers(0, n)
            b = rng.integers(0, n - 1)
            _transfer(x, members[a], members[b + (b >= a)], lower, weights, log_weights, buffer, rng)
    for i in free:
        x[i] = lower[i] + _draw(weights[i], weights.shape[1], weights[i].sum(), rng)


@dataclass_state
class LatticeGibbsState(StepMethodState):
    """What PyMC saves between chains."""

    transfers: int


@dataclass(frozen=True)
class _Weights:
    """Compiled log weights of every count in every window, given the other variables of a model."""

    inputs: tuple[str, ...]
    function: Any
    log_noise: NDArray[np.float64]

    def __call__(self, point: dict[str, Any]) -> NDArray[np.float64]:
        width, cells = self.log_noise.shape
        log_data = self.function(*(point[name] for name in self.inputs))
        return np.ascontiguousarray((log_data.reshape(width, cells) + self.log_noise).T)


class LatticeGibbs(BlockedStep):
    """PyMC step method for the confidential table of a release; PyMC assigns it by itself.

    Parameters
    ----------
    vars : list
        The confidential table, one variable.
    transfers : int, default 4
        Transfers per cell and draw. Each costs one pass over the window of a cell (some
        ``70 / epsilon`` multiplications).
    model : pymc.Model, optional
    rng : numpy.random.Generator, optional
    initial_point, compile_kwargs, blocked
        As PyMC passes them.

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> release = ppd.Release(np.array([3, 1, 2]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords):
    ...     x = ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), release=release)
    ...     idata = pm.sample(10, tune=0, chains=1, random_seed=1, progressbar=False, quiet=True,
    ...                       compute_convergence_checks=False)
    >>> set(idata.posterior["x"].sum("dim_0").values.ravel().tolist())
    {6}
    """

    name = "lattice_gibbs"
    default_blocked = False
    default_tune_steps = 0
    stats_dtypes_shapes: ClassVar[dict[str, tuple[type, list[int]]]] = {
        "moved": (np.int64, []),
        "at_edge": (np.int64, []),
    }
    _state_class = LatticeGibbsState

    def __init__(
        self,
        vars: list[Any],  # noqa: A002  (PyMC's name)
        *,
        transfers: int = 4,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: dict[str, Any] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = False,
    ) -> None:
        self._model = pm.modelcontext(model)
        (value,) = get_value_vars_from_user_vars(vars, self._model)
        self.vars = [value]
        self.rng = np.random.default_rng(rng)
        self.transfers = int(transfers)
        self.tune = False
        self._compile_kwargs = compile_kwargs or {}
        self._compile()

    def _compile(self) -> None:
        """Compile here, so that forked workers inherit machine code and no draw pays for it."""
        table = self._model.values_to_rvs[self.vars[0]]
        _refuse_dependents(self._model, table)
        self._fiber: Fiber = table.owner.op.fiber
        (log_data,) = self._model.replace_rvs_by_values([table.owner.op.window_logp(table)])
        inputs = inputvars([log_data])
        self._weights = _Weights(
            tuple(v.name for v in inputs),
            compile_pymc(inputs, log_data, **self._compile_kwargs),
            self._fiber.log_noise.T,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in {"_fiber", "_weights"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compile()

    def step(self, point: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Sweep the table given the other variables."""
        fiber, name = self._fiber, self.vars[0].name
        before = point[name].ravel()
        x = before.astype(np.int64)  # a copy: `point` is PyMC's
        fiber.require(x)
        sweep(
            x,
            fiber.groups,
            fiber.starts,
            fiber.free,
            fiber.lower,
            self._weights(point),
            self.transfers,
            self.rng,
        )
        stats = {"moved": np.count_nonzero(x != before), "at_edge": fiber.at_edge(x)}
        return {**point, name: x.reshape(point[name].shape)}, [stats]

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Ideal for confidential tables, impossible for anything else."""
        is_table = isinstance(getattr(var.owner.op, "fiber", None), Fiber)
        return Competence.IDEAL if is_table else Competence.INCOMPATIBLE


def _refuse_dependents(model: pm.Model, table: Any) -> None:
    """Full conditionals here know the data model and the noise; any other factor would be ignored."""
    for other in (*model.basic_RVs, *model.potentials):
        if other is table or getattr(other.owner.op, "release", None) is not None:
            continue
        if table in ancestors([other]):
            raise ModelError(
                f"{other.name!r} depends on the confidential table {table.name!r}: only its own distribution and its "
                "release may; let the other variable share parameters with the table instead"
            )


STEP_METHODS.append(LatticeGibbs)  # in place: PyMC's sampler holds a reference to this very list
