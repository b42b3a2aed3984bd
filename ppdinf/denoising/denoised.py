"""The posterior of a table: draws, sums by label, estimates with intervals, tables for others to read."""

from __future__ import annotations

import importlib
from functools import cached_property
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from ppdinf._internal.atomic_files import write_whole
from ppdinf.diagnostics.convergence import convergence
from ppdinf.diagnostics.rhat import FEWEST, limit
from ppdinf.errors import ReleaseFileError
from ppdinf.invariants import Public
from ppdinf.measurements import Measurements
from ppdinf.models.aggregates import aggregate, summary

__all__ = ["Denoised", "require_name"]

ESS, R_HAT = 400, 1.02

PAGES = "ppdinf.report.denoised_report"
"""Room above this one that writes pages, loaded when one is wanted."""


class Denoised:
    """Posterior draws of a table, made by `ppdinf.denoise`.

    Attributes
    ----------
    seen : Measurements
        Everything published that they are given.
    draws : xarray.DataArray of int64, dimensions ``("chain", "draw", *dims)``
        With all coordinates of the table.
    parameters : dict of str to numpy.ndarray
        Draws of the prior's parameters, shape (chains, draws, ...).
    plan : str
        How tables were drawn given their prior, exactly or by which moves, and why.
    """

    def __init__(
        self, data: Measurements, cells: NDArray[np.int64], parameters: dict[str, NDArray[np.float64]], plan: str
    ) -> None:
        frame, (chains, draws) = data.frame, cells.shape[:2]
        self.data, self.parameters, self.plan = data, parameters, plan
        own = {name: (dims, values) for name, (dims, values) in frame.coords.items()}
        self.draws = xr.DataArray(
            cells.reshape(chains, draws, *frame.shape),
            dims=("chain", "draw", *frame.dims),
            coords={"chain": np.arange(chains), "draw": np.arange(draws), **own},
            name="count",
        )

    def sums(self, statement: Public) -> xr.DataArray:
        """Sum the draws as a statement says; see `ppdinf.models.aggregate`."""
        return aggregate(self.draws, statement)

    def summary(self, statement: Public | xr.DataArray | None = None, probability: float = 0.9) -> pd.DataFrame:
        """Say what is known of cells, of sums, or of anything computed from draws.

        Parameters
        ----------
        statement : Public or xarray.DataArray, optional
            Sums, ``inv.groups("area")``; or draws such as ratios, ranks and comparisons. Without it, all cells.
        probability : float, default 0.9
            That the number lies within its interval.

        Returns
        -------
        pandas.DataFrame
            As `ppdinf.models.summary`: ``estimate``, ``sd``, ``lower``, ``upper``, ``margin_of_error``; of comparisons
            ``probability`` and ``monte_carlo_error``.
        """
        draws = self.draws if statement is None else statement
        return summary(self.sums(draws) if isinstance(draws, Public) else draws, probability)

    @cached_property
    def convergence(self) -> pd.DataFrame:
        """Effective sample sizes and R-hat of every cell: ``ess_bulk``, ``ess_tail``, ``r_hat``."""
        return convergence(self.draws)

    @property
    def problems(self) -> list[str]:
        """What speaks against using the draws as they are, each in a sentence with what to do; empty where nothing."""
        if self.draws.sizes["draw"] < FEWEST:
            return [f"there are fewer than {FEWEST} draws of each chain, too few to judge: draw more"]
        found, at = [], self.convergence
        few = at["ess_bulk"].dropna() < ESS
        if few.any():
            worst = str(at["ess_bulk"].idxmin())
            found.append(
                f"{few.sum()} of {few.size} cells have fewer than {ESS} effective draws, the fewest {worst}: "
                f"draw more, denoise(..., draws={4 * self.draws.sizes['draw']})"
            )
        most = max(R_HAT, limit(int(at["r_hat"].count()), self.draws.sizes["chain"]))  # of so many, by chance
        apart = at["r_hat"].dropna() > most
        if apart.any():
            found.append(
                f"chains disagree about {apart.sum()} of {apart.size} cells (R-hat above {most:.3f}), most about "
                f"{at['r_hat'].idxmax()}: draw more, and tune longer"
            )
        return found

    def to_dataset(self, probability: float = 0.9) -> xr.Dataset:
        """Estimate, standard deviation, interval and margin of error of every cell, by the labels of the table."""
        table = self.summary(probability=probability)
        shape, frame = self.data.shape, self.data.frame
        own = {name: (dims, values) for name, (dims, values) in frame.coords.items()}
        return xr.Dataset(
            {name: (frame.dims, values.to_numpy().reshape(shape)) for name, values in table.items()}, coords=own
        )

    def save(self, path: str | PathLike[str], statement: Public | None = None, probability: float = 0.9) -> None:
        """Write a summary as CSV, or as Parquet where the name ends so.

        Parameters
        ----------
        path : str or path
            Ending in ``.csv`` or ``.parquet``; what is there is replaced.
        statement, probability
            As for `summary`.

        Raises
        ------
        ReleaseFileError
            Another ending.
        WriteError
            The file cannot be written; what was there is left.
        """
        require_name(path)
        table = self.summary(statement, probability).reset_index()
        if Path(path).suffix == ".csv":
            write_whole(path, table.to_csv(index=False))
        else:
            write_whole(path, table.to_parquet(index=False))

    def report(
        self, path: str | PathLike[str], statement: Public | None = None, *, title: str = "", about: str = ""
    ) -> None:
        """Write one HTML page with figures that loads nothing: what was published, what it tells, whether to trust it.

        Parameters
        ----------
        path : str or path
            What is there is replaced.
        statement : Public, optional
            Sums to show, ``inv.groups("area")``, in place of all cells.
        title, about : str, optional
            What the table counts, where and when; a sentence on where the numbers come from.

        Raises
        ------
        WriteError
            The file cannot be written; what was there is left.
        """
        importlib.import_module(PAGES).write_denoised(self, path, statement, title, about)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{dim}: {n}" for dim, n in self.draws.sizes.items())
        return f"<Denoised ({sizes}) given {self.data!r}>"


def require_name(path: str | PathLike[str]) -> None:
    """Refuse a name that does not say which kind of file is wanted."""
    if Path(path).suffix not in (".csv", ".parquet"):
        raise ReleaseFileError(f"{Path(path).name} ends neither in .csv nor in .parquet: say which is wanted")
