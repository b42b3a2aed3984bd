"""Public statements bound to a table: the sparse integer system ``A x = a`` with names for its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import xarray as xr

from ppdinf.errors import InvariantError
from ppdinf.invariants.statements import Public
from ppdinf.tables import Frame, as_table

if TYPE_CHECKING:
    from ppdinf.lattice.kernel import Lattice
    from ppdinf.lattice.structure import Structure

__all__ = ["System", "bind"]


@dataclass(frozen=True, eq=False)
class System:
    """What is public about one table, as exact integer rows.

    Attributes
    ----------
    public : Public
        The statements.
    frame : Frame
        Labels of the table.
    A : scipy.sparse.csr_array of int64, shape (k, d)
        One row per public sum, one column per cell in table order. Rows may repeat or follow
        from each other; that is normal (two margins share their total).
    values : numpy.ndarray of int64, shape (k,)
        The exact public values ``a``.
    names : list of str
        Name of each row, as error messages and reports use it.
    """

    public: Public
    frame: Frame
    A: sp.csr_array
    values: np.ndarray
    names: list[str]

    @property
    def lattice(self) -> Lattice:
        """Integer vectors z with ``A z = 0``: ``lattice.basis`` (d, m), ``lattice.rank``."""
        return self.structure.lattice

    @cached_property
    def structure(self) -> Structure:
        """Fixed, tied and parallel cells and independent blocks of the system."""
        from ppdinf.lattice.structure import structure

        return structure(self.A, row_names=self.names)

    def check(self, table: Any) -> pd.DataFrame:
        """Compare the sums of a table with the public values.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray
            Same labels in the same order as the table that was bound. Negative cells allowed.

        Returns
        -------
        pandas.DataFrame
            One row per public sum: ``public``, ``found``, ``agrees``.

        Examples
        --------
        >>> import numpy as np, ppdinf as ppd
        >>> bound = ppd.invariants.total().on(np.array([3, 1, 2]))
        >>> bound.check(np.array([2, 2, 1]))
               public  found  agrees
        total       6      5   False
        """
        cells = self.cells(table)
        found = self.A @ cells
        return pd.DataFrame(
            {"public": self.values, "found": found, "agrees": self.values == found}, index=self.names
        )

    def cells(self, table: Any, *, nonnegative: bool = False) -> np.ndarray:
        """Cells of `table` in the order of the columns of ``A``, after checking its labels.

        Examples
        --------
        >>> import numpy as np, ppdinf as ppd
        >>> ppd.invariants.total().on(np.array([3, 1, 2])).cells(np.array([6, 0, 0]))
        array([6, 0, 0])
        """
        data = as_table(table, nonnegative=nonnegative, dims=self.frame.dims if _bare(table) else None)
        self.frame.check_same(Frame.of(data), "the table")
        return data.values.ravel()

    def require(self, table: Any) -> None:
        """Raise unless every public sum of `table` is exact.

        Raises
        ------
        InvariantError
            Naming the first public sum that differs, and by how much. Both numbers are public.

        Examples
        --------
        >>> import numpy as np, ppdinf as ppd
        >>> ppd.invariants.total().on(np.array([3, 1, 2])).require(np.array([6, 0, 0]))
        """
        report = self.check(table)
        wrong = report[~report["agrees"]]
        if len(wrong):
            first = wrong.iloc[0]
            raise InvariantError(
                f"{len(wrong)} public sums are not kept, the first is {wrong.index[0]!r}: "
                f"{first['found']} instead of {first['public']}"
            )


def bind(public: Public, table: Any) -> System:
    """Write the statements out for the labels of `table` and read their values off its cells.

    Parameters
    ----------
    public : Public
    table : xarray.DataArray, pandas object or numpy.ndarray

    Returns
    -------
    System
    """
    data = as_table(table, nonnegative=False)
    A, names = assemble(public, frame := Frame.of(data))
    return System(public, frame, A, A @ data.values.ravel(), names)


def assemble(public: Public, frame: Frame) -> tuple[sp.csr_array, list[str]]:
    """Stack the rows of all statements.

    Parameters
    ----------
    public : Public
    frame : Frame

    Returns
    -------
    A : scipy.sparse.csr_array of int64, shape (k, d)
    names : list of str, length k
    """
    parts = [statement.rows(frame) for statement in public]
    A = sp.vstack([sp.csr_array((0, frame.size), dtype=np.int64), *(part for part, _ in parts)], format="csr")
    return A, [name for _, names in parts for name in names]


def _bare(table: Any) -> bool:
    return not isinstance(table, xr.DataArray | pd.Series | pd.DataFrame)
