"""Exact independent posterior draws by rejection from the prior.

Target: pi(theta | y, Z), proportional to pi(theta) L(theta) with the marginal likelihood

    L(theta) = p(y, Z | theta) = sum over tables x on the fiber of p(x | theta) q(y - x).

Propose theta from the prior, accept with probability L(theta) / M, M >= sup L.

Seeman, Reimherr and Slavkovic, "Formal privacy for partially private data", Algorithm 1, proposes theta from
pi(theta | Z) and a table x from p(x | theta, Z), and accepts with probability p(y | x, Z) / M (its printed
inequality is reversed, and M must bound p(y | x, Z) over the tables x). Neither of its proposals can be
drawn directly in general. Both disappear when P(Z | theta) moves from the proposal into the acceptance and
x is summed out: P(Z | theta) sum_x p(x | theta, Z) p(y | x, Z) is L(theta). The law of the accepted draws is
the same, and averaging over x can only raise the acceptance for a given M; tables follow afterwards from
`ppdinf.sample_confidential`.

M is proved wherever a proof is worth its price (`ppdinf.samplers.posterior_bound`): draws are then exact. Where such an
M would need more than a million proposals, or there is none, M is the largest value found by maximising L from the
best prior draws. Each proposal checks it: one with a larger L raises M, and the draws accepted so far are put to
the test again with their own uniform numbers. Draws are exact if the final M bounds L.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from numpy.typing import NDArray
from rich.progress import Progress
from scipy.optimize import minimize

from ppdinf._internal.pymc_compat import (
    Constant,
    FlatRV,
    HalfFlatRV,
    RandomVariable,
    TensorVariable,
    ancestors,
    change_dist_size,
    compile_pymc,
    graph_replace,
    join_nonshared_inputs,
    vectorize_graph,
)
from ppdinf._internal.types import Array
from ppdinf.distributions.model_graph.dependents import drawn_for
from ppdinf.errors import ModelError
from ppdinf.samplers.parameters import as_tree, require_parameters
from ppdinf.samplers.posterior_bound import log_bound as proved_bound

__all__ = ["rejection"]

BATCH = 4096  # proposals drawn and weighed in one call of compiled code
LARGEST = 10**7  # proposals beyond which the run is not worth starting
AFFORDABLE = 10**6  # proposals that a proof of the bound may cost
STARTS = 4  # prior draws from which the likelihood is maximised


def rejection(
    model: pm.Model, draws: int, *, rng: int | np.random.Generator | None = None, progressbar: bool = True
) -> xr.DataTree:
    """Draw the parameters of a model from their posterior, exactly and independently, by rejection.

    Right for few parameters with informative priors; elsewhere hopeless, and then it stops at once.

    Parameters
    ----------
    model : pymc.Model
        Proper priors, continuous parameters, and any likelihood: a `PartiallyPrivate` table that is summed
        out, beside others or none.
    draws : int
        Number of draws.
    rng : int or numpy.random.Generator, optional
    progressbar : bool, default True

    Returns
    -------
    xarray.DataTree
        As `pm.sample`: ``posterior`` with one chain, ``sample_stats`` with ``acceptance``, the probability
        with which each draw was accepted, and ``observed_data``. Attributes of ``sample_stats``:
        ``acceptance_rate``, ``proposals``, ``log_bound`` (log M, the mechanism's normaliser dropped), ``bound``
        ("proved", or "found" by maximisation) and ``bound_raised``, how many times a proposal exceeded it.

    Raises
    ------
    ModelError
        More than ten million proposals would be needed; an unknown of whole numbers; an improper prior; a
        likelihood that is nan.

    Notes
    -----
    Exact where ``bound`` is "proved", elsewhere if maximisation found the top; ``bound_raised`` above 0 says that it
    had not. Proofs are for noisy tables alone, with noise whose law does not depend on the table; they are sharp
    for Poisson cells: each cell beyond the number of parameters enlarges M by a factor of about 1.6.

    Compiling takes seconds; then about 10 us plus one marginal likelihood (20 us for 20 cells) for each proposal. The
    expected number of proposals is ``draws * M / p(y, Z)``.

    References
    ----------
    Seeman, Reimherr and Slavkovic, "Formal privacy for partially private data", Algorithm 1.

    Examples
    --------
    >>> import ppdinf as ppd
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
    names, propose = _proposals(model, int(rng.integers(2**31)))

    def maximise(starts: NDArray[np.float64], best: float) -> float:
        return _maximiser(model)(starts, best)

    with Progress(disable=not progressbar, transient=True) as progress:
        task = progress.add_task("Rejection", total=draws)
        found = _draw(propose, proved_bound(model), maximise, draws, rng, lambda n: progress.update(task, completed=n))
    posterior = dict(zip(names, found.draws, strict=True))
    return as_tree(model, posterior, {"acceptance": found.acceptance}, found.attrs)


type Batch = tuple[list[Array], NDArray[np.float64], NDArray[np.float64]]
"""Draws from the prior of every variable, log likelihoods, and values in unconstrained space."""


class _Accepted(NamedTuple):
    """Draws of every variable, the probability with which each was accepted, and what is said of the run."""

    draws: list[Array]
    acceptance: NDArray[np.float64]
    attrs: dict[str, float | str]


def _draw(
    propose: Callable[[], Batch],
    proved: float,
    maximise: Callable[[NDArray[np.float64], float], float],
    draws: int,
    rng: np.random.Generator,
    report: Callable[[int], None] = lambda accepted: None,
) -> _Accepted:
    proposed, log_l, values = propose()
    needed = np.log(draws) + proved - (np.logaddexp.reduce(log_l) - np.log(log_l.size))
    if needed <= np.log(AFFORDABLE):
        bound, log_bound = "proved", proved
    else:
        bound, log_bound = "found", maximise(values[np.argsort(log_l)[-STARTS:]], float(log_l.max()))
    kept, kept_log_l, kept_log_u = [part[:0] for part in proposed], log_l[:0], log_l[:0]
    proposals, raised, log_mass = 0, 0, -np.inf
    while True:
        if log_l.max() > log_bound + 1e-9:
            log_bound, raised = float(log_l.max()), raised + 1
        proposals += log_l.size
        log_mass = np.logaddexp(log_mass, np.logaddexp.reduce(log_l))
        _require_hope(log_mass - np.log(proposals) - log_bound, draws, proposals)
        parts = [np.concatenate(pair) for pair in zip(kept, proposed, strict=True)]
        kept_log_l = np.concatenate([kept_log_l, log_l])
        kept_log_u = np.concatenate([kept_log_u, -rng.exponential(size=log_l.size)])
        accepted = kept_log_u < kept_log_l - log_bound
        kept, kept_log_l, kept_log_u = [part[accepted] for part in parts], kept_log_l[accepted], kept_log_u[accepted]
        report(min(kept_log_l.size, draws))
        if kept_log_l.size >= draws:
            break
        proposed, log_l, _ = propose()
    acceptance = np.exp(np.minimum(kept_log_l[:draws] - log_bound, 0.0))
    attrs = {"acceptance_rate": kept_log_l.size / proposals, "proposals": proposals, "log_bound": float(log_bound)}
    return _Accepted([part[:draws] for part in kept], acceptance, {**attrs, "bound": bound, "bound_raised": raised})


def _proposals(model: pm.Model, seed: int) -> tuple[list[str], Callable[[], Batch]]:
    """Return names, and a function that draws a batch from the prior: draws, log L, unconstrained values."""
    free, outcome = model.free_RVs, [*model.free_RVs, *model.deterministics]
    for rv in free:
        if isinstance(rv.owner.op, FlatRV | HalfFlatRV):
            raise ModelError(
                f"the prior of {rv.name!r} cannot be drawn from: give it a proper prior, such as pm.Normal"
            )
    drawn = drawn_for(model, free)
    log_l = model.logp(vars=[*model.observed_RVs, *model.potentials], jacobian=False)
    (log_l,) = graph_replace([log_l], drawn, strict=False)
    # what was observed has its value wherever something depends on it
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
            "the prior cannot be drawn many times at once, for PyTensor cannot vectorize one of its distributions: use "
            "ppdinf.samplers.importance or pm.sample"
        ) from error
    function = compile_pymc([], many, random_seed=seed)

    def propose() -> Batch:
        found = function()
        log_l = found[len(outcome)]
        if np.isnan(log_l).any():
            raise ModelError("the log likelihood is nan at a draw from the prior: check the model there")
        return found[: len(outcome)], log_l, np.concatenate(found[len(outcome) + 1 :], axis=1)

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
    sized: TensorVariable = op.make_node(rng, None, *parameters).outputs[1]
    return sized


def _maximiser(model: pm.Model) -> Callable[[NDArray[np.float64], float], float]:
    """Compile a search for the largest log likelihood that is reached from given starts, and at least a given one."""
    log_l = model.logp(vars=[*model.observed_RVs, *model.potentials], jacobian=False)
    (log_l,), joined = join_nonshared_inputs(model.initial_point(), [log_l], model.value_vars)
    function = compile_pymc([joined], [-log_l, -pt.grad(log_l, joined)])

    def maximise(starts: NDArray[np.float64], best: float) -> float:
        for start in starts:
            with np.errstate(all="ignore"):  # line searches may overstep
                best = max(best, -float(minimize(function, start, jac=True, method="L-BFGS-B").fun))
        return best

    return maximise


def _require_hope(log_acceptance: float, draws: int, proposals: int) -> None:
    if np.log(draws) - log_acceptance > np.log(LARGEST):
        digits = log_acceptance / np.log(10)
        raise ModelError(
            f"rejection is hopeless here: after {proposals} proposals the predicted acceptance is 1e{digits:.0f}, and "
            f"{draws} draws would need more than ten million proposals. Use ppdinf.samplers.importance or pm.sample(), "
            "or tighten the priors"
        )
