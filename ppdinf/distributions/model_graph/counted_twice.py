"""Independent models of the shares of a public total, which would count the total more than once."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from ppdinf._internal.pymc_compat import BetaBinomialRV, BinomialRV, TensorVariable
from ppdinf.distributions.model_graph.build_fiber import at_initial_point
from ppdinf.distributions.model_graph.latent_tables import known
from ppdinf.distributions.observation.observed import Observed
from ppdinf.errors import ModelError


def refuse_counted_twice(model: pm.Model, base: TensorVariable, observed: Observed) -> None:
    """Refuse independent models of the shares of a public total: given the total, one share determines the others."""
    op = base.owner.op
    if not isinstance(op, BinomialRV | BetaBinomialRV):
        return
    n, *parameters = op.dist_params(base.owner)
    size, system, frame = known(n), observed.system, observed.frame
    if size is None:
        return
    size = np.broadcast_to(size, frame.shape).ravel()
    share = parameters[0] if isinstance(op, BinomialRV) else parameters[0] / (parameters[0] + parameters[1])
    for row, (name, total) in enumerate(zip(system.names, system.values, strict=True)):
        among = slice(*system.A.indptr[row : row + 2])
        cells = system.A.indices[among]
        if cells.size > 1 and (system.A.data[among] == 1).all() and (size[cells] == total).all():
            shares = pt.broadcast_to(share, frame.shape).ravel()[cells].sum()
            if all(np.isclose(at_initial_point(model, shares, shift), 1) for shift in (0.0, 0.5)):
                raise ModelError(
                    f"the public sum {name!r} is the n of every one of its cells, whose shares sum to 1: modelled "
                    "independently, the sum would be counted more than once. Model the cells of a row jointly by "
                    "pm.Multinomial.dist(n, p) or pm.DirichletMultinomial.dist(n, a) over the last dimension; for two "
                    "categories with q = pm.math.invlogit(...) use p = pm.math.stack([q, 1 - q], axis=-1)"
                )
