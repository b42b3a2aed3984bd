"""How ways of publishing and of reading a table compare: bias, error, coverage and width over simulated releases."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

import joblib
import numpy as np
import pymc as pm
import xarray as xr
from rich.progress import track

from ppdinf._internal.types import Array
from ppdinf.errors import LabelError, ModelError
from ppdinf.mechanisms.counting_queries import answer
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.models.posterior_tables import sample_confidential
from ppdinf.releases import Release
from ppdinf.tables.table import TableLike, as_table

__all__ = ["compare"]

Analysis = Callable[[Release], xr.DataArray | pm.Model]
type Job = tuple[Release, Analysis, str | None, float, int]
type Reading = tuple[xr.DataArray, xr.DataArray, xr.DataArray, str]
SAMPLE = ("chain", "draw")
NO_LAW = "none: the law of the noise depends on the counts or is not known"
NOISE_DRAWS = 4000  # from which the quantiles of a mechanism's own noise are read
SAMPLING = {"draws": 500, "tune": 500, "chains": 2, "cores": 1, "progressbar": False, "quiet": True}


def compare(
    methods: Mapping[str, TableMechanism | tuple[TableMechanism, Analysis]],
    table: TableLike,
    *,
    draws: int = 1000,
    estimand: str | None = None,
    truth: xr.DataArray | None = None,
    interval: float = 0.9,
    rng: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Release a table many times by each method, read each release, and compare with the truth.

    Parameters
    ----------
    methods : mapping of name to mechanism or (mechanism, analysis)
        A mechanism alone is read as an estimate with the error of its noise: the noisy table, and intervals
        by quantiles of the noise. There are no intervals where users cannot compute these quantiles from the
        published values alone: the law of the noise depends on the confidential counts, or is not known (public
        bounds, matrices, post-processing). An analysis takes a `Release` and returns either the table that it
        takes for the confidential one, without doubt (the functions of `ppdinf.models.comparators`), or a
        `pymc.Model`, whose posterior is drawn by `pm.sample`.
    table : xarray.DataArray, pandas object or numpy.ndarray of counts
        Research only: what comes out depends on it.
    draws : int, default 1000
        Releases by each method. Methods with one mechanism read the same releases.
    estimand : str, optional
        Variable of the models to compare; the confidential table, by `sample_confidential`, when omitted.
    truth : xarray.DataArray, optional
        True value of the estimand; `table` when omitted.
    interval : float, default 0.9
        Probability of the central intervals.
    rng : int or numpy.random.Generator, optional
    progressbar : bool, default True

    Returns
    -------
    xarray.Dataset, dimensions ``("analysis", *truth.dims)``
        ``bias`` (mean of estimate minus truth; its standard error is at most ``rmse / sqrt(draws)``), ``rmse``,
        ``coverage`` and ``width`` of the intervals, nan where a method has no interval; and ``intervals``, with the
        dimension ``"analysis"`` alone: how the intervals were computed, or why there are none. ``.to_dataframe()``
        gives one row per analysis and cell.

    Raises
    ------
    ModelError
        `interval` is not between 0 and 1, there is no release to read, or an analysis returns something else.
    LabelError
        An estimate has other dimensions or labels than the truth. Their order does not matter: cells are matched by
        name and label.

    Notes
    -----
    Models are fitted on all cores, one release each; seconds per release. Everything else runs in one
    process: about a thousand releases per second, a hundred where each is projected.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> from ppdinf.models.comparators import clipped
    >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/2")
    >>> methods = {"conditioned": mechanism, "clipped": (mechanism, clipped)}
    >>> found = compare(methods, np.array([0, 1, 30]), draws=500, rng=1, progressbar=False)
    >>> found["bias"].sel(analysis="clipped").values.round(1)
    array([0.5, 0.3, 0.1])
    >>> bool((found["coverage"].sel(analysis="clipped") < 0.8).all())
    True
    >>> bool((found["coverage"].sel(analysis="conditioned") > 0.88).all())
    True
    >>> found["intervals"].values.tolist()
    ['quantiles of the noise', 'none: the estimate is taken for the truth']
    """
    if not 0 < interval < 1:
        raise ModelError(f"interval must be a probability between 0 and 1, found {interval!r}")
    if not methods or draws < 1:
        raise ModelError("nothing to compare: give at least one method and one draw")
    table = as_table(table)
    truth = table if truth is None else truth
    noise_seed, *seeds = np.random.default_rng(rng).integers(2**31, size=draws + 1).tolist()
    rows, intervals = [], []
    for name, method in methods.items():
        mechanism, analysis = method if isinstance(method, tuple) else (method, None)
        noisy = mechanism.simulate(table, draws=draws, rng=noise_seed)
        if analysis is None:
            ends, how = _noise_ends(mechanism, table, interval, noise_seed + 1)
            parts = [noisy, *(noisy - end for end in ends)]
            readings = np.stack([_aligned(name, part, truth) for part in parts])
        else:
            jobs = [(Release(y, mechanism), analysis, estimand, interval, k) for y, k in zip(noisy, seeds, strict=True)]
            done = list(track(_results(jobs), name, draws, disable=not progressbar, transient=True))
            readings = np.stack([[_aligned(name, part, truth) for part in reading[:3]] for reading in done], axis=1)
            how = done[0][3]
        rows.append(_scores(readings, truth))
        intervals.append(how)
    return xr.concat(rows, xr.Variable("analysis", list(methods))).assign(intervals=("analysis", intervals))


def _noise_ends(
    mechanism: TableMechanism, table: xr.DataArray, interval: float, seed: int
) -> tuple[Sequence[xr.DataArray | float], str]:
    """Return what to subtract from a noisy table for the lower and the upper end, and how these were computed."""
    if not mechanism.has_public_noise_law(table):
        return [np.nan, np.nan], NO_LAW
    noise = mechanism.simulate(table, draws=NOISE_DRAWS, rng=seed) - answer(mechanism.queries, table)
    ends = [noise.quantile(q, "draw", method="inverted_cdf") for q in reversed(_tails(interval))]
    return ends, "quantiles of the noise"


def _tails(interval: float) -> tuple[float, float]:
    return (1 - interval) / 2, (1 + interval) / 2


def _results(jobs: list[Job]) -> Iterator[Reading]:
    """Read each release; on all cores where reading means to sample a posterior."""
    if isinstance(jobs[0][1](jobs[0][0]), pm.Model):
        return joblib.Parallel(n_jobs=-1, return_as="generator")(joblib.delayed(_read)(*job) for job in jobs)
    return (_read(*job) for job in jobs)


def _read(release: Release, analysis: Analysis, estimand: str | None, interval: float, seed: int) -> Reading:
    """Return the estimate, the lower and the upper end of the interval, and how the interval was computed."""
    found = analysis(release)
    if isinstance(found, xr.DataArray):
        return found, found, found, "none: the estimate is taken for the truth"
    if not isinstance(found, pm.Model):
        raise ModelError(f"an analysis returns a DataArray or a pymc.Model, found {type(found).__name__}")
    with found:
        idata = pm.sample(**SAMPLING, random_seed=seed, compute_convergence_checks=False)
    table = estimand is None
    posterior = sample_confidential(idata, found, random_seed=seed) if table else idata.posterior[estimand]
    low, high = (posterior.quantile(q, SAMPLE).drop_vars("quantile") for q in _tails(interval))
    return posterior.mean(SAMPLE), low, high, "quantiles of the posterior"


def _aligned(name: str, estimate: xr.DataArray, truth: xr.DataArray) -> Array:
    """Return estimates in the order of the dimensions and labels of the truth, after draws if there are any."""
    places = {dim: _places(estimate, truth, dim) for dim in truth.dims if dim in estimate.dims}
    unmatched = [dim for dim, place in places.items() if place is None]
    if set(places) != set(truth.dims) or set(estimate.dims) - set(truth.dims) - {"draw"} or unmatched:
        raise LabelError(
            f"{name!r} estimates a table over {estimate.dims}, the truth is one over {truth.dims}: dimensions and "
            "labels must be the same; pass truth= for the estimand"
        )
    return estimate.transpose(..., *truth.dims).isel(places).values


def _places(estimate: xr.DataArray, truth: xr.DataArray, dim: Hashable) -> Array | None:
    """Find the labels of the truth among those of an estimate; None where they differ."""
    own, wanted = estimate.get_index(dim), truth.get_index(dim)
    if own.equals(wanted):
        return np.arange(own.size)
    labelled = dim in estimate.indexes and dim in truth.indexes and own.is_unique and own.size == wanted.size
    places = own.get_indexer(wanted) if labelled else np.array([-1])
    return None if (places < 0).any() or np.unique(places).size < own.size else places


def _scores(readings: Array, truth: xr.DataArray) -> xr.Dataset:
    estimate, low, high = readings
    error = estimate - truth.values
    covered = np.where(np.isnan(low), np.nan, (low <= truth.values) & (truth.values <= high))
    scores = {
        "bias": error.mean(axis=0),
        "rmse": np.sqrt((error**2).mean(axis=0)),
        "coverage": covered.mean(axis=0),
        "width": (high - low).mean(axis=0),
    }
    return xr.Dataset({name: (truth.dims, values) for name, values in scores.items()}, truth.coords)
