"""How many draws a confidential table takes to forget where it was: a bound on the distance of its chain from its law.

Given the parameters, `ppdinf.samplers.lattice_gibbs` is a Markov chain on the fiber. Two such chains that walk along
the same directions and read the same uniform numbers move to common quantiles of their lines; the number of draws until
they agree bounds the total variation between the chain and the law of the table (`ppdinf.noise.mcmc.tv_bound`).
A pair starts from two tables of the posterior, drawn independently, so that a chain stuck in a part of the fiber shows:
it does not meet one that is stuck elsewhere. Where many sums cross, as in tables of 6 x 6 with both margins public and
wide noise, chains that mix well need not meet: there is no bound then, and no verdict either.

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
from ppdinf.distributions.model_graph.dependents import factors_of
from ppdinf.errors import ModelError
from ppdinf.fiber.gibbs.dispatch import Directions, advance, directions
from ppdinf.fiber.gibbs.random_windows import Whole
from ppdinf.models.posterior_tables import of_draws
from ppdinf.noise.mcmc.tv_bound import TVBound, tv_bound
from ppdinf.samplers.lattice_gibbs import SWEEPS, scales_of

__all__ = ["coupling_bound", "not_coupled"]

LAWS = 16  # posterior draws of the parameters among which pairs choose theirs
AHEAD = 8  # draws whose directions are drawn together


def coupling_bound(
    idata: xr.DataTree,
    model: pm.Model | None = None,
    *,
    pairs: int = 200,
    limit: int = 500,
    rng: int | np.random.Generator = 0,
) -> TVBound:
    """Bound the distance between the table after t draws and its law given the parameters, by coupled chains.

    Parameters
    ----------
    idata : xarray.DataTree
        What `pm.sample` returned for `model`.
    model : pymc.Model, optional
        The model, when not in its context. It holds one `PartiallyPrivate` table that is not summed out.
    pairs : int
        Of chains. The 95 % upper limit cannot fall much below ``3 / pairs``.
    limit : int
        Draws after which a pair is given up.
    rng : int or numpy.random.Generator

    Returns
    -------
    TVBound
        Its steps are draws of `LatticeGibbs` with its own number of sweeps. The bound is on the mean over 16 posterior
        draws of the parameters, and speaks of the table given them, not of how the parameters mix.

    Raises
    ------
    ModelError
        No such table, or a mechanism whose normaliser depends on the table.
    InvariantError
        Draws that are not of this model: they break a public sum, or lie out of the noise's reach.

    Notes
    -----
    Compiles one function, some seconds; a pair costs twice its meeting time in draws: half a second in all for
    20 cells with a public total, which meet within some 20 draws. Holds 16 tables of log weights, each of d x width.

    Examples
    --------
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
        raise ModelError(f"the posterior holds {len(tables)} confidential tables that were walked, expected one")
    (rv,) = tables
    fiber = rv.owner.op.fiber
    if why := not_coupled(rv, model):
        raise ModelError(why)
    pick, main = np.random.default_rng(rng).spawn(2)
    places = pick.integers([idata.posterior.sizes["chain"], idata.posterior.sizes["draw"]], size=(LAWS, 2))
    by_cell, _ = factors_of(rv, model)
    function = of_draws(rv.owner.op.conditional(rv, by_cell), idata.posterior, model)
    laws = [[np.array(part) for part in function((chain, draw))] for chain, draw in places]
    cells, (cuts, variances) = fiber.lower.size, scales_of(rv, model)
    draws = idata.posterior[rv.name].transpose("chain", "draw", ...).values.reshape(-1, cells)

    def meeting(lag: int, limit: int, rng: np.random.Generator) -> int:
        law = laws[rng.integers(LAWS)]
        ahead, behind = draws[rng.integers(len(draws), size=2)]
        fiber.require(ahead)
        fiber.require(behind)
        each = SWEEPS * cells
        for time in range(1, limit + 1):
            at = (time - 1) % AHEAD * each
            if not at:
                starts, where, steps = directions(fiber, each * AHEAD, rng, variances)
            along, cut, seed = (starts[at : at + each + 1], where, steps), cuts.draw(rng), rng.integers(2**63)

            def next_after(
                table: Whole, along: Directions = along, cut: Whole | None = cut, seed: np.int64 = seed
            ) -> Whole:
                lower, width = cuts.around(table, cut)
                weights = law[0] if cut is None else cuts.piece(law[0], lower, width)
                return advance(fiber, table, [weights, *law[1:]], along, np.random.default_rng(seed), lower=lower)

            ahead = next_after(ahead)
            if time > lag:
                behind = next_after(behind)
                if (ahead == behind).all():
                    return time
        return -1

    return tv_bound(meeting, pairs=pairs, limit=limit, rng=main)


def not_coupled(table: TensorVariable, model: pm.Model) -> str | None:
    """Say why walks of a table that is a variable of a model cannot be coupled: something refuses them, or None."""
    if table.owner.op.observed.likelihood.normaliser is not None:
        return f"walks of {table.name!r} can be refused, for the normaliser of its noise: they are not coupled"
    if table.owner.op.fiber.uninformed.any():
        return (
            f"cells of {table.name!r} that nothing published depends on are drawn anew: walks of them are not coupled"
        )
    if factors_of(table, model)[1]:
        return f"something depends on several cells of {table.name!r} at once: walks that it refuses do not meet"
    return None
