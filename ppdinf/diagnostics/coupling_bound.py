"""Upper bound, by coupled chains, on the distance of a table's chain from its conditional posterior.

Given the parameters, `ppdinf.samplers.lattice_gibbs` is a Markov chain on the fiber. Two chains with the same
directions and the same uniform numbers move to the same quantiles of their lines. The number of draws until they are
equal bounds the total variation between the chain and the posterior of the table (`ppdinf.noise.mcmc.tv_bound`).
Each pair starts from two independent posterior tables, so that a chain confined to a part of the fiber is detected: it
does not meet a chain in another part. If many sums cross, for example in 6 x 6 tables with both margins public and wide
noise, chains may mix well and not meet. The bound is then unavailable and implies nothing.

References
----------
N. Biswas, P. E. Jacob, P. Vanetti, "Estimating convergence of Markov chains with L-lag couplings", NeurIPS 2019.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import xarray as xr

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf.distributions.densities.confidential_rv import ConfidentialRV
from ppdinf.distributions.model_graph.dependents import dependent_factors
from ppdinf.errors import ModelError
from ppdinf.fiber.gibbs.dispatch import Directions, advance, directions
from ppdinf.fiber.gibbs.random_windows import Whole
from ppdinf.models.model_order import in_model_order
from ppdinf.models.posterior_tables import of_draws
from ppdinf.noise.mcmc.tv_bound import TVBound, tv_bound
from ppdinf.samplers.lattice_gibbs import SWEEPS, scales_of

LAWS = 16  # posterior draws of the parameters from which pairs choose one
AHEAD = 8  # draws whose directions are drawn together


def coupling_bound(
    idata: xr.DataTree,
    model: pm.Model | None = None,
    *,
    pairs: int = 200,
    limit: int = 500,
    rng: int | np.random.Generator = 0,
) -> TVBound:
    """Bound the distance between the table after t draws and its posterior given the parameters, by coupled chains.

    Parameters
    ----------
    idata : xarray.DataTree
        Result of `pm.sample` for `model`.
    model : pymc.Model, optional
        The model, outside its context, with one sampled `PartiallyPrivate` table.
    pairs : int
        Number of pairs of chains. The 95 % upper limit is at least about ``3 / pairs``.
    limit : int
        Maximum number of draws of a pair.
    rng : int or numpy.random.Generator

    Returns
    -------
    TVBound
        Its steps are draws of `LatticeGibbs` with the default number of sweeps. The bound holds for the mean over 16
        posterior draws of the parameters. It concerns the table given the parameters, not the mixing of the parameters.

    Raises
    ------
    ModelError
        The model has no such table, or the normalizer of the mechanism depends on the table.
    InvariantError
        The draws are not of this model: they violate a public sum, or are outside the support of the noise.

    See Also
    --------
    ppdinf.diagnose, ppdinf.diagnostics.tv_bound

    Notes
    -----
    Compiles one function, which takes seconds. A pair costs twice its meeting time in draws: half a second in all for
    20 cells with a public total, which meet within about 20 draws. Stores 16 tables of log weights, each d x width.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from ppdinf.diagnostics import coupling_bound
    >>> import ppdinf as ppd
    >>> release = ppd.Release(np.array([3, 1, 2]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     x = ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), release=release, marginalize=False)
    ...     idata = pm.sample(50, tune=0, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True,
    ...                       compute_convergence_checks=False)
    >>> coupling_bound(idata, model).steps(0.05) <= 3
    True
    """
    model = pm.modelcontext(model)
    tables = [rv for rv in model.free_RVs if isinstance(rv.owner.op, ConfidentialRV) and rv.name in idata.posterior]
    if len(tables) != 1:
        raise ModelError(f"the posterior must have one sampled confidential table, found {len(tables)}")
    (rv,) = tables
    fiber = rv.owner.op.fiber
    if why := not_coupled(rv, model):
        raise ModelError(why)
    pick, main = np.random.default_rng(rng).spawn(2)
    # conditional distributions of the table at random posterior draws of the parameters
    places = pick.integers([idata.posterior.sizes["chain"], idata.posterior.sizes["draw"]], size=(LAWS, 2))
    by_cell, _ = dependent_factors(rv, model)
    function = of_draws(rv.owner.op.conditional(rv, by_cell), idata.posterior, model)
    laws = [[np.array(part) for part in function((chain, draw))] for chain, draw in places]
    cells, (truncation, variances) = fiber.lower.size, scales_of(rv, model)
    draws = in_model_order(idata.posterior[rv.name], rv.name, model).values.reshape(-1, cells)

    def meeting(lag: int, limit: int, rng: np.random.Generator) -> int:
        law = laws[rng.integers(LAWS)]
        ahead, behind = draws[rng.integers(len(draws), size=2)]
        fiber.require(ahead)
        fiber.require(behind)
        # one step of both chains per draw; the second chain starts `lag` draws later
        each = SWEEPS * cells
        for time in range(1, limit + 1):
            at = (time - 1) % AHEAD * each
            if not at:
                starts, where, steps = directions(fiber, each * AHEAD, rng, variances)
            along = starts[at : at + each + 1], where, steps
            offsets, seed = truncation.draw(rng), rng.integers(2**63)

            # both chains use the same directions, random truncation and uniform numbers
            def next_after(
                table: Whole, along: Directions = along, offsets: Whole | None = offsets, seed: np.int64 = seed
            ) -> Whole:
                lower, width = truncation.around(table, offsets)
                weights = law[0] if offsets is None else truncation.restricted(law[0], lower, width)
                return advance(fiber, table, [weights, *law[1:]], along, np.random.default_rng(seed), lower=lower)

            ahead = next_after(ahead)
            if time > lag:
                behind = next_after(behind)
                if (ahead == behind).all():
                    return time
        return -1

    return tv_bound(meeting, pairs=pairs, limit=limit, rng=main)


def not_coupled(table: TensorVariable, model: pm.Model) -> str | None:
    """Return why chains of a sampled table cannot be coupled, or None."""
    if table.owner.op.observed.likelihood.normaliser is not None:
        return f"chains of {table.name!r} are not coupled: proposals can be rejected for the normalizer of the noise"
    if table.owner.op.fiber.uninformed.any():
        return f"chains of {table.name!r} are not coupled: cells on which nothing published depends are drawn anew"
    if dependent_factors(table, model)[1]:
        return f"chains of {table.name!r} do not meet: proposals can be rejected for a variable of several cells"
    return None
