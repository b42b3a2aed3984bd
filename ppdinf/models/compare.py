"""Comparison of mechanisms and analyses: bias, error, coverage and interval width over simulated releases.

The baselines do not condition on the mechanism and are not for use: `noisy_as_true`, `clipped` and `projected` estimate
the confidential table, which any PyMC model can observe; `gaussian` treats the noise as normal and independent.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import scipy.sparse as sp
import xarray as xr

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf._internal.values import Array, Symbolic, as_html
from ppdinf._internal.workers import Workers, run_parts
from ppdinf.errors import LabelError, ModelError
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.likelihood import MixingScale
from ppdinf.mechanisms.counting_queries import answer
from ppdinf.mechanisms.input_checks import require_draws
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.models.posterior_tables import sample_confidential
from ppdinf.releases import Release
from ppdinf.tables.table import TableLike, as_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def noisy_as_true(release: Release) -> xr.DataArray:
    """Return the noisy table unchanged; negative cells may be outside the support of a data model."""
    return release.table


def clipped(release: Release) -> xr.DataArray:
    """Set negative cells to zero; the public sums are then violated."""
    return release.table.clip(min=0)


def projected(release: Release) -> xr.DataArray:
    """Return the non-negative integer table nearest in l1 that satisfies everything public, as agencies publish."""
    system, y = release.public, release.table.values.ravel()
    B = sp.vstack([sp.eye_array(y.size, dtype=np.int64), system.B], format="csr")
    limits = np.concatenate([np.zeros(y.size, dtype=np.int64), system.limits])
    nearest = nearest_feasible(system.A, system.values, B, limits, near=y, row_names=system.names)
    return release.table.copy(data=nearest.reshape(release.shape))


def gaussian(name: str, mean: Symbolic, variance: Symbolic, release: Release) -> TensorVariable:
    """Observe the noisy table as normal with the data model's moments and independent noise in every cell."""
    likelihood = release.likelihood
    if not isinstance(likelihood.form, AdditiveLaw):
        raise ModelError("the normal approximation needs noise that is added cell by cell: use ppd.PartiallyPrivate")
    noise = np.arange(-likelihood.support_radius, likelihood.support_radius + 1)
    scale = (likelihood.auxiliary.typical,) if isinstance(likelihood.auxiliary, MixingScale) else ()
    mass = np.exp(likelihood.form.law.log_weight(noise, *scale))
    spread = float((mass @ noise**2) / mass.sum())
    sd = pt.sqrt(variance + spread)
    return pm.Normal(f"{name}_release", mean, sd, observed=release.table.values, dims=release.dims)


class Intervals(Protocol):
    """Estimates with intervals, such as `ppdinf.Denoised`."""

    intervals: ClassVar[str]  # how the intervals were computed

    def to_dataset(self, probability: float) -> xr.Dataset:
        """Return estimate, lower and upper end of every cell."""


class Scores(xr.Dataset):
    """Errors and intervals of methods, as `compare` describes them."""

    __slots__ = ()

    def summary(self) -> pd.DataFrame:
        """Return one row per method as text, in the order of their errors over all cells."""
        names = ("rmse", "bias", "coverage", "width")
        rmse, bias, coverage, width = (self[name].values.reshape(self.sizes["analysis"], -1) for name in names)
        stated = [not str(how).startswith("none") for how in self["intervals"].values]
        together = np.sqrt((rmse**2).mean(axis=1))
        return pd.DataFrame(
            {
                "method": self["analysis"].values,
                "rmse": [f"{value:.3g}" for value in together],
                "largest bias": [f"{value:.3g}" for value in np.abs(bias).max(axis=1)],
                "coverage": np.where(stated, [f"{value:.1%}" for value in coverage.mean(axis=1)], "–"),
                "width": np.where(stated, [f"{value:.3g}" for value in width.mean(axis=1)], "–"),
                "intervals": self["intervals"].values,
            }
        ).iloc[np.argsort(together)]

    def plot(self) -> Figure:  # type: ignore[override]
        """Plot the errors and the coverage of each method; see `ppdinf.plots.plot_scores`."""
        return importlib.import_module("ppdinf.plots").plot_scores(self)

    def _repr_html_(self) -> str:
        if "analysis" not in self.dims:  # one method was selected
            return super()._repr_html_()
        title = f"Errors in persons over {self.attrs['draws']:,} simulated releases"
        return as_html(title, table=self.summary().to_html(index=False))


Analysis = Callable[[Release], xr.DataArray | pm.Model | Intervals]
type Job = tuple[Release, Analysis, str | None, float, int]
type Reading = tuple[xr.DataArray, xr.DataArray, xr.DataArray, str]
SAMPLE = ("chain", "draw")
NO_LAW = "none: the law of the noise depends on the counts or is not known"
OF_POSTERIOR = "quantiles of the posterior"
NOISE_DRAWS = 4000  # draws from which the quantiles of a mechanism's noise are estimated
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
    workers: Workers = None,
    progressbar: bool = True,
) -> Scores:
    """Release a table many times by each method, estimate from each release, and compare with the truth.

    Parameters
    ----------
    methods : mapping of name to mechanism or (mechanism, analysis)
        A mechanism alone estimates by the noisy table, with intervals from the quantiles of the noise. Intervals are
        omitted if users cannot compute these quantiles from the published values alone, because the distribution of
        the noise depends on the confidential counts or is unknown (public bounds, matrices, post-processing). An
        analysis takes a `Release`. It returns either an estimate of the confidential table without intervals (the
        functions of `ppdinf.models.compare`), a `pymc.Model`, whose posterior `pm.sample` draws, or the result of
        `ppdinf.least_squares` or `ppdinf.denoise`, such as ``(mechanism, ppd.least_squares)``.
    table : xarray.DataArray, pandas object or numpy.ndarray of counts
        For research only: the result depends on the confidential table.
    draws : int, default 1000
        Releases by each method. Methods with the same mechanism use the same releases.
    estimand : str, optional
        Variable of the models to compare. Default: the confidential table, drawn by `sample_confidential`.
    truth : xarray.DataArray, optional
        True value of the estimand. Default: `table`.
    interval : float, default 0.9
        Probability of the central intervals.
    rng : int or numpy.random.Generator, optional
    workers : int or distributed.Client, optional
        Analyses run in this number of processes or on a Dask cluster, with the same result; by default in this process.
    progressbar : bool, default True

    Returns
    -------
    xarray.Dataset, dimensions ``("analysis", *truth.dims)``
        ``bias`` (mean of estimate minus truth; its standard error is at most ``rmse / sqrt(draws)``), ``rmse``,
        ``coverage`` and ``width`` of the intervals; and ``intervals``, with the dimension ``"analysis"`` only: the
        method of the intervals, or the reason why they do not exist. An estimate without an interval has width 0, and
        its coverage is the share of releases in which it equals the truth. Both are nan for a mechanism whose noise has
        no public quantiles.
        ``.to_dataframe()`` gives one row per analysis and cell, ``.summary()`` one row per analysis, which notebooks
        show, and ``.plot()`` a figure. Attributes: ``interval`` and ``draws``.

    Raises
    ------
    ModelError
        `interval` is not between 0 and 1, `methods` is empty, an analysis returns another type, or a model has no
        variable `estimand`, as a mechanism alone.
    PrivacyError
        `draws` is not a positive integer.
    LabelError
        The dimensions or labels of an estimate differ from those of the truth. Their order may differ: cells are
        matched by name and label. Or the truth has a dimension or coordinate called ``analysis``.

    See Also
    --------
    ppdinf.plots.plot_scores, ppdinf.models.leave_one_out, ppdinf.log_likelihood, ppdinf.diagnose

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> from ppdinf.models.compare import clipped
    >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/2")
    >>> methods = {"conditioned": mechanism, "clipped": (mechanism, clipped)}
    >>> scores = ppd.compare(methods, np.array([0, 1, 30]), draws=500, rng=1, progressbar=False)
    >>> scores["bias"].sel(analysis="clipped").values.round(1)
    array([0.5, 0.3, 0.1])
    >>> scores["intervals"].values.tolist()
    ['quantiles of the noise', 'none: the estimate is taken for the truth']
    """
    if not 0 < interval < 1:
        raise ModelError(f"interval must be a probability between 0 and 1, found {interval!r}")
    if not methods:
        raise ModelError("nothing to compare: give at least one method")
    alone = [name for name, method in methods.items() if not isinstance(method, tuple)]
    if estimand is not None and alone:
        raise ModelError(f"{alone[0]!r} is a mechanism without a model, which has no variable {estimand!r}: omit it")
    table = as_table(table)
    draws = require_draws(draws, table.size)
    truth = table if truth is None else truth
    if "analysis" in truth.coords or "analysis" in truth.dims:
        raise LabelError("the truth has a dimension or coordinate 'analysis', which the result uses: rename it")
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
            done = run_parts(str(name), _read, jobs, workers, progressbar=progressbar)
            readings = np.stack([[_aligned(name, part, truth) for part in reading[:3]] for reading in done], axis=1)
            how = done[0][3]
        rows.append(_scores(readings, truth))
        intervals.append(how)
    scores = xr.concat(rows, xr.Variable("analysis", list(methods))).assign(intervals=("analysis", intervals))
    return Scores(scores.data_vars, scores.coords, {"interval": interval, "draws": draws})


def _noise_ends(
    mechanism: TableMechanism, table: xr.DataArray, interval: float, seed: int
) -> tuple[Sequence[xr.DataArray | float], str]:
    """Return the offsets of the interval bounds from a noisy table, and how the offsets were computed."""
    if not mechanism.has_public_noise_law(table):
        return [np.nan, np.nan], NO_LAW
    noise = mechanism.simulate(table, draws=NOISE_DRAWS, rng=seed) - answer(mechanism.queries, table)
    ends = [noise.quantile(q, "draw", method="inverted_cdf") for q in reversed(_tails(interval))]
    return ends, "quantiles of the noise"


def _tails(interval: float) -> tuple[float, float]:
    return (1 - interval) / 2, (1 + interval) / 2


def _read(job: Job) -> Reading:
    """Return the estimate, the lower and the upper end of the interval, and how the interval was computed."""
    release, analysis, estimand, interval, seed = job
    result = analysis(release)
    if isinstance(result, xr.DataArray):
        return result, result, result, "none: the estimate is taken for the truth"
    if estimand is None and hasattr(result, "to_dataset") and hasattr(result, "intervals"):
        table = result.to_dataset(interval)
        return table["estimate"], table["lower"], table["upper"], result.intervals
    if not isinstance(result, pm.Model):
        raise ModelError(
            "an analysis must return a DataArray, a pymc.Model, or for the confidential table least squares or a "
            f"Denoised, found {type(result).__name__}"
        )
    with result:
        idata = pm.sample(**SAMPLING, random_seed=seed, compute_convergence_checks=False)
    if estimand is not None and estimand not in idata.posterior:
        raise ModelError(f"the model has no variable {estimand!r}: estimand must be one of {list(idata.posterior)}")
    posterior = (
        sample_confidential(idata, result, random_seed=seed, progressbar=False)
        if estimand is None
        else idata.posterior[estimand]
    )
    low, high = (posterior.quantile(q, SAMPLE).drop_vars("quantile") for q in _tails(interval))
    return posterior.mean(SAMPLE), low, high, OF_POSTERIOR


def _aligned(name: str, estimate: xr.DataArray, truth: xr.DataArray) -> Array:
    """Return estimates in the order of the dimensions and labels of the truth, after draws if there are any."""
    places = {dim: _places(estimate, truth, dim) for dim in truth.dims if dim in estimate.dims}
    unmatched = [dim for dim, place in places.items() if place is None]
    dims = tuple(dim for dim in estimate.dims if dim != "draw")
    if set(dims) != set(truth.dims) or unmatched:
        differ = (
            f"; the labels of {unmatched[0]!r} differ{_example(estimate, truth, unmatched[0])}" if unmatched else ""
        )
        raise LabelError(
            f"{name!r} estimates a table over {dims}, but the truth is over {truth.dims}{differ}: dimensions and "
            "labels must be equal; pass truth= for the estimand"
        )
    return estimate.transpose(..., *truth.dims).isel(places).values


def _example(estimate: xr.DataArray, truth: xr.DataArray, dim: Hashable) -> str:
    """Name a label that only one of the tables has, if there is one."""
    different = estimate.get_index(dim).symmetric_difference(truth.get_index(dim), sort=False).tolist()
    return f", such as {different[0]!r}" if different else ""


def _places(estimate: xr.DataArray, truth: xr.DataArray, dim: Hashable) -> Array | None:
    """Return the positions of the truth's labels among those of an estimate, or None if the labels differ."""
    labels, true_labels = estimate.get_index(dim), truth.get_index(dim)
    if labels.equals(true_labels):
        return np.arange(labels.size)
    labelled = dim in estimate.indexes and dim in truth.indexes and labels.is_unique
    places = labels.get_indexer(true_labels) if labelled and labels.size == true_labels.size else np.array([-1])
    return None if (places < 0).any() or np.unique(places).size < labels.size else places


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
