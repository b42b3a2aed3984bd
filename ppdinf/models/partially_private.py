"""`PartiallyPrivate`, `ConstrainedCounts` and `Released`: confidential tables in PyMC models."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

import ppdinf.models.pymc_after_sampling
import ppdinf.samplers.lattice_gibbs  # noqa: F401  (registers the step method with PyMC)
from ppdinf._internal.pymc_compat import TensorVariable, Variable
from ppdinf.distributions.build_fiber import build_fiber
from ppdinf.distributions.confidential_rv import confidential
from ppdinf.distributions.data_model_checks import cells_of_table
from ppdinf.distributions.data_models import as_distribution
from ppdinf.distributions.marginalization import is_marginalized, restart_above
from ppdinf.distributions.observed import ObservedRelease
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.distributions.random_variables import Labels, mechanism_dist, released
from ppdinf.distributions.tables import note_data, refuse_second_use
from ppdinf.distributions.windows import DataModel, choose
from ppdinf.errors import ModelError
from ppdinf.invariants import System
from ppdinf.laws.likelihood import MixingScale, RemovedShift
from ppdinf.laws.preimage import PreimageShift
from ppdinf.laws.unknown_scale import NoiseScales
from ppdinf.measurements import Measurements
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.models.starts import add_with_start
from ppdinf.releases import Release
from ppdinf.tables.frame import Frame
from ppdinf.tables.table import TableLike, reals_of
from ppdinf.tables.totals import all_labels

PRIORS: dict[type, Callable[[str, Any], TensorVariable]] = {
    MixingScale: lambda name, scale: add_with_start(name, pm.HalfNormal.dist(), scale.typical),
    PreimageShift: lambda name, shift: pm.DiscreteUniform(name, -shift.largest, shift.largest),
    NoiseScales: lambda name, scales: pt.stack([x.astype("float64") for x in scales.variables]),
    RemovedShift: lambda name, shift: pm.Laplace(name, 0, 1, shape=shift.directions.shape[1]),
}
"""Auxiliary variables of the model, given which the noise distribution is stated."""


def PartiallyPrivate(  # noqa: N802  (reads as a PyMC distribution)
    name: str,
    dist: TensorVariable,
    release: Release | Measurements | Sequence[Release],
    marginalize: bool | str = "auto",
    *,
    dims: str | Sequence[str] | None = None,
) -> TensorVariable:
    """Give the confidential table of a release a distribution, and observe the release.

    The posterior accounts for the noise and for everything public. The distribution is not renormalized on the fiber,
    so the public sums inform the parameters exactly once.

    Parameters
    ----------
    name : str
        Name of the confidential table. The observed variable is ``{name}_release``. l2 noise adds the variable
        ``{name}_noise_scale``, the scale of its Gaussian mixture. Projected Laplace noise adds ``{name}_noise_shift``,
        the component of the noise that the projection removed.
    dist : unnamed PyMC distribution of integers
        An elementwise distribution such as ``pm.Poisson.dist(rate)``, whose parameters broadcast to the shape of the
        table. Alternatively ``pm.Multinomial.dist(n, p)`` or ``pm.DirichletMultinomial.dist(n, a)`` over the last
        dimension, where n are the public totals of the rows.
    release : Release, Measurements or sequence of Release
        A release of cells, or of linear queries on them (`SubspaceGaussian` and similar mechanisms): the table then has
        one cell per column of the query. `ppdinf.Measurements` holds everything published about one table by any
        agency. Give several releases of one table as a list.
    marginalize : {"auto", True, False}
        True: marginalize the confidential table exactly, so that NUTS samples only the parameters;
        `sample_confidential` then draws the table. This requires sums that do not cross after the elimination of
        cells that exact sums determine, and no bound that links cells. False: keep the table as a variable, sampled by
        `ppdinf.samplers.lattice_gibbs.LatticeGibbs`. "auto": marginalize where possible.
    dims : str or sequence of str, optional
        For linear queries, dimensions of the cells in the model. By default the cells have the shape of `dist`. If
        `dist` has another number of elements, the cells are a vector.

    Returns
    -------
    TensorVariable
        The confidential table with the dimensions ``release.dims`` (for linear queries: `dims`). Variables that are
        computed from the table enter its posterior.

    Raises
    ------
    ModelError
        `dist` is not elementwise over integers or does not fit the shape of the table; the coordinates of the model
        differ from the labels of the release; `dims` are not those of the cells. The release, a copy or a part of it is
        already in the model. A parameter with named dimensions has one of them along another dimension of the table
        that has other labels (dimensions with equal labels match by position). With ``marginalize=True``, the public
        statements or the noise do not permit it, or a variable does not depend on the table cell by cell. K-norm noise
        has more than 8 dimensions, a query leaves a count unbounded, or a window exceeds the memory.
    InvariantError
        No table in the support of `dist` satisfies everything public.

    See Also
    --------
    ppdinf.sample_confidential, ppdinf.diagnose, ppdinf.denoise, ppdinf.models.Released

    Notes
    -----
    Counts are truncated to a window of about ``70 / epsilon`` counts. Its complement has noise probability below 1e-12,
    unless draws of the prior show that the data model or the data of a dependent favour counts further away
    (`ppdinf.distributions.windows`). docs/speed.md states the cost of a gradient and of a draw.

    A sampled table mixes slowly with one rate per cell where the noise is wide compared with the spread of the counts.
    Integrate such effects out, as ``pm.NegativeBinomial.dist(mu, alpha)`` does for gamma rates (docs/inference.md).

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> release = ppd.Release(np.array([3, -1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     rate = pm.Gamma("rate", 2, 1)
    ...     counts = ppd.PartiallyPrivate("counts", pm.Poisson.dist(rate), release=release)
    >>> [v.name for v in model.free_RVs], [v.name for v in model.observed_RVs]
    (['rate'], ['counts_release'])
    """
    model = pm.modelcontext(None)
    root = model.root
    if isinstance(release, list | tuple):
        release = Measurements.of_releases(release)
    if not isinstance(release, Release | Measurements):
        way_out = ": numbers of pm.Data are observed by ppdinf.models.Released" if isinstance(release, Variable) else ""
        raise ModelError(f"release must be a ppdinf Release or Measurements, found {type(release).__name__}{way_out}")
    if marginalize not in ("auto", True, False):
        raise ModelError(f"marginalize must be 'auto', True or False, found {marginalize!r}")
    if model.name_for(name) in model.named_vars:
        raise ModelError(f"the model already has a variable {name!r}: choose another name for the table")
    # 1. what is observed
    refuse_second_use(release, root)
    _match_coords(model, release)
    frame, dims = _cells(model, dist, release, dims if dims is None or isinstance(dims, list | tuple) else (dims,))
    dist = as_distribution(dist, dims or release.dims, root)
    observed = (
        ObservedMeasurements(release, learns_scales=True)
        if isinstance(release, Measurements)
        else ObservedRelease(release, frame)
    )
    # 2. the distribution of the cells, and whether the table is summed out
    base = cells_of_table(dist, observed, dims or (), root)
    marginalized = is_marginalized(marginalize, observed, base, model, name)
    # 3. windows of counts
    restart_above(base, observed, root)
    data_model = DataModel(root, base, observed.frame.shape)
    windows = choose(observed, data_model)
    # 4. weights of counts, moves, and an initial table
    fiber, start = build_fiber(observed, data_model, windows, gaps=marginalized)
    # 5. variables of the model: auxiliary variable of the noise, table, release
    auxiliary = None
    if (variable := observed.likelihood.auxiliary) is not None:
        auxiliary = PRIORS[type(variable)](f"{name}_{variable.name}", variable)
    table = confidential(base, observed, fiber, start, auxiliary)
    table.name = model.name_for(name)
    table.owner.op.dims, table.owner.op.is_kept_out = dims, marginalize is True
    noisy = released(table, observed, auxiliary)
    note_data(table, root, dependents=())
    if not marginalized:
        model.register_rv(table, name, dims=dims)
    noisy_dims = release.dims if isinstance(release, Release) else None
    # PyMC casts integers to 32 bits on their way to an observed variable, but not real numbers
    published = observed.noisy.values.astype(np.float64)
    model.register_rv(noisy, f"{name}_release", observed=published, dims=noisy_dims)
    return table


def _match_coords(model: pm.Model, release: Release | Measurements) -> None:
    for dim, labels in release.coords.items():
        known = model.coords.get(dim)
        if known is None:
            model.add_coord(dim, labels)
        elif list(known) != list(labels):
            raise ModelError(
                f"the model's coordinate {dim!r} differs from the release's labels: build the model with "
                "pm.Model(coords=release.coords) so that rates and counts have the same labels"
            )


def _cells(
    model: pm.Model, dist: TensorVariable, release: Release | Measurements, dims: Sequence[str] | None
) -> tuple[Frame, Sequence[str] | None]:
    """Return the frame of the confidential cells and their dimensions in the model."""
    query = release.likelihood.query if isinstance(release, Release) else None
    if query is None:
        if dims is not None and tuple(dims) != release.dims:
            raise ModelError(f"the table has the dimensions {release.dims} of the release: omit dims")
        return release.frame, release.dims
    d = query.shape[1]
    if dims is None:
        static = getattr(getattr(dist, "type", None), "shape", ())
        shape = static if None not in static and math.prod(static) == d and static else (d,)
        return Frame.of(xr.DataArray(np.zeros(shape), dims=[f"cell_{k}" for k in range(len(shape))])), None
    if not all(isinstance(dim, str) for dim in dims) or len(set(dims)) < len(dims):
        raise ModelError(f"dims must be distinct names of dimensions, found {dims!r}")
    unknown = [dim for dim in dims if model.coords.get(dim) is None]
    if unknown:
        raise ModelError(f"the model has no coordinate {unknown[0]!r}: pass its labels, pm.Model(coords=...)")
    coords = {dim: list(model.coords[dim]) for dim in dims}
    if math.prod(map(len, coords.values())) != d:
        sizes = {dim: len(labels) for dim, labels in coords.items()}
        raise ModelError(f"the query has one column for each of {d} cells, but the dimensions have sizes {sizes}")
    return Frame.of(xr.DataArray(np.zeros([len(labels) for labels in coords.values()]), coords=coords)), tuple(dims)


def ConstrainedCounts(  # noqa: N802  (reads as a PyMC distribution)
    name: str,
    dist: TensorVariable,
    public: System,
    marginalize: bool | str = "auto",
    *,
    dims: str | Sequence[str] | None = None,
) -> TensorVariable:
    """Give a distribution to an integer table of which only exact sums are public.

    Examples are contingency tables with fixed margins, voters by group and party (ecological inference), and counts
    behind totals. PyMC has no sampler for latent integers with a given sum. The model also contains an observed
    variable ``{name}_release`` with no elements, which represents the sums.

    Parameters
    ----------
    name : str
        Name of the table.
    dist : unnamed PyMC distribution of integers
        As for `ppdinf.PartiallyPrivate`. It is not renormalized on the sums, so the sums inform its parameters.
    public : System
        Statements bound to labels and values: ``public.on(table, values=...)``.
    marginalize : {"auto", True, False}
        As for `ppdinf.PartiallyPrivate`: with nested sums, also after elimination of determined cells, the table is
        marginalized, otherwise it is sampled.
    dims : str or sequence of str, optional
        Dimensions of the table in the model.

    Returns
    -------
    TensorVariable
        The confidential table.

    Raises
    ------
    ModelError
        `public` is not bound to values, neither the sums nor the prior bound some cell, or
        `ppdinf.PartiallyPrivate` raises the error.
    InvariantError
        No table in the support of `dist` has the stated sums.

    See Also
    --------
    ppdinf.PartiallyPrivate, ppdinf.samplers.LatticeGibbs

    Examples
    --------
    Two groups, two outcomes, both margins known: given the odds ratio, a cell is noncentral hypergeometric (Fisher).

    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> margins = ppd.invariants.margin("group") & ppd.invariants.margin("answer")
    >>> labels = ppd.as_table(np.zeros((2, 2), dtype=int), dims=("group", "answer"))
    >>> public = margins.on(labels, values=[3, 4, 2, 5])
    >>> with pm.Model(coords={"group": [0, 1], "answer": [0, 1]}) as model:
    ...     odds = pm.Poisson.dist(np.array([[3.0, 1.0], [1.0, 1.0]]))
    ...     voters = ppd.models.ConstrainedCounts("voters", odds, public, marginalize=False)
    ...     idata = pm.sample(50, tune=0, chains=1, random_seed=1, progressbar=False, quiet=True,
    ...                       compute_convergence_checks=False)
    >>> idata.posterior.voters.sum("answer").values[0, -1].tolist()
    [3, 4]
    """
    if not isinstance(public, System):
        raise ModelError("public must be bound to its values: pass public.on(table, values=...)")
    labels = public.frame.table(np.zeros(public.frame.size, dtype=np.int64))
    seen = Measurements(labels, public=public, not_totals=list(all_labels(public.frame)))
    return PartiallyPrivate(name, dist, seen, marginalize, dims=dims)


def Released(  # noqa: N802  (reads as a PyMC distribution)
    name: str,
    mechanism: TableMechanism,
    table: TensorVariable,
    observed: TableLike | TensorVariable | None = None,
    *,
    labels: Labels | None = None,
    dims: str | Sequence[str] | None = None,
) -> TensorVariable:
    """Add the release of a table to the model, ``mechanism.dist(table)``, observed or free.

    The generative form of `ppdinf.PartiallyPrivate`: a model of tables, then the mechanism. Prior predictive draws
    contain releases, and `pm.observe` and `pm.do` apply to them. The published release can be observed at once. The
    posterior is the same. Within the context of the model, PyMC assigns
    `ppdinf.samplers.lattice_gibbs.LatticeGibbs` to the table.

    Parameters
    ----------
    name : str
    mechanism : TableMechanism
        A mechanism that releases cells, such as `ppdinf.GeneralizedLaplace`.
    table : TensorVariable of integers
        A variable of the model with any integer distribution, including `pm.Multinomial` with a constant n.
    observed : table or pymc.Data, optional
        The published release. Labels of DataArrays, Series and DataFrames are compared with those of the table; an
        array must have the table's shape. Numbers of `pymc.Data` can be replaced by `pymc.set_data`.
    labels : mapping of str to sequence, or a table, optional
        As for `TableMechanism.dist`.
    dims : str or sequence of str, optional
        Dimensions of the release in the model.

    Raises
    ------
    LabelError, InvariantError, ModelError
        As for `TableMechanism.dist`, or the observed table has another shape or other labels.

    See Also
    --------
    ppdinf.PartiallyPrivate

    Examples
    --------
    >>> from ppdinf.models import Released
    >>> import pymc as pm, ppdinf as ppd
    >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4")
    >>> with pm.Model(coords={"county": list("ABC")}) as model:
    ...     cases = pm.Poisson("cases", 4.0, dims="county")
    ...     release = Released("release", mechanism, cases, observed=[9, -1, 3])
    ...     idata = pm.sample(20, tune=0, chains=1, random_seed=1, progressbar=False, quiet=True,
    ...                       compute_convergence_checks=False)
    >>> set(idata.posterior.cases.sum("county").values.ravel().tolist())
    {11}
    """
    model = pm.modelcontext(None)
    release = mechanism_dist(mechanism, table, labels)
    given = None
    if isinstance(observed, Variable):
        given = observed
    elif observed is not None:
        # PyMC casts integers to 32 bits on their way to an observed variable
        given = reals_of(observed, release.owner.op.law.frame, "the observed release")
    return model.register_rv(release, name, observed=given, dims=dims)
