"""`PartiallyPrivate`: one line that ties a PyMC model for a confidential table to its release."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

import ppdinf.samplers.lattice_gibbs  # noqa: F401  (PyMC learns of the step method here)
from ppdinf._internal.pymc_compat import (
    BetaBinomialRV,
    BinomialRV,
    MissingInputError,
    RandomVariable,
    SymbolicRandomVariable,
    TensorVariable,
    change_dist_size,
    check_dist_not_registered,
)
from ppdinf.distributions.densities.confidential_rv import confidential
from ppdinf.distributions.densities.released_rv import released
from ppdinf.distributions.model_graph.build_fiber import at_initial_point, build_fiber
from ppdinf.distributions.model_graph.dependents import tables_of
from ppdinf.distributions.model_graph.model_hooks import settle
from ppdinf.distributions.model_graph.shared_data import note_data
from ppdinf.distributions.observation.float64 import constant, in_double
from ppdinf.distributions.observation.multinomial_rows import has_rows, require_public_rows
from ppdinf.distributions.observation.observed import Observed
from ppdinf.distributions.observation.observed_measurements import ObservedMeasurements
from ppdinf.distributions.observation.observed_release import ObservedRelease
from ppdinf.errors import ModelError
from ppdinf.laws.likelihood import MixingScale, RemovedShift
from ppdinf.measurements import Measurements
from ppdinf.models.starts import started
from ppdinf.releases import Release
from ppdinf.tables.frame import Frame

__all__ = ["PartiallyPrivate"]

PRIORS: dict[type, Callable[[str, Any], TensorVariable]] = {
    MixingScale: lambda name, scale: started(name, pm.HalfNormal.dist(), scale.typical),
    RemovedShift: lambda name, shift: pm.Laplace(name, 0, 1, shape=shift.directions.shape[1]),
}
"""Variables of the model given which noise is stated."""


def PartiallyPrivate(  # noqa: N802  (reads as a PyMC distribution)
    name: str,
    dist: TensorVariable,
    release: Release | Measurements | Sequence[Release],
    marginalize: bool | str = "auto",
    *,
    dims: str | Sequence[str] | None = None,
) -> TensorVariable:
    """Give the confidential table of a release a distribution, and observe the release.

    The posterior accounts for the noise and for everything public. The distribution is not renormalised
    on the fiber: what the public sums tell about the parameters is counted, once.

    Parameters
    ----------
    name : str
        Name of the confidential table. The observed variable is called ``{name}_release``; l2 noise adds the
        variable ``{name}_noise_scale``, which mixes its Gaussians, projected Laplace noise ``{name}_noise_shift``, what
        the projection removed.
    dist : unnamed PyMC distribution of integers
        Elementwise, such as ``pm.Poisson.dist(rate)``; its parameters broadcast to the shape of the table. Or
        ``pm.Multinomial.dist(n, p)`` and ``pm.DirichletMultinomial.dist(n, a)`` over the last dimension, with n the
        public totals of the rows.
    release : Release, Measurements or sequence of Release
        Of cells, or of answers to a query on them (`SubspaceGaussian` and its kin): the table then has one cell per
        column of the query. Everything published about one table, by whomever: `ppdinf.Measurements`; several
        releases of one table may be given as a list.
    marginalize : {"auto", True, False}
        True: sum the confidential table out exactly, so that NUTS runs on the parameters alone, and let
        `sample_confidential` draw it afterwards; possible where public sums split the cells into groups
        and no bound links cells. False: keep the table as a variable, drawn by
        `ppdinf.samplers.lattice_gibbs.LatticeGibbs`. "auto": sum out where possible.
    dims : str or sequence of str, optional
        For answers, dimensions of the model that the cells have. By default the cells have the shape of `dist`, or are
        a vector where that has not their number.

    Returns
    -------
    TensorVariable
        The confidential table, of the dimensions ``release.dims`` (cells behind answers: `dims`). Whatever is written
        in terms of it enters its law.

    Raises
    ------
    ModelError
        With ``marginalize=True``, something that depends on the table other than cell by cell.
        The distribution is not elementwise over integers, does not fit the shape of the table, or the
        coordinates of the model differ from the labels of the release; ``marginalize=True`` where the
        public statements or the noise do not allow it; `dims` that are not those of the cells; K-norm noise in more
        than 8 dimensions; answers that leave a count without an end; more counts in a window than memory holds.
    InvariantError
        No table in the support of `dist` agrees with what is public.

    Notes
    -----
    Counts further from the released ones than the noise reaches with probability 1e-12 are left out, unless draws of
    the prior say that the data model pulls them there (`ppdinf.distributions.model_graph.truncation`): a window has
    ``width`` of about ``70 / epsilon`` counts. Summed out, a gradient costs about 10 us for 20 cells and 0.7 ms for
    12,000 in 24 groups where the distribution is natural in one parameter (Poisson, binomial, ...), 40 us and 7 ms
    where windows are looked at (docs/speed.md); a draw of the table variable looks at ``d * width`` log densities, and
    noise that couples the cells adds one pass over a window for every row of its norm that a move changes.

    Where noise is wide against the spread of the counts, a table that is a variable and a rate of its own for every
    cell hold each other in place: given one, the other hardly moves, however many sweeps the table gets. 20 cells
    with counts near 8 and extended Laplace noise of scale 8: rates known, the 2,000 draws of the table were as good as
    independent; a log-normal rate per cell left 66 effective ones and 125 divergences (non-centred; centred 23). Leave
    such effects out, as ``pm.NegativeBinomial.dist(mu, alpha)`` does for gamma ones (78, no divergence), and draw
    longer. The curator can spare the analyst this: of projected noise the table can be summed out (279).

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> release = ppd.Release(np.array([3, -1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     rate = pm.Gamma("rate", 2, 1)
    ...     counts = PartiallyPrivate("counts", pm.Poisson.dist(rate), release=release)
    >>> [v.name for v in model.free_RVs], [v.name for v in model.observed_RVs]
    (['rate'], ['counts_release'])

    Answers to a query, two groups of ages that overlap: the cells are a variable of the model.

    >>> groups = np.array([[1, 1, 0], [0, 1, 1]])
    >>> ages = ppd.KNorm(ppd.invariants.total(), epsilon=1, query=groups)
    >>> release = ages.release(np.array([2, 3, 3]))
    >>> with pm.Model(coords={**release.coords, "age": ["0-17", "18-64", "65+"]}) as model:
    ...     counts = PartiallyPrivate("counts", pm.Poisson.dist(2.0), release=release, dims="age")
    >>> model.named_vars_to_dims
    {'counts': ('age',), 'counts_release': ('answer',)}
    """
    model = pm.modelcontext(None)
    root = model.root
    if isinstance(release, list | tuple):
        release = Measurements.of_releases(release)
    if not isinstance(release, Release | Measurements):
        raise ModelError(f"release must be a ppdinf Release or Measurements, found {type(release).__name__}")
    if marginalize not in ("auto", True, False):
        raise ModelError(f"marginalize must be 'auto', True or False, found {marginalize!r}")
    if model.name_for(name) in model.named_vars:
        raise ModelError(f"the model has a variable {name!r} already: choose another name for the table")
    for table in tables_of(root):
        if _releases_of(table.law.observed.published) & _releases_of(release):
            raise ModelError(f"the release is in the model already, as that of {table.name!r}: it counts once")
    _match_coords(model, release)
    frame, dims = _cells(model, dist, release, dims if dims is None or isinstance(dims, list | tuple) else (dims,))
    observed = ObservedMeasurements(release) if isinstance(release, Measurements) else ObservedRelease(release, frame)
    base = in_double(_fit_to_table(dist, observed), root)
    _refuse_counted_twice(root, base, observed)
    above = settle(model, base, name)
    hindered = f"its distribution depends on the table {above[0]!r}" if above else observed.why_not_marginalizable
    if marginalize is True and hindered:
        raise ModelError(f"the confidential table cannot be summed out: {hindered}; use marginalize='auto'")
    summed_out = bool(marginalize) and not hindered
    fiber, start = build_fiber(root, base, observed, gaps=summed_out)
    auxiliary = None
    if (variable := observed.likelihood.auxiliary) is not None:
        auxiliary = PRIORS[type(variable)](f"{name}_{variable.name}", variable)
    table = confidential(base, observed, fiber, start, auxiliary)
    table.name = model.name_for(name)
    note_data(table, root)
    table.owner.op.dims, table.owner.op.is_kept_out = dims, marginalize is True
    if not summed_out:
        model.register_rv(table, name, dims=dims)
    noisy = released(table, observed, auxiliary)
    noisy_dims = release.dims if isinstance(release, Release) else None
    # PyMC casts whole numbers to 32 bits on their way to an observed variable, real ones not
    published = observed.noisy.values.astype(np.float64)
    model.register_rv(noisy, f"{name}_release", observed=published, dims=noisy_dims)
    return table


def _releases_of(published: Release | Measurements) -> set[int]:
    """Identities of what was published."""
    return set(map(id, published.releases or [published])) if isinstance(published, Measurements) else {id(published)}


def _refuse_counted_twice(model: pm.Model, base: TensorVariable, observed: Observed) -> None:
    """Refuse shares of a public total that are modelled one by one: given the total, one tells of the others."""
    op = base.owner.op
    if not isinstance(op, BinomialRV | BetaBinomialRV):
        return
    n, *parameters = op.dist_params(base.owner)
    size, system, frame = constant(n), observed.system, observed.frame
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
                    f"the public sum {name!r} is the n of every one of its cells, whose shares add up to 1: one by one "
                    "they would be counted once too often. Give the cells of a row together, pm.Multinomial.dist(n, p) "
                    "or pm.DirichletMultinomial.dist(n, a) over the last dimension; for two categories with a logistic "
                    "model q = pm.math.invlogit(...), p = pm.math.stack([q, 1 - q], axis=-1)"
                )


def _match_coords(model: pm.Model, release: Release | Measurements) -> None:
    for dim, labels in release.coords.items():
        known = model.coords.get(dim)
        if known is None:
            model.add_coord(dim, labels)
        elif list(known) != list(labels):
            raise ModelError(
                f"the model's coordinate {dim!r} differs from the release's labels: build the model with "
                "pm.Model(coords=release.coords) so that every rate meets its own count"
            )


def _cells(
    model: pm.Model, dist: TensorVariable, release: Release | Measurements, dims: Sequence[str] | None
) -> tuple[Frame, Sequence[str] | None]:
    """Frame of the confidential cells, and their dimensions in the model."""
    query = release.likelihood.query if isinstance(release, Release) else None
    if query is None:
        if dims is not None and tuple(dims) != release.dims:
            raise ModelError(f"the release has dimensions {release.dims}, and so has the table: leave dims out")
        return release.frame, release.dims
    d = query.shape[1]
    if dims is None:
        static = getattr(getattr(dist, "type", None), "shape", ())
        shape = static if None not in static and math.prod(static) == d and static else (d,)
        return Frame.of(xr.DataArray(np.zeros(shape), dims=[f"cell_{k}" for k in range(len(shape))])), None
    if not all(isinstance(dim, str) for dim in dims) or len(set(dims)) < len(dims):
        raise ModelError(f"dims must be names of dimensions, each once, found {dims!r}")
    unknown = [dim for dim in dims if model.coords.get(dim) is None]
    if unknown:
        raise ModelError(f"the model has no coordinate {unknown[0]!r}: give its labels, pm.Model(coords=...)")
    coords = {dim: list(model.coords[dim]) for dim in dims}
    if math.prod(map(len, coords.values())) != d:
        sizes = {dim: len(labels) for dim, labels in coords.items()}
        raise ModelError(f"the query has one column for each of {d} cells, the dimensions have sizes {sizes}")
    return Frame.of(xr.DataArray(np.zeros([len(labels) for labels in coords.values()]), coords=coords)), tuple(dims)


def _fit_to_table(dist: TensorVariable, observed: Observed) -> TensorVariable:
    frame = observed.frame
    op = getattr(getattr(dist, "owner", None), "op", None)
    if op is None or not hasattr(op, "ndim_supp"):
        raise ModelError("dist must be an unnamed PyMC distribution such as pm.Poisson.dist(rate)")
    check_dist_not_registered(dist)
    if has_rows(dist):
        require_public_rows(dist, observed.system)
        return change_dist_size(dist, frame.shape[:-1])
    if op.ndim_supp != 0 or not dist.dtype.startswith(("int", "uint")):
        raise ModelError(
            f"the cells need an elementwise distribution over integers, found {op} over {dist.dtype} "
            f"with {op.ndim_supp} support dimensions"
        )
    static = dist.type.shape
    if None in static and isinstance(op, SymbolicRandomVariable):  # as of truncated distributions
        with contextlib.suppress(MissingInputError):
            static = tuple(map(int, dist.shape.eval(mode="FAST_COMPILE")))
    fits = len(static) <= len(frame.shape) and all(
        have in (None, 1, want) for have, want in zip(static[::-1], frame.shape[::-1], strict=False)
    )
    if not fits:
        sizes = dict(zip(frame.dims, frame.shape, strict=True))
        raise ModelError(f"the distribution has shape {static}, the table has {sizes}")
    return change_dist_size(_with_known_lengths(dist, frame.shape), frame.shape)


def _with_known_lengths(dist: TensorVariable, shape: tuple[int, ...]) -> TensorVariable:
    """State the lengths of parameters that are known to be 1: along axes of which the table has a single label."""
    op = dist.owner.op
    if not isinstance(op, RandomVariable):
        return dist
    rng, size = dist.owner.inputs[:2]
    parameters = []
    for parameter in op.dist_params(dist.owner):
        static = parameter.type.shape
        wanted = shape[len(shape) - len(static) :]
        lengths = [1 if n is None and m == 1 else n for n, m in zip(static, wanted, strict=True)]
        parameters.append(parameter if tuple(lengths) == static else pt.specify_shape(parameter, lengths))
    return op.make_node(rng, size, *parameters).default_output()
