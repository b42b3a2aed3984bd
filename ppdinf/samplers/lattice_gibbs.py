"""Gibbs sampling of a confidential table along the lines of its fiber, by exact full conditionals.

State and kernel are those of `ppdinf.fiber.gibbs.line_gibbs`; the cell weights are the product of the data model and
the noise law at the released count, and noise that couples the cells is weighed along the lines. Directions
come from `ppdinf.lattice.moves.moves`, which says what is proved to connect the fiber: one person moved between
two cells under the same public sums, a swap in a two-way table, a combination of basis vectors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

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
from ppdinf._internal.types import Array
from ppdinf.distributions.densities.confidential_rv import ConfidentialRV
from ppdinf.distributions.densities.factors import Factor, read_cells
from ppdinf.distributions.model_graph.build_fiber import at_initial_point, give_windows
from ppdinf.distributions.model_graph.data_model_draws import DataModelDraws, uninformed_cells
from ppdinf.distributions.model_graph.dependents import factors_of
from ppdinf.distributions.model_graph.latent_tables import plain_table
from ppdinf.distributions.model_graph.model_hooks import restart_by_data
from ppdinf.distributions.model_graph.renewed_windows import follow_data
from ppdinf.distributions.observation.observed_release import mechanism_of
from ppdinf.errors import ModelError
from ppdinf.fiber.gibbs.dispatch import Directions, advance, directions
from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.fiber.gibbs.random_windows import Cuts, cuts
from ppdinf.noise.primitives.stream import seeded_stream

__all__ = ["LatticeGibbs", "dense_steps"]

SWEEPS = 4
BATCH = 32  # draws whose directions are drawn together
OWN_START = "start on the fiber"  # of an initial value that is the model's between two calls of PyMC only
FLAT = 0.25  # power of the weights under which chains start: about twice as far apart as draws are


@dataclass_state
class LatticeGibbsState(StepMethodState):
    """What PyMC saves between chains, and what a chain that was interrupted goes on from."""

    sweeps: int
    _batch: Directions | tuple[()]
    _position: int
    _started: bool


class LatticeGibbs(BlockedStep):
    """PyMC step method for confidential tables, and for integers with given sums; PyMC assigns it by itself.

    Parameters
    ----------
    vars : list
        The table, one variable: of `ppdinf.PartiallyPrivate`; a latent multinomial; integers of which sums are observed
        (``pm.DiracDelta("total", x.sum(), observed=10)``), or a release by ``mechanism.dist(x)``.
    sweeps : int, default 4
        Directions per draw, in multiples of the number of cells. Each costs a few passes over the window
        of a cell (some ``70 / epsilon`` multiplications). Given the parameters, draws of a 30 x 30 table with both
        margins public are then nearly independent: 1,100 effective ones of 1,200.
    model : pymc.Model, optional
    rng : numpy.random.Generator, optional
    initial_point, compile_kwargs, blocked
        As PyMC passes them.

    Notes
    -----
    Variables and potentials that depend on the table cell by cell are further weights of the counts. Where one looks at
    several cells at once, a total as a regressor, say, each step along a line is a proposal that it accepts or not, at
    some 20 us and one evaluation each.

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
            self._model.set_initval(self._model.values_to_rvs[value], None)  # PyMC has read it: such models are copied
        self.rng = np.random.default_rng(rng)
        self.sweeps = int(sweeps)
        self.tune = False
        self._batch: Directions | tuple[()] = ()
        self._position = 0
        self._started = False
        self._compile_kwargs = compile_kwargs or {}
        self._compile()

    def _compile(self) -> None:
        """Compile here, so that forked workers inherit machine code and no draw pays for it."""
        table = self._model.values_to_rvs[self.vars[0]]
        self._is_plain = not isinstance(table.owner.op, ConfidentialRV)
        if not self._is_plain:
            follow_data(self._model)
            by_cell, of_all = factors_of(table, self._model)
        else:
            by_cell, of_all, table = self._stand_in(table)
        give_windows(table, read_cells(by_cell, of_all, table.owner.op.start.size), self._model)
        self._fiber: Fiber = table.owner.op.fiber
        self._free_cells = None
        if self._fiber.uninformed.any():
            (cells,) = self._model.replace_rvs_by_values([uninformed_cells(table)])
            inputs = inputvars([cells])
            self._free_cells = DataModelDraws(cells, inputs, **self._compile_kwargs), [x.name for x in inputs]
        self._cuts, self._variances = scales_of(table, self._model)
        self._start = table.owner.op.start.ravel()
        self._observed = table.owner.op.observed
        lower, width = pt.tensor("lower", shape=self._cuts.lower.shape, dtype="int64"), pt.lscalar("width")
        counts, self._window = lower[:, None] + pt.arange(width), [lower, width]
        if self._cuts.are_none:  # what does not depend on parameters is worked out once
            counts, self._window = pt.constant(self._cuts.lower[:, None] + np.arange(self._cuts.width)), []
        conditional = self._model.replace_rvs_by_values(table.owner.op.conditional(table, by_cell, counts))
        inputs = [x for x in inputvars(conditional) if x not in (self.vars[0], *self._window)]
        self._inputs = [variable.name for variable in inputs]
        self._conditional = compile_pymc([*self._window, *inputs], conditional, **self._compile_kwargs)
        self._factor_inputs, self._log_factor = [], None
        if of_all:
            log_factor = sum(factor.sum() for factor in of_all)
            others = [variable for variable in inputvars([log_factor]) if variable is not self.vars[0]]
            self._factor_inputs = [variable.name for variable in others]
            self._log_factor = compile_pymc([self.vars[0], *others], log_factor, **self._compile_kwargs)

    def _stand_in(self, variable: TensorVariable) -> tuple[list[Factor], list[TensorVariable], TensorVariable]:
        """Table that a variable of a plain model is walked as, and what depends on that."""
        plain = plain_table(variable, self._model)
        if plain is None:
            raise ModelError(
                f"nothing in the model says exactly what sums of {variable.name!r} are, and no release does"
            )
        return *plain.factors(self._model), plain.stand_in(self._model)

    def __getstate__(self) -> dict[str, object]:
        compiled = {
            "_fiber", "_free_cells", "_cuts", "_variances", "_start", "_observed", "_window", "_inputs", "_conditional",
            "_factor_inputs", "_log_factor", "_is_plain",
        }  # fmt: skip
        return {key: value for key, value in self.__dict__.items() if key not in compiled}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._compile()

    def setup_chain(self, rng: np.random.Generator, tune: int, draws: int) -> None:
        """Forget an earlier chain: each depends on its own generator alone, and starts from a table of its own."""
        super().setup_chain(rng, tune, draws)
        self._batch, self._started = (), False

    def step(self, point: dict[str, Array]) -> tuple[dict[str, Array], list[dict[str, int | np.integer]]]:
        """Walk the table along fresh directions, given the other variables."""
        fiber, name = self._fiber, self.vars[0].name
        before = point[name].ravel().astype(np.int64)
        before[fiber.uninformed] = fiber.lower[fiber.uninformed]  # the count that stands for all
        log_factor = self._factor_at(point)
        if not self._started:
            self._started = True
            if self._is_plain and not fiber.holds(before):  # where PyMC starts it, which knows of no sums
                before = self._start
            fiber.require(before)
            if (before == self._start).all():  # PyMC starts all chains alike, but for what users set
                conditional = self._conditional_at(point, fiber.lower, fiber.width)
                before = self._dispersed(before, conditional[0], log_factor)
                flat = [FLAT * conditional[0], *conditional[1:]]
                before = advance(fiber, before, flat, self._next_directions(), self.rng, log_factor)
        lower, width = self._cuts.around(before, self._cuts.draw(self.rng))
        conditional = self._conditional_at(point, lower, width)
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

    def _dispersed(
        self,
        start: NDArray[np.int64],
        weights: NDArray[np.float64],
        log_factor: Callable[[NDArray[np.int64]], float] | None,
    ) -> NDArray[np.int64]:
        """Start where other chains do not, if moves may fail to connect the tables: R-hat then sees it."""
        table = self._fiber.vertex(self.rng) if self._fiber.may_be_cut else None
        if table is None or not np.isfinite(weights[np.arange(table.size), table - self._fiber.lower]).all():
            return start
        return start if log_factor is not None and not np.isfinite(log_factor(table)) else table

    def _conditional_at(
        self, point: dict[str, Array], lower: NDArray[np.int64], width: int
    ) -> list[NDArray[np.float64]]:
        """Law of the table given all other variables, by the log weights of some counts of each cell."""
        window = (lower, width) if self._window else ()
        return self._conditional(*window, *(point[variable] for variable in self._inputs))

    def _factor_at(self, point: dict[str, Array]) -> Callable[[NDArray[np.int64]], float] | None:
        """Log density of what depends on the table as a whole, given all other variables."""
        if self._log_factor is None:
            return None
        function, shape = self._log_factor, point[self.vars[0].name].shape
        others = [point[variable] for variable in self._factor_inputs]
        return lambda table: float(function(table.reshape(shape), *others))

    def _accepts(self, before: NDArray[np.int64], table: NDArray[np.int64]) -> bool:
        """Decide on a walk whose line updates left out the normaliser C(x): independent directions are reversible.

        Where C has no sum, a release y' of the proposed table stands in for it: w(y', x) / w(y', x') has the mean
        C(x) / C(x') (the exchange algorithm; Murray, Ghahramani, MacKay, UAI 2006).
        """
        normaliser, release = self._observed.likelihood.normaliser, self._observed.published
        if normaliser is None:
            return True
        if normaliser.log is not None:
            ratio = normaliser.log(before) - normaliser.log(table)
        else:
            mechanism, kept = mechanism_of(release), release.kept
            (other,) = mechanism.draw(kept, table, 1, seeded_stream(self.rng))
            ratio = mechanism.log_unnormalised(kept, other, before) - mechanism.log_unnormalised(kept, other, table)
        return bool(np.log(self.rng.random()) < ratio)

    def _next_directions(self) -> Directions:
        """Directions of one draw, out of a batch."""
        each = self.sweeps * self._fiber.lower.size
        if not self._batch or self._position == BATCH:
            self._batch, self._position = directions(self._fiber, each * BATCH, self.rng, self._variances), 0
        starts, cells, steps = self._batch
        self._position += 1
        return starts[each * (self._position - 1) : each * self._position + 1], cells, steps

    @staticmethod
    def competence(var: TensorVariable, has_grad: bool) -> Competence:
        """Ideal for confidential tables, and for integers whose sums a model states; impossible for anything else.

        Of a plain model it is asked within the context of that model. A table starts where all that is known of it now
        is possible, unless the model says where it starts.
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
            model.set_initval(var, pt.constant(plain.stand_in(model).owner.op.start, name=OWN_START))
        return Competence.IDEAL


def _is_free_to_start(var: TensorVariable, model: pm.Model) -> bool:
    """Tell whether a model leaves it to the step where a variable starts."""
    start = model.rvs_to_initial_values.get(var)
    return start is None or getattr(start, "name", None) == OWN_START


def scales_of(table: TensorVariable, model: pm.Model) -> tuple[Cuts, NDArray[np.float64]]:
    """Pieces of windows in which the walk of a table goes, and rough variances of its counts given all others.

    By the noise, with its further variable at its start, and for the variances as if counts were Poisson: both decide
    how well the walk does, not where it ends.
    """
    law = table.owner.op
    given = pt.as_tensor(law.log_given(table.owner.inputs, law.counts))
    pieces = cuts(law.fiber.lower, law.fiber.log_noise + at_initial_point(model, given))
    if law.fiber.diagram is not None or law.fiber.may_be_cut:  # joint draws take whole windows
        pieces = replace(pieces, size=pieces.width)
    noise, counts = np.maximum(pieces.variances, 1e-3), np.abs(law.start.ravel()) + 1.0
    return pieces, 1 / (1 / noise + 1 / counts)


def dense_steps(model: pm.Model | None = None) -> list[BlockedStep]:
    """Return steps for `pm.sample`: `LatticeGibbs` for the table, NUTS with a dense metric for the parameters.

    Beside any other step method PyMC gives NUTS a diagonal metric. With tens of parameters at most, a dense one costs
    next to nothing and follows their correlations: on a 4 x 4 table (`benchmarks/posterior.py`) half the gradients
    and three times the effective draws.

    Parameters
    ----------
    model : pymc.Model, optional
        With one table made by ``PartiallyPrivate(..., marginalize=False)``, or one that cannot be summed out.

    Raises
    ------
    ModelError
        The model has no such table, or nothing else to draw.

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> public = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")
    >>> release = ppd.Release(np.array([[3, 1], [2, 5]]), ppd.GeneralizedLaplace(public, epsilon=1))
    >>> with pm.Model(coords=release.coords):
    ...     rate = pm.Gamma("rate", 2, 1)
    ...     x = ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
    ...     steps = dense_steps()
    >>> [step.name for step in steps]
    ['lattice_gibbs', 'nuts']
    """
    model = pm.modelcontext(model)
    tables = [v for v in model.free_RVs if LatticeGibbs.competence(v, has_grad=False) is Competence.IDEAL]
    others = [v for v in model.free_RVs if v not in tables]
    if len(tables) != 1 or not others:
        raise ModelError(f"the model has {len(tables)} confidential tables and {len(others)} parameters to draw")
    point = model.initial_point()
    size = sum(point[model.rvs_to_values[v].name].size for v in others)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "QuadPotentialFullAdapt is an experimental feature")
        metric = QuadPotentialFullAdapt(size, np.zeros(size), np.eye(size), 10)  # what PyMC's "adapt_full" builds
    return [LatticeGibbs(tables, model=model), pm.NUTS(others, potential=metric, model=model)]


STEP_METHODS.append(LatticeGibbs)  # in place: PyMC's sampler holds a reference to this very list
