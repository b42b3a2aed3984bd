"""Exact independent posterior draws by rejection from the prior, with proved bounds on the likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from scipy.optimize import minimize
from scipy.special import gammaln

from ppdinf._internal.progress import progress
from ppdinf._internal.pymc_compat import (
    Constant,
    FlatRV,
    HalfFlatRV,
    PoissonRV,
    RandomVariable,
    TensorVariable,
    ancestors,
    change_dist_size,
    compile_pymc,
    graph_replace,
    join_nonshared_inputs,
    vectorize_graph,
)
from ppdinf._internal.values import Array, Integers, Reals
from ppdinf.distributions.linked_tables import is_concave
from ppdinf.distributions.tables import ConfidentialTable, drawn_for, tables_of
from ppdinf.errors import ModelError
from ppdinf.fiber.sums_given_totals import totals
from ppdinf.samplers.posterior_target import as_tree, require_parameters

ROUNDING = 1e-9  # relative error of the coefficients (`totals.log_coefficient`)
CLOSE = 0.01  # excess over the maximum at which the iteration stops: the acceptance decreases by 1 %
STEPS = 500  # of expectation maximization
NO_RATE = 1e-12  # replaces a rate of 0


def log_bound(model: pm.Model) -> float:
    """Bound the log likelihood of a model, data and potentials together, over all parameters."""
    tables = tables_of(model)
    if model.potentials or len(tables) < len(model.observed_RVs):
        return np.inf
    return sum(_table_bound(table) for table in tables)


def _table_bound(table: ConfidentialTable) -> float:
    law, given = table.law, table.variable.owner.inputs
    constant = law.observed.log_constant or 0.0
    auxiliary = law.observed.likelihood.auxiliary
    if auxiliary is not None and not auxiliary.is_bounded:  # weights without the prior of the projected component
        return np.inf
    # scale mixtures also have their mode at 0, with weight 1
    mode = float(law.fiber.log_noise.max(axis=1).sum())
    (cells, log_sums), form = law.base(given), law.exponential_family(given)
    if form is None or not isinstance(cells.owner.op, PoissonRV) or not isinstance(log_sums, float) or law.lines:
        return mode - constant
    (block, total), informed = law.groups, ~law.fiber.uninformed
    saturated = saturated_bound(form[2].whole[informed], law.fiber.lower[informed], total, block[informed])
    return min(mode, saturated) - constant


def saturated_bound(log_h: Reals, lower: Integers, total: Integers, block: Integers) -> float:
    """Bound the log likelihood of Poisson cells by its maximum over one rate per cell."""
    counts = lower[:, None] + np.arange(log_h.shape[1])
    with np.errstate(invalid="ignore"):
        log_noise = np.where(np.isfinite(log_h), log_h + gammaln(counts + 1), -np.inf)
    if not all(is_concave(row) for row in log_noise):
        return np.inf
    place = {"lo": lower, "total": total, "block": block}
    free, grouped = block < 0, block >= 0
    last = counts[:, -1]
    rates = np.maximum(np.where(log_noise == log_noise.max(axis=1, keepdims=True), counts, 0).max(axis=1), 0.5)
    best = np.inf
    for _ in range(STEPS):
        sums = np.bincount(block[grouped], rates[grouped], total.size)
        rates = np.maximum(rates * np.append(total / sums, 1.0)[block], NO_RATE)
        log_l = float(totals.log_coefficient(log_h, eta=np.log(rates), **place).sum() - rates.sum())
        means = (totals.marginals(log_h, eta=np.log(rates), **place) * counts).sum(axis=1)
        slope = means / rates - 1
        steepest = np.full(total.size, -np.inf)
        np.maximum.at(steepest, block[grouped], slope[grouped])
        excess = total @ steepest + np.maximum(slope * (last - rates), -slope * rates)[free].sum()
        best = min(best, log_l + excess + ROUNDING * (1 + abs(log_l)))
        if excess < CLOSE:
            break
        rates = np.maximum(means, NO_RATE)
    return best


BATCH = 4096  # proposals drawn and evaluated in one call of compiled code
LARGEST = 10**7  # predicted proposals above which the run is refused
AFFORDABLE = 10**6  # maximum number of proposals with a proved bound
STARTS = 4  # prior draws from which the likelihood is maximized


def rejection(
    model: pm.Model, draws: int, *, rng: int | np.random.Generator | None = None, progressbar: bool = True
) -> xr.DataTree:
    """Draw the parameters of a model from their posterior, exactly and independently, by rejection.

    Suitable for few parameters with informative priors. Otherwise the function raises an error at once.

    Parameters
    ----------
    model : pymc.Model
        Proper priors, continuous parameters, and any likelihood, including marginalized `PartiallyPrivate` tables.
    draws : int
        Number of draws.
    rng : int or numpy.random.Generator, optional
    progressbar : bool, default True

    Returns
    -------
    xarray.DataTree
        Same layout as the result of `pm.sample`: ``posterior`` with one chain, ``sample_stats`` with ``acceptance``,
        the acceptance probability of each draw, and ``observed_data``. Attributes of ``sample_stats``:
        ``acceptance_rate``; ``proposals``; ``log_bound`` (log M); ``bound`` ("proved", or "found" by maximization);
        ``bound_raised``, the number of proposals that exceeded the bound.

    Raises
    ------
    ModelError
        The run would need more than 10 million proposals, or the model has an integer unknown, an improper prior or a
        likelihood of nan.

    See Also
    --------
    ppdinf.samplers.importance

    Notes
    -----
    Draws are exact where ``bound`` is "proved". Otherwise they are exact if maximization found the maximum;
    ``bound_raised`` above 0 shows that it did not. Bounds are proved only for models with noisy tables as the only data
    and noise whose distribution does not depend on the table. They are sharp for Poisson cells: each cell beyond the
    number of parameters increases M by a factor of about 1.6.

    The expected number of proposals is ``draws * M / p(y, Z)``. Times: docs/speed.md.

    References
    ----------
    Seeman, Reimherr and Slavkovic, "Formal privacy for partially private data", Algorithm 1.

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> release = ppd.Release(np.array([3, -1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     rate = pm.Gamma("rate", 2, 1)
    ...     counts = ppd.PartiallyPrivate("counts", pm.Poisson.dist(rate), release=release)
    >>> idata = ppd.samplers.rejection(model, 2000, rng=1, progressbar=False)
    >>> idata.posterior["rate"].shape, round(float(idata.posterior["rate"].mean()), 1)  # (2 + 6) / (1 + 3)
    ((1, 2000), 2.0)
    """
    model = pm.modelcontext(model)
    require_parameters(model, draws)
    rng = np.random.default_rng(rng)
    with progress("Rejection", draws, disable=not progressbar) as advance:
        names, propose = _proposals(model, int(rng.integers(2**31)))
        result = _draw(propose, log_bound(model), lambda *found: _maximiser(model)(*found), draws, rng, advance)
    posterior = dict(zip(names, result.draws, strict=True))
    return as_tree(model, posterior, {"acceptance": result.acceptance}, result.attrs)


type Batch = tuple[list[Array], Reals, Reals]
"""Draws from the prior of every variable, log likelihoods, and values in unconstrained space."""


class _Accepted(NamedTuple):
    """Draws of every variable, their acceptance probabilities, and attributes of the run."""

    draws: list[Array]
    acceptance: Reals
    attrs: dict[str, float | str]


def _draw(
    propose: Callable[[], Batch],
    proved: float,
    maximise: Callable[[Reals, float], float],
    draws: int,
    rng: np.random.Generator,
    advance: Callable[[int], None] = lambda accepted: None,
) -> _Accepted:
    proposed, log_l, values = propose()
    # use the proved bound if its expected number of proposals is acceptable
    log_proposals = np.log(draws) + proved - (np.logaddexp.reduce(log_l) - np.log(log_l.size))
    if log_proposals <= np.log(AFFORDABLE):
        bound, log_bound = "proved", proved
    else:
        bound, log_bound = "found", maximise(values[np.argsort(log_l)[-STARTS:]], float(log_l.max()))
    pool, pool_log_l, pool_log_u = [part[:0] for part in proposed], log_l[:0], log_l[:0]
    reported, proposals, raised, log_mass = 0, 0, 0, -np.inf
    while True:
        # a larger likelihood raises the bound
        if log_l.max() > log_bound + 1e-9:
            log_bound, raised = float(log_l.max()), raised + 1
        proposals += log_l.size
        log_mass = np.logaddexp(log_mass, np.logaddexp.reduce(log_l))
        log_acceptance = log_mass - np.log(proposals) - log_bound
        if np.log(draws) - log_acceptance > np.log(LARGEST):
            digits = log_acceptance / np.log(10)
            raise ModelError(
                f"rejection is not feasible: after {proposals} proposals the predicted acceptance is 1e{digits:.0f}, "
                f"and {draws} draws would need more than 10 million proposals. Use ppdinf.samplers.importance or "
                "pm.sample(), or more informative priors"
            )
        # test new proposals, and earlier accepted draws again with their own uniform numbers
        parts = [np.concatenate(pair) for pair in zip(pool, proposed, strict=True)]
        pool_log_l = np.concatenate([pool_log_l, log_l])
        pool_log_u = np.concatenate([pool_log_u, -rng.exponential(size=log_l.size)])
        accepted = pool_log_u < pool_log_l - log_bound
        pool, pool_log_l, pool_log_u = [part[accepted] for part in parts], pool_log_l[accepted], pool_log_u[accepted]
        advance(min(pool_log_l.size, draws) - reported)
        reported = min(pool_log_l.size, draws)
        if pool_log_l.size >= draws:
            break
        proposed, log_l, _ = propose()
    acceptance = np.exp(np.minimum(pool_log_l[:draws] - log_bound, 0.0))
    attrs = {"acceptance_rate": pool_log_l.size / proposals, "proposals": proposals, "log_bound": float(log_bound)}
    return _Accepted([part[:draws] for part in pool], acceptance, {**attrs, "bound": bound, "bound_raised": raised})


def _proposals(model: pm.Model, seed: int) -> tuple[list[str], Callable[[], Batch]]:
    """Return names, and a function that draws a batch from the prior: draws, log L, unconstrained values."""
    free, outcome = model.free_RVs, [*model.free_RVs, *model.deterministics]
    for rv in free:
        if isinstance(rv.owner.op, FlatRV | HalfFlatRV):
            raise ModelError(
                f"the prior of {rv.name!r} is improper and cannot be sampled: use a proper prior, such as pm.Normal"
            )
    drawn = drawn_for(model, free)
    log_l = model.logp(vars=[*model.observed_RVs, *model.potentials], jacobian=False)
    (log_l,) = graph_replace([log_l], drawn, strict=False)
    # observed variables have their observed values in all dependent expressions
    observed = {rv: model.rvs_to_values[rv] for rv in model.observed_RVs}
    replaced = graph_replace([*outcome, log_l, *(value.ravel() for value in drawn.values())], observed, strict=False)
    for k in range(len(free)):
        replaced = graph_replace(replaced, {replaced[k]: _sized_by_parameters(replaced[k])}, strict=False)
    free = replaced[: len(free)]
    roots = [rv for rv in free if not any(other in free for other in ancestors([rv]) if other is not rv)]
    batched = {rv: change_dist_size(rv, (BATCH,), expand=True) for rv in roots}
    try:
        many = vectorize_graph(replaced, batched)
    except (NotImplementedError, ValueError) as error:
        raise ModelError(
            "the prior cannot be drawn in batches, because PyTensor cannot vectorize one of its distributions: use "
            "ppdinf.samplers.importance or pm.sample"
        ) from error
    function = compile_pymc([], many, random_seed=seed)

    def propose() -> Batch:
        result = function()
        log_l = result[len(outcome)]
        if np.isnan(log_l).any():
            raise ModelError("the log likelihood is nan at a draw from the prior: check the model there")
        return result[: len(outcome)], log_l, np.concatenate(result[len(outcome) + 1 :], axis=1)

    return [variable.name for variable in outcome], propose


def _sized_by_parameters(rv: TensorVariable) -> TensorVariable:
    """Broadcast the parameters of a random variable to its size: a size cannot be vectorized with them."""
    op = rv.owner.op
    if not isinstance(op, RandomVariable):
        return rv
    rng, size = rv.owner.inputs[:2]
    if isinstance(size, Constant) and size.data is None:
        return rv
    lead = [size[k] for k in range(rv.ndim - op.ndim_supp)]
    parameters = [
        pt.broadcast_to(p, (*lead, *tuple(p.shape)[p.ndim - ndim :]))
        for p, ndim in zip(op.dist_params(rv.owner), op.ndims_params, strict=True)
    ]
    return op.make_node(rng, None, *parameters).outputs[1]


def _maximiser(model: pm.Model) -> Callable[[Reals, float], float]:
    """Compile a search for the largest log likelihood from given starts, at least a given value."""
    log_l = model.logp(vars=[*model.observed_RVs, *model.potentials], jacobian=False)
    (log_l,), joined = join_nonshared_inputs(model.initial_point(), [log_l], model.value_vars)
    function = compile_pymc([joined], [-log_l, -pt.grad(log_l, joined)])

    def maximise(starts: Reals, best: float) -> float:
        for start in starts:
            with np.errstate(all="ignore"):  # line searches may overstep
                best = max(best, -float(minimize(function, start, jac=True, method="L-BFGS-B").fun))
        return best

    return maximise
