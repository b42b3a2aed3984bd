"""Generalized least squares of published numbers with exact sums: estimates, standard errors, covariances.

Published numbers y of the sums ``G x`` have noise with covariance V; exact sums are numbers without noise. A sum
``c @ x`` has an unbiased linear estimate ``w @ y`` if ``G.T @ w = c``. The best one solves

    [ V    G ] [ w ]     [ 0 ]
    [ G.T  0 ] [ u ]  =  [ c ],

and its variance is ``w @ V @ w``. The matrix is sparse, symmetric and possibly singular. It is factorized with a small
multiple of the identity matrix added to V and subtracted from 0, which is removed by iterative refinement.

C. R. Rao, "Unified theory of linear estimation", Sankhya A 33 (1971).
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
import pandas as pd
import scipy.sparse as sp
import xarray as xr
from scipy.sparse.linalg import SuperLU, splu

from ppdinf._internal.values import Flags, Reals
from ppdinf.errors import ModelError, PrivacyError
from ppdinf.invariants import Public
from ppdinf.laws.law import IntegerLaw
from ppdinf.laws.observation_model import ObservationModel
from ppdinf.laws.real_noise import normal_quantile
from ppdinf.measurements import Measurements
from ppdinf.mechanisms import Suppression
from ppdinf.mechanisms.expected_error import cell_law, kinds_of_cells, simulate_noise, simulated_draws
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.models.aggregates import aggregate, index_of
from ppdinf.releases import Release

RIDGE = 1e-9  # added to the diagonal, relative to rows of norm 1 and variances with mean 1
REFINEMENTS, SOLVED = 10, 1e-12  # largest number of refinements, and relative residual at which they end
WIDEST = 1e10  # largest ratio of two variances
UNBIASED = 1e-10  # largest bias by rounding, relative to the largest weight of a sum
COLUMNS = 256  # right-hand sides that are solved together


class LeastSquares:
    """Best linear unbiased estimates of a table, returned by `ppdinf.least_squares`.

    Attributes
    ----------
    data : Measurements
        Everything published.
    estimate : xarray.DataArray of float64
        Estimate of every cell; nan if the published numbers do not identify the cell.

    See Also
    --------
    ppdinf.least_squares, ppdinf.Denoised

    Examples
    --------
    >>> import ppdinf as ppd
    >>> counts = ppd.measured(ppd.invariants.margin("sex"), [3, 9], ppd.laws.Gaussian([1, 2]))
    >>> fit = ppd.least_squares(ppd.Measurements({"sex": ["f", "m"]}, counts, public={ppd.invariants.total(): 17}))
    >>> fit.estimate.values.round(6), fit.covariance().to_numpy().round(6).tolist()
    (array([ 4., 13.]), [[0.8, -0.8], [-0.8, 0.8]])
    """

    intervals: ClassVar[str] = "normal quantiles of least squares"

    def __init__(self, data: Measurements) -> None:
        self.data = data
        entries, system, d = data.entries, data.public, data.frame.size
        mean, variance = _moments(data)
        G = sp.csr_array(sp.vstack([entries.matrix, system.A], format="csr"), dtype=np.float64)
        length = np.sqrt(G.multiply(G).sum(axis=1))
        length[length == 0] = 1.0
        noisy = variance[variance > 0]
        if noisy.size and noisy.max() > WIDEST * noisy.min():
            raise ModelError(
                "the variances of the noise differ by a factor above 1e10, too much for double precision: state the "
                "most precise numbers as exact, or use ppdinf.denoise"
            )
        self._unit = float(np.mean(noisy)) if noisy.size else 1.0
        y = np.concatenate([entries.y - mean, system.values])
        self._variance = np.concatenate([variance, np.zeros(system.values.size)]) / length**2 / self._unit
        self._sums = sp.csr_array(sp.diags_array(1 / length) @ G)
        self._solution = self._solve(np.append(y / length, np.zeros(d))[:, None])[-d:, 0]

    @cached_property
    def _matrix(self) -> sp.csc_array:
        return sp.csc_array(sp.block_array([[sp.diags_array(self._variance), self._sums], [self._sums.T, None]]))

    @cached_property
    def _factors(self) -> SuperLU:
        """Factors in a symmetric order; pivots below a tenth of the largest entry are replaced."""
        ridge = np.repeat([RIDGE, -RIDGE], self._sums.shape)
        order = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.1, "options": {"SymmetricMode": True}}
        return splu(sp.csc_array(self._matrix + sp.diags_array(ridge)), **order)

    def _solve(self, right: Reals) -> Reals:
        solved, enough = self._factors.solve(right), SOLVED * np.abs(right).max(initial=0.0)
        for _ in range(REFINEMENTS):
            left = right - self._matrix @ solved
            if np.abs(left).max(initial=0.0) <= enough:
                break
            solved += self._factors.solve(left)
        return solved

    def _weights(self, sums: sp.csr_array) -> tuple[Reals, Flags]:
        """Return the weights w of the numbers in the estimate of each sum, shape (numbers, k), and which exist."""
        c = sums.T.toarray().astype(np.float64)
        largest = np.abs(c).max(axis=0, initial=0.0)
        c /= np.where(largest > 0, largest, 1.0)
        w = self._solve(np.vstack([np.zeros((self._variance.size, c.shape[1])), c]))[: self._variance.size]
        return w * largest, np.abs(self._sums.T @ w - c).max(axis=0) <= UNBIASED

    def _of(self, statement: Public | None) -> tuple[sp.csr_array, xr.DataArray]:
        """Return the requested sums, shape (k, d), and their estimates by label."""
        table = self.data.frame.table(self._solution, "count")
        if statement is None:
            return sp.eye_array(self._solution.size, format="csr"), table
        estimates = aggregate(table.expand_dims(chain=1, draw=1), statement).isel(chain=0, draw=0, drop=True)
        return next(iter(statement)).equalities(self.data.frame)[0], estimates

    def _errors(self, statement: Public | None) -> tuple[xr.DataArray, xr.DataArray]:
        """Return estimates and standard errors; nan and infinity for sums that are not identified."""
        sums, estimates = self._of(statement)
        variances = np.empty(sums.shape[0])
        for start in range(0, variances.size, COLUMNS):
            w, exists = self._weights(sums[start : start + COLUMNS])
            variances[start : start + COLUMNS] = np.where(exists, self._variance @ w**2, np.inf)
        sd = estimates.copy(data=np.sqrt(variances * self._unit).reshape(estimates.shape))
        return estimates.where(np.isfinite(sd)), sd

    @cached_property
    def _cells(self) -> tuple[xr.DataArray, xr.DataArray]:
        return self._errors(None)

    @property
    def estimate(self) -> xr.DataArray:
        """Estimate of every cell."""
        return self._cells[0]

    def covariance(self, statement: Public | None = None) -> pd.DataFrame:
        """Return the covariance matrix of the estimates of cells or sums.

        Parameters
        ----------
        statement : Public, optional
            Sums, ``inv.groups("area")``. Default: all cells, a dense matrix of their number squared.

        Returns
        -------
        pandas.DataFrame
            Rows and columns are labelled as in `summary`. A sum that is not identified has infinite variance, and nan
            in all other entries.
        """
        sums, estimates = self._of(statement)
        w, exists = self._weights(sums)
        covariance = self._unit * (w.T @ (self._variance[:, None] * w))
        covariance[~exists] = covariance[:, ~exists] = np.nan
        np.fill_diagonal(covariance, np.where(exists, covariance.diagonal(), np.inf))
        index = index_of(estimates)
        return pd.DataFrame(covariance, index, index)

    def to_dataset(self, probability: float = 0.9) -> xr.Dataset:
        """Return the columns of `summary` for every cell, by label.

        Parameters
        ----------
        probability : float, default 0.9

        Returns
        -------
        xarray.Dataset
        """
        return _intervals(*self._cells, probability)

    def summary(self, statement: Public | None = None, probability: float = 0.9) -> pd.DataFrame:
        """Return estimates, standard errors and normal intervals of cells or sums.

        Parameters
        ----------
        statement : Public, optional
            Sums, ``inv.groups("area")``. Default: all cells.
        probability : float, default 0.9
            Probability of the intervals.

        Returns
        -------
        pandas.DataFrame
            Columns ``estimate``, ``sd``, ``lower``, ``upper`` and ``margin_of_error``, as `Denoised.summary`. A sum
            that is not identified has the estimate nan and the standard error infinity.
        """
        estimates, sd = self._cells if statement is None else self._errors(statement)
        intervals = _intervals(estimates, sd, probability)
        columns = {str(name): values.values.ravel() for name, values in intervals.items()}
        return pd.DataFrame(columns, index_of(estimates))


def least_squares(data: Measurements | Release | list[Release]) -> LeastSquares:
    """Estimate a table by generalized least squares of everything published, with exact sums as constraints.

    The estimates are linear in the published numbers, unbiased, and have the smallest variance of all such estimates.
    They need no prior. They can be negative and fractional: no bounds are used.

    Parameters
    ----------
    data : Measurements, Release or list of Release
        Sums can be nested or cross in any way.

    Returns
    -------
    LeastSquares
        ``summary(...)``, ``covariance(...)``, ``estimate``.

    Raises
    ------
    ModelError
        The mean or variance of a number's noise depends on its count (ranges, rounded or suppressed numbers, survey
        estimates); the message names the number. Or a release has noise that is not supported by `ppdinf.denoise`, or
        variances differ by a factor above 1e10.

    See Also
    --------
    ppdinf.denoise : Posterior with integers and bounds, for any law.
    ppdinf.compare : Takes this function as an analysis of releases.

    Notes
    -----
    Standard errors are exact up to double precision for stated noise, and for releases with Gaussian noise, without
    public sums, or with public sums that are nested or disjoint. The covariance of other releases is a multiple of that
    of Gaussian noise; the multiple is simulated for l1 noise under sums that cross, and that of as many free cells for
    l2 noise. Intervals are normal. The cost is a sparse factorization, and about 1.5 ms per summarized number of a
    table of 10,000 cells.

    References
    ----------
    C. R. Rao, "Unified theory of linear estimation", Sankhya A 33 (1971).

    Examples
    --------
    >>> import ppdinf as ppd
    >>> inv = ppd.invariants
    >>> noisy = ppd.measured(inv.margin("county"), [12, 0, 31], ppd.laws.DiscreteGaussian(variance=9))
    >>> fit = ppd.least_squares(ppd.Measurements({"county": ["A", "B", "C"]}, noisy, public={inv.total(): 46}))
    >>> fit.summary()[["estimate", "sd"]].round(2)
            estimate    sd
    county
    A           13.0  2.45
    B            1.0  2.45
    C           32.0  2.45
    """
    if isinstance(data, Release | list | tuple):
        data = Measurements.of_releases([data] if isinstance(data, Release) else data)
    if not isinstance(data, Measurements):
        raise ModelError(f"least_squares takes Measurements or releases, found {type(data).__name__}")
    return LeastSquares(data)


def _moments(data: Measurements) -> tuple[Reals, Reals]:
    """Return mean and variance of the noise of every published number."""
    entries = data.entries
    mean, variance = np.zeros(entries.y.size), np.zeros(entries.y.size)
    for form, rows in entries.forms:
        try:
            mean[rows], variance[rows] = form.noise_moments(rows.size)
        except PrivacyError as error:
            name = entries.names[int(rows[0])]
            raise ModelError(f"least squares cannot use {name!r}, for which {error}: use ppdinf.denoise") from None
    noisy = [release for release in data.releases if not isinstance(release.mechanism, Suppression)]
    given = [_variances(release, part.forms[0][0]) for release, part in zip(noisy, data.parts, strict=False)]
    return mean, np.concatenate(given) if given else variance


def _variances(release: Release, form: ObservationModel) -> Reals:
    """Return variances of independent noise that has the covariance of a release given its public sums, shape (d,)."""
    system, law = release.public, getattr(form, "law", None)
    if not isinstance(law, IntegerLaw):
        return np.full(system.frame.size, form.noise_moments(max(system.lattice.rank, 1))[1])
    variance = np.full(system.frame.size, law.noise_variance)
    if law.log_quadratic is not None and law.log_quadratic[0] == 0:  # Gaussian
        return variance
    _, sizes = kinds_of_cells(system)
    for n in np.unique(sizes[sizes > 1]).tolist():  # n exchangeable cells have a covariance v (n I - 1) / (n - 1)
        noise, p = cell_law(law, n)
        variance[sizes == n] = p @ noise.astype(np.float64) ** 2 * n / (n - 1)
    crossing = sizes < 0
    if crossing.any():
        free = system.lattice.rank - np.sum(1 - 1 / sizes[sizes > 1]) - np.sum(sizes == 1)
        mechanism = release.mechanism
        assert isinstance(mechanism, TableMechanism)
        drawn = simulate_noise(mechanism, system, simulated_draws(mechanism, system))
        variance[crossing] = np.mean(np.sum(drawn[:, crossing].astype(np.float64) ** 2, axis=1)) / free
    return variance


def _intervals(estimate: xr.DataArray, sd: xr.DataArray, probability: float) -> xr.Dataset:
    if not 0 < probability < 1:
        raise ModelError(f"probability must be between 0 and 1, found {probability}")
    margin = normal_quantile(probability) * sd
    middle = estimate.fillna(0.0)
    columns = {"lower": middle - margin, "upper": middle + margin, "margin_of_error": margin}
    return xr.Dataset({"estimate": estimate, "sd": sd} | columns)
