"""The posterior of a table: draws, sums by label, estimates with intervals, exported tables."""

from __future__ import annotations

import importlib
from functools import cached_property
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from ppdinf._internal.atomic_files import as_path, write_atomically
from ppdinf._internal.values import Flags, Reals, as_html
from ppdinf.denoising.contradictory_numbers import contradiction_problem
from ppdinf.denoising.count_windows import Ends, reached
from ppdinf.denoising.identified_bounds import identified_bounds
from ppdinf.diagnostics.convergence import MIN_DRAWS, convergence, limit
from ppdinf.errors import LabelError, ReleaseFileError
from ppdinf.invariants import Public
from ppdinf.measurements import Measurements
from ppdinf.measurements.entries import scale_dependence
from ppdinf.models.aggregates import aggregate, summary
from ppdinf.models.compare import OF_POSTERIOR
from ppdinf.tables.frame import Frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ESS, R_HAT = 400, 1.02
SECONDS = 10.0  # time limit of the proof that cells are determined
COLUMNS = ("estimate", "sd", "lower", "upper", "margin_of_error")  # of a saved table, after its labels

PAGES = "ppdinf.report.denoised_report"
"""Module that writes pages, imported on first use."""


class Denoised:
    """Posterior draws of a table, returned by `ppdinf.denoise`.

    Attributes
    ----------
    data : Measurements
        Everything published, on which the draws are conditioned.
    draws : xarray.DataArray of int32, dimensions ``("chain", "draw", *dims)``
        Draws with all coordinates of the table; int64 if a possible count is 2**30 or more.
    parameters : dict of str to numpy.ndarray
        Draws of the prior's parameters, shape (chains, draws, ...).
    plan : str
        Description of the sampler of tables given their prior, and the reason for its choice.

    See Also
    --------
    ppdinf.denoise, ppdinf.plots.plot_posterior_table, ppdinf.models.summary

    Examples
    --------
    >>> import ppdinf as ppd
    >>> counts = ppd.measured(ppd.invariants.margin("sex"), [3, 9], ppd.laws.DoubleGeometric(1))
    >>> posterior = ppd.denoise(
    ...     ppd.Measurements({"sex": ["f", "m"]}, counts), draws=100, rng=1, progressbar=False
    ... )
    >>> posterior.draws.dims, posterior.draws.shape
    (('chain', 'draw', 'sex'), (2, 100, 2))
    >>> posterior.plan
    'drawn exactly given the prior: any two sums, noisy or exact, are nested or disjoint'
    """

    intervals: ClassVar[str] = OF_POSTERIOR

    def __init__(
        self, data: Measurements, cells: NDArray[np.integer], parameters: dict[str, Reals], plan: str, ends: Ends
    ) -> None:
        self.data, self.parameters, self.plan, self._ends = data, parameters, plan, ends
        self.draws = _labelled(data.frame, cells)

    def sums(self, statement: Public) -> xr.DataArray:
        """Sum the draws by the sums that a statement names.

        Parameters
        ----------
        statement : Public
            For example ``inv.groups("area")``, as for `ppdinf.models.aggregate`.

        Returns
        -------
        xarray.DataArray
            Dimensions ``chain`` and ``draw``, then those of the sums.
        """
        return aggregate(self.draws, statement)

    def summary(
        self, statement: Public | xr.DataArray | None = None, probability: float = 0.9, *, simultaneous: bool = False
    ) -> pd.DataFrame:
        """Summarize cells, sums, or any numbers computed from the draws.

        Parameters
        ----------
        statement : Public or xarray.DataArray, optional
            Sums, ``inv.groups("area")``, or draws such as ratios, ranks and comparisons. Default: all cells.
        probability : float, default 0.9
            Probability of the interval.
        simultaneous : bool, default False
            The probability is that of all intervals together.

        Returns
        -------
        pandas.DataFrame
            As `ppdinf.models.summary`: ``estimate``, ``sd``, ``lower``, ``upper``, ``margin_of_error``; or for
            comparisons ``estimate`` and ``monte_carlo_error``.
        """
        draws = self.draws if statement is None else statement
        return summary(self.sums(draws) if isinstance(draws, Public) else draws, probability, simultaneous=simultaneous)

    @property
    def _flat(self) -> NDArray[np.integer]:
        """Draws of all cells, shape (chains, draws, d)."""
        chains, draws = self.draws.shape[:2]
        return self.draws.values.reshape(chains, draws, -1)

    @cached_property
    def convergence(self) -> pd.DataFrame:
        """Effective sample sizes and R-hat of every cell: ``ess_bulk``, ``ess_tail``, ``r_hat``."""
        return convergence(self.draws)

    @cached_property
    def _determined(self) -> Flags:
        """Whether certain statements prove that a cell has one possible count, shape (d,)."""
        bounds = identified_bounds(self.data, seconds=SECONDS, progressbar=False)
        return (bounds["lower"] == bounds["upper"]).to_numpy()

    @property
    def problems(self) -> list[str]:
        """Reasons not to use the draws, each a sentence with a remedy; empty if none was detected.

        They concern convergence, windows of counts, scales that increase with the published numbers (see
        `ppdinf.Measurements`), and published numbers that the draws contradict. The latter are reported with a
        probability of at most 1e-4 if the table is drawn from the prior. Cells that exact sums and ranges determine
        need no draws.
        """
        if self.draws.sizes["draw"] < MIN_DRAWS:
            return [f"there are fewer than {MIN_DRAWS} draws per chain, too few for diagnostics: draw more"]
        problems, table = [], self.convergence
        truncated = np.any([reached(chain, self._ends) for chain in self._flat], axis=0)
        if truncated.any():
            cell = self.data.frame.cell(int(truncated.argmax()))
            problems.append(
                f"draws of {truncated.sum()} cells reach the end of the range that the noise permits, for example of "
                f"{cell}: other published numbers contradict the noise; correct a value or the scale of a law"
            )
        if contradicted := contradiction_problem(self.data.entries, self._flat):
            problems.append(contradicted)
        if dependence := scale_dependence(self.data.parts):
            problems.append(dependence)
        few = table["ess_bulk"].dropna() < ESS
        if (few & table["r_hat"].isna()).any():  # R-hat is nan if all draws are equal
            few = few[~self._determined[table["ess_bulk"].notna()]]
        if few.any():
            worst = str(table["ess_bulk"][few.index].idxmin())
            needed = 4 * self.draws.sizes["draw"]
            problems.append(
                f"{few.sum()} of {few.size} cells have fewer than {ESS} effective draws, the fewest {worst}: "
                f"draw more by --draws {needed} (draws={needed})"
            )
        cells, chains = int(table["r_hat"].count()), self.draws.sizes["chain"]
        threshold = max(R_HAT, limit(cells, chains))  # exceeds chance variation of the largest R-hat
        disagreeing = table["r_hat"].dropna() > threshold
        if disagreeing.any():
            problems.append(
                f"chains disagree about {disagreeing.sum()} of {disagreeing.size} cells (R-hat above {threshold:.3f}), "
                f"most about {table['r_hat'].idxmax()}: draw more, and tune longer"
            )
        return problems

    def to_dataset(self, probability: float = 0.9) -> xr.Dataset:
        """Return estimate, standard deviation, interval and margin of error of every cell, by label.

        Parameters
        ----------
        probability : float
            Probability of the intervals and of the margin of error, as in `summary`.

        Returns
        -------
        xarray.Dataset
            One variable with the shape of the table for each column of `summary`.
        """
        table = self.summary(probability=probability)
        shape, frame = self.data.shape, self.data.frame
        labels = {name: (dims, values) for name, (dims, values) in frame.coords.items()}
        return xr.Dataset(
            {name: (frame.dims, values.to_numpy().reshape(shape)) for name, values in table.items()}, coords=labels
        )

    def save(self, path: str | PathLike[str], statement: Public | None = None, probability: float = 0.9) -> None:
        """Write a summary as CSV or Parquet, according to the file name.

        Parameters
        ----------
        path : str or path
            Name ending in ``.csv`` or ``.parquet``; an existing file is replaced.
        statement, probability
            As for `summary`.

        Raises
        ------
        ReleaseFileError
            The name has another ending; or it ends in ``.parquet``, and pyarrow is not installed.
        LabelError
            The labels have the name of another column, such as ``estimate``.
        WriteError
            The file cannot be written; an existing file is unchanged.
        """
        require_name(path)
        require_columns(self.data, statement)
        table = self.summary(statement, probability).reset_index()
        if as_path(path).suffix == ".csv":
            write_atomically(path, table.to_csv(index=False))
        else:
            write_atomically(path, table.to_parquet(index=False))

    def report(self, path: str | PathLike[str], statement: Public | None = None, *, title: str = "") -> None:
        """Write one self-contained HTML page with figures: published data, estimates, and diagnostics.

        Parameters
        ----------
        path : str or path
            An existing file is replaced.
        statement : Public, optional
            Sums to show, ``inv.groups("area")``. Default: all cells.
        title : str, optional
            Object, place and time of the counts.

        Raises
        ------
        WriteError
            The file cannot be written; an existing file is unchanged.
        """
        importlib.import_module(PAGES).write_denoised(self, path, statement, title)

    def plot(self, statement: Public | None = None) -> Figure:
        """Plot intervals of cells or sums with published, possible and disclosed counts, as on the page of `report`.

        Parameters
        ----------
        statement : Public, optional
            Sums to show, ``inv.groups("area")``. Default: all cells.

        Returns
        -------
        matplotlib.figure.Figure
            As by `ppdinf.plots.plot_intervals`.
        """
        return importlib.import_module(PAGES).plot_denoised(self, statement)

    def _repr_html_(self) -> str:
        verdict = " ".join(["Do not use these counts yet:", *self.problems] if self.problems else ["Checks passed."])
        return as_html(verdict, repr(self), self.summary().round(1).to_html(max_rows=20))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{dim}: {n}" for dim, n in self.draws.sizes.items())
        return f"<Denoised ({sizes}) given {self.data!r}>"


def require_name(path: str | PathLike[str]) -> None:
    """Refuse a file name whose ending is not a supported format, or needs a package that is not installed."""
    if as_path(path).suffix not in (".csv", ".parquet"):
        raise ReleaseFileError(f"the file name must end in .csv or .parquet, found {Path(path).name}")
    if as_path(path).suffix == ".parquet" and find_spec("pyarrow") is None:
        raise ReleaseFileError(
            f"{Path(path).name} needs pyarrow: pip install pyarrow, or choose a name that ends in .csv"
        )


def require_columns(data: Measurements, statement: Public | None) -> None:
    """Refuse, before any draw, sums that `Denoised.save` could not write."""
    draw = _labelled(data.frame, np.zeros((1, 1, data.frame.size), dtype=np.int64))
    sums = draw if statement is None else aggregate(draw, statement)
    for name in sums.dims:
        if name in COLUMNS:
            raise LabelError(f"{name!r} would name two columns of the results, labels and numbers: rename the labels")


def _labelled(frame: Frame, cells: NDArray[np.integer]) -> xr.DataArray:
    """Return draws of a table, shape (chains, draws, d), with all coordinates of the table."""
    chains, draws = cells.shape[:2]
    labels = {name: (dims, values) for name, (dims, values) in frame.coords.items()}
    return xr.DataArray(
        cells.reshape(chains, draws, *frame.shape),
        dims=("chain", "draw", *frame.dims),
        coords={"chain": np.arange(chains), "draw": np.arange(draws), **labels},
        name="count",
    )
