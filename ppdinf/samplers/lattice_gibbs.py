"""Gibbs sampling of a confidential table along lines of its fiber, and its combination with NUTS for the parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from ppdinf._internal.pymc_compat import (
    STEP_METHODS,
    BlockedStep,
    Competence,
    QuadPotentialFullAdapt,
    StepMethodState,
    TensorVariable,
    compile_pymc,
    dataclass_state,
    get_value_vars_from_user_vars,
    inputvars,
)
from ppdinf._internal.values import Array, Integers, Reals
from ppdinf.distributions.build_fiber import give_windows
from ppdinf.distributions.confidential_rv import ConfidentialRV
from ppdinf.distributions.data_models import at_initial_point
from ppdinf.distributions.factors import read_cells
from ppdinf.distributions.latent_tables import plain_table
from ppdinf.distributions.marginalization import restart_by_data
from ppdinf.distributions.observed import mechanism_of
from ppdinf.distributions.predictions import DataModelDraws, uninformed_cells
from ppdinf.distributions.renewed_windows import follow_data
from ppdinf.distributions.tables import dependent_factors
from ppdinf.errors import ModelError
from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.fiber.gibbs.table_update import Directions, RandomTruncation, advance, directions, random_truncation
from ppdinf.noise.primitives.stream import seeded_stream

SWEEPS = 4
BATCH = 32  # draws whose directions are drawn together
FIBER_START = "start on the fiber"  # marks an initial value that the model holds only between two calls of PyMC
FLAT = 0.25  # power of the weights for initial tables: about twice the dispersion of draws


@dataclass_state
class LatticeGibbsState(StepMethodState):
    """State that PyMC stores between chains."""

    sweeps: int
    _batch: Directions | tuple[()]
    _position: int
    _started: bool


class LatticeGibbs(BlockedStep):
    """PyMC step method for confidential tables and for integers with given sums; PyMC assigns it automatically.

    Variables and potentials that depend on the table cell by cell multiply the weights of the counts. If a variable
    depends on several cells, for example on a total as a regressor, each step along a line is a Metropolis proposal.

    Parameters
    ----------
    vars : list
        The table, a single variable: a table of `ppdinf.PartiallyPrivate`, a latent multinomial, integers whose sums
        are observed (``pm.DiracDelta("total", x.sum(), observed=10)``), or integers released by ``mechanism.dist(x)``.
    sweeps : int, default 4
        Directions per draw, in multiples of the number of cells. Each direction takes a few passes over the window of a
        cell (about ``70 / epsilon`` multiplications).
    model : pymc.Model, optional
    rng : numpy.random.Generator, optional
    initial_point, compile_kwargs, blocked
        Arguments that PyMC passes.

    See Also
    --------
    ppdinf.PartiallyPrivate, ppdinf.diagnostics.coupling_bound

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> release = ppd.Release(np.array([3, 1, 2]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords):
    ...     x = ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), release=release, marginalize=False)
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
        vars: list[TensorVariable],  # noqa: A002  (PyMC's name)
        *,
        sweeps: int = SWEEPS,
        model: pm.Model | None = None,
        rng: int | np.random.Generator | None = None,
        initial_point: dict[str, Array] | None = None,
        compile_kwargs: dict[str, object] | None = None,
        blocked: bool = False,
    ) -> None:
        self._model = pm.modelcontext(model)
        (value,) = get_value_vars_from_user_vars(vars, self._model)
        self.vars = [value]
        if _is_free_to_start(self._model.values_to_rvs[value], self._model):
            self._model.set_initval(self._model.values_to_rvs[value], None)  # already read; allows copies of the model
        self.rng = np.random.default_rng(rng)
        self.sweeps = int(sweeps)
        self.tune = False
        self._batch: Directions | tuple[()] = ()
        self._position = 0
        self._started = False
        self._compile_kwargs = compile_kwargs or {}
        self._compile()

    def _compile(self) -> None:
        """Compile now, so that forked workers inherit the machine code and no draw includes compilation."""
        table = self._model.values_to_rvs[self.vars[0]]
        self._is_plain = not isinstance(table.owner.op, ConfidentialRV)
        if not self._is_plain:
            follow_data(self._model)
            by_cell, of_all = dependent_factors(table, self._model)
        else:
            plain = plain_table(table, self._model)
            if plain is None:
                raise ModelError(f"no observed sum and no release determines sums of {table.name!r} exactly")
            by_cell, of_all, table = *plain.factors(self._model), plain.stand_in(self._model)
        give_windows(table, read_cells(by_cell, of_all, table.owner.op.start.size), self._model)
        self._fiber: Fiber = table.owner.op.fiber
        self._free_cells = None
        if self._fiber.uninformed.any():
            (cells,) = self._model.replace_rvs_by_values([uninformed_cells(table)])
            inputs = inputvars([cells])
            self._free_cells = DataModelDraws(cells, inputs, **self._compile_kwargs), [x.name for x in inputs]
        self._truncation, self._variances = scales_of(table, self._model)
        self._start = table.owner.op.start.ravel()
        self._observed = table.owner.op.observed
        lower, width = pt.tensor("lower", shape=self._truncation.lower.shape, dtype="int64"), pt.lscalar("width")
        counts, self._window = lower[:, None] + pt.arange(width), [lower, width]
        if self._truncation.is_complete:  # terms that do not depend on parameters are computed once
            counts, self._window = pt.constant(self._truncation.lower[:, None] + np.arange(self._truncation.width)), []
        conditional = self._model.replace_rvs_by_values(table.owner.op.conditional(table, by_cell, counts))
        inputs = [x for x in inputvars(conditional) if x not in (self.vars[0], *self._window)]
        self._inputs = [variable.name for variable in inputs]
        self._conditional = compile_pymc([*self._window, *inputs], conditional, **self._compile_kwargs)
        self._factor_inputs, self._log_factor = [], None
        if of_all:
            log_factor = sum(factor.sum() for factor in of_all)
            parameters = [variable for variable in inputvars([log_factor]) if variable is not self.vars[0]]
            self._factor_inputs = [variable.name for variable in parameters]
            self._log_factor = compile_pymc([self.vars[0], *parameters], log_factor, **self._compile_kwargs)

    def __getstate__(self) -> dict[str, object]:
        compiled = {
            "_fiber", "_free_cells", "_truncation", "_variances", "_start", "_observed", "_window", "_inputs",
            "_conditional", "_factor_inputs", "_log_factor", "_is_plain",
        }  # fmt: skip
        return {key: value for key, value in self.__dict__.items() if key not in compiled}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._compile()

    def setup_chain(self, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Reset the state: a chain depends on its own generator only, and starts from its own table."""
        super().setup_chain(rng, tune, draws)
        self._batch, self._started = (), False

    def step(self, point: dict[str, Array]) -> tuple[dict[str, Array], list[dict[str, int | np.integer]]]:
        """Update the table along new directions, given the other variables."""
        fiber, name = self._fiber, self.vars[0].name
        before = point[name].ravel().astype(np.int64)
        before[fiber.uninformed] = fiber.lower[fiber.uninformed]  # a fixed count represents uninformed cells
        log_factor = self._log_density(point)
        if not self._started:
            self._started = True
            if self._is_plain and not fiber.holds(before):  # PyMC's initial value ignores the sums
                before = self._start
            fiber.require(before)
            if (before == self._start).all():  # PyMC gives all chains the same start unless the user sets one
                conditional = self._log_conditional(point, fiber.lower, fiber.width)
                before = self._dispersed(before, conditional[0], log_factor)
                flat = [FLAT * conditional[0], *conditional[1:]]
                before = advance(fiber, before, flat, self._next_directions(), self.rng, log_factor)
        lower, width = self._truncation.around(before, self._truncation.draw(self.rng))
        conditional = self._log_conditional(point, lower, width)
        table = advance(fiber, before, conditional, self._next_directions(), self.rng, log_factor, lower)
        if not self._accepts(before, table):
            table = before
        if self._free_cells is not None:
            draw, names = self._free_cells
            table[fiber.uninformed] = draw([point[variable] for variable in names], self.rng)
        stats: dict[str, int | np.integer] = {
            "moved": np.count_nonzero(table != before),
            "at_edge": fiber.at_edge(table),
        }
        return {**point, name: table.reshape(point[name].shape)}, [stats]

    def _dispersed(self, start: Integers, weights: Reals, log_factor: Callable[[Integers], float] | None) -> Integers:
        """Return a start that differs between chains, if the moves may not connect the fiber; R-hat can detect it."""
        table = self._fiber.vertex(self.rng) if self._fiber.may_be_cut else None
        if table is None or not np.isfinite(weights[np.arange(table.size), table - self._fiber.lower]).all():
            return start
        return start if log_factor is not None and not np.isfinite(log_factor(table)) else table

    def _log_conditional(self, point: dict[str, Array], lower: Integers, width: int) -> list[Reals]:
        """Return the log weights of some counts of each cell, given all other variables."""
        window = (lower, width) if self._window else ()
        return self._conditional(*window, *(point[variable] for variable in self._inputs))

    def _log_density(self, point: dict[str, Array]) -> Callable[[Integers], float] | None:
        """Return the log density of variables that depend on several cells, given all other variables."""
        of_release, function = self._observed.likelihood.of_table, self._log_factor
        if function is None:
            return of_release
        shape, parameters = point[self.vars[0].name].shape, [point[variable] for variable in self._factor_inputs]
        of_release = of_release or (lambda table: 0.0)
        return lambda table: float(function(table.reshape(shape), *parameters)) + of_release(table)

    def _accepts(self, before: Integers, table: Integers) -> bool:
        """Accept or reject line updates that omit the normalizer C(x); independent directions are reversible."""
        normaliser, release = self._observed.likelihood.normaliser, self._observed.published
        if normaliser is None:
            return True
        if normaliser.log is not None:
            ratio = normaliser.log(before) - normaliser.log(table)
        else:
            mechanism, kept = mechanism_of(release), release.kept
            (proposed_release,) = mechanism.draw(kept, table, 1, seeded_stream(self.rng))
            ratio = mechanism.log_unnormalised(kept, proposed_release, before)
            ratio = ratio - mechanism.log_unnormalised(kept, proposed_release, table)
        return bool(np.log(self.rng.random()) < ratio)

    def _next_directions(self) -> Directions:
        """Return the directions of one draw from a batch."""
        each = self.sweeps * self._fiber.lower.size
        if not self._batch or self._position == BATCH:
            self._batch, self._position = directions(self._fiber, each * BATCH, self.rng, self._variances), 0
        starts, cells, steps = self._batch
        self._position += 1
        return starts[each * (self._position - 1) : each * self._position + 1], cells, steps

    @staticmethod
    def competence(var: TensorVariable, has_grad: bool) -> Competence:
        """Return IDEAL for confidential tables and integers with stated sums, INCOMPATIBLE for other variables.

        PyMC calls this method for plain models within the context of the model. A table without a user-set initial
        value then starts at a feasible table.
        """
        model = pm.Model.get_context(error_if_none=False)
        if isinstance(var.owner.op, ConfidentialRV):
            if model is not None:
                restart_by_data(var, model.root)
            return Competence.IDEAL
        plain = None if has_grad or model is None else plain_table(var, model)
        if plain is None or model is None:
            return Competence.INCOMPATIBLE
        if _is_free_to_start(var, model):
            model.set_initval(var, pt.constant(plain.stand_in(model).owner.op.start, name=FIBER_START))
        return Competence.IDEAL


def _is_free_to_start(var: TensorVariable, model: pm.Model) -> bool:
    """Return whether the model leaves the initial value of a variable to the step method."""
    start = model.rvs_to_initial_values.get(var)
    return start is None or getattr(start, "name", None) == FIBER_START


def scales_of(table: TensorVariable, model: pm.Model) -> tuple[RandomTruncation, Reals]:
    """Return random truncations of the windows of a table, and rough variances of its counts given all others."""
    law = table.owner.op
    given = pt.as_tensor(law.log_given(table.owner.inputs, law.counts))
    windows = random_truncation(law.fiber.lower, law.fiber.log_noise + at_initial_point(model, given))
    if law.fiber.diagram is not None or law.fiber.may_be_cut:  # joint draws use complete windows
        windows = replace(windows, size=windows.width)
    noise = np.maximum(windows.variances, 1e-3)
    return windows, 1 / (1 / noise + 1 / (np.abs(law.start.ravel()) + 1.0))


STEP_METHODS.append(LatticeGibbs)  # in place: PyMC's sampler references this list


def dense_steps(model: pm.Model | None = None) -> list[BlockedStep]:
    """Return steps for `pm.sample`: `LatticeGibbs` for the table, NUTS with a dense metric for the parameters.

    PyMC combines other step methods with a diagonal metric. With up to tens of parameters a dense metric adapts to
    their correlations at negligible cost.

    Parameters
    ----------
    model : pymc.Model, optional
        A model with one table by ``PartiallyPrivate(..., marginalize=False)``, or one that is not marginalizable.

    Returns
    -------
    list of step methods
        For ``pm.sample(step=...)``.

    Raises
    ------
    ModelError
        The model has no such table or several, or no other variable.

    See Also
    --------
    ppdinf.samplers.LatticeGibbs, ppdinf.samplers.FixedLengthHMC

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> public = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")
    >>> release = ppd.Release(np.array([[3, 1], [2, 5]]), ppd.GeneralizedLaplace(public, epsilon=1))
    >>> with pm.Model(coords=release.coords):
    ...     rate = pm.Gamma("rate", 2, 1)
    ...     x = ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release, marginalize=False)
    ...     steps = ppd.samplers.dense_steps()
    >>> [step.name for step in steps]
    ['lattice_gibbs', 'nuts']
    """
    model = pm.modelcontext(model)
    tables = [v for v in model.free_RVs if LatticeGibbs.competence(v, has_grad=False) is Competence.IDEAL]
    parameters = [v for v in model.free_RVs if v not in tables]
    if len(tables) != 1 or not parameters:
        raise ModelError(
            "the model must have one confidential table and at least one parameter, found "
            f"{len(tables)} and {len(parameters)}"
        )
    point = model.initial_point()
    size = sum(point[model.rvs_to_values[v].name].size for v in parameters)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "QuadPotentialFullAdapt is an experimental feature")
        metric = QuadPotentialFullAdapt(size, np.zeros(size), np.eye(size), 10)  # what PyMC's "adapt_full" builds
    return [LatticeGibbs(tables, model=model), pm.NUTS(parameters, potential=metric, model=model)]
