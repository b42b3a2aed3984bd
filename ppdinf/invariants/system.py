"""Public statements bound to a table: the sparse integer system ``A x = a, B x >= b`` with named rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import xarray as xr

from ppdinf.errors import InvariantError
from ppdinf.invariants.public import Public
from ppdinf.invariants.statements import Zeros
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
    B, limits, bound_names
        The same for what is known to hold, ``B x >= limits``.
    """

    public: Public
    frame: Frame
    A: sp.csr_array
    values: np.ndarray
    names: list[str]
    B: sp.csr_array
    limits: np.ndarray
    bound_names: list[str]

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
        """Compare the sums of a table with what is public.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray
            Same labels in the same order as the table that was bound. Negative cells allowed.

        Returns
        -------
        pandas.DataFrame
            One row per public sum and bound: ``found``, ``relation``, ``public``, ``agrees``.

        Examples
        --------
        >>> import numpy as np, ppdinf as ppd
        >>> bound = ppd.invariants.total().on(np.array([3, 1, 2]))
        >>> bound.check(np.array([2, 2, 1]))
               found relation  public  agrees
        total      5        =       6   False
        """
        cells = self.cells(table)
        found = np.concatenate([self.A @ cells, self.B @ cells])
        relation = np.repeat(["=", ">="], [len(self.names), len(self.bound_names)])
        stated = np.concatenate([self.values, self.limits])
        agrees = np.where(relation == "=", found == stated, found >= stated)
        return pd.DataFrame(
            {"found": found, "relation": relation, "public": stated, "agrees": agrees},
            index=[*self.names, *self.bound_names],
        )

    def cells(self, table: Any) -> np.ndarray:
        """Cells of `table` in the order of the columns of ``A``, after checking its labels.

        Examples
        --------
        >>> import numpy as np, ppdinf as ppd
        >>> ppd.invariants.total().on(np.array([3, 1, 2])).cells(np.array([6, 0, 0]))
        array([6, 0, 0])
        """
        bare = not isinstance(table, xr.DataArray | pd.Series | pd.DataFrame)
        data = as_table(table, nonnegative=False, dims=self.frame.dims if bare else None)
        if not bare or data.shape != self.frame.shape:
            self.frame.check_same(Frame.of(data), "the table")
        return data.values.ravel()

    def require(self, table: Any) -> None:
        """Raise unless `table` agrees with everything public.

        Raises
        ------
        InvariantError
            Naming the first public sum or bound that is broken; no count is shown.

        Examples
        --------
        >>> import numpy as np, ppdinf as ppd
        >>> ppd.invariants.total().on(np.array([3, 1, 2])).require(np.array([6, 0, 0]))
        """
        agrees = self.check(table)["agrees"]
        if not agrees.all():
            wrong = agrees.index[~agrees]
            raise InvariantError(f"the table breaks {len(wrong)} public statements, the first is {wrong[0]!r}")


def bind(public: Public, table: Any, values: Sequence[int] | None = None) -> System:
    """Write the statements out for the labels of `table`; see `Public.on`.

    Parameters
    ----------
    public : Public
    table : xarray.DataArray, pandas object or numpy.ndarray
    values : sequence of int, optional

    Returns
    -------
    System
    """
    from ppdinf.lattice.rows import check_consistent
    from ppdinf.lattice.systems import integer_vector

    data = as_table(table, nonnegative=False)
    frame = Frame.of(data)
    rows = [statement.equalities(frame) for statement in public]
    bounds = [statement.inequalities(frame) for statement in public]
    empty = sp.csr_array((0, frame.size), dtype=np.int64)
    A = sp.csr_array(sp.vstack([empty, *(part for part, _ in rows)]))
    names = [name for _, part in rows for name in part]
    zero = np.repeat([isinstance(statement, Zeros) for statement in public], [len(part) for _, part in rows])
    if values is None:
        found = np.where(zero, 0, A @ data.values.ravel())  # structural zeros hold whatever the table says
    else:
        found = integer_vector(values, len(names), names, name="values")
        check_consistent(A, found, row_names=names)
    return System(
        public, frame, A, found.astype(np.int64), names,
        sp.csr_array(sp.vstack([empty, *(part for part, _, _ in bounds)])),
        np.concatenate([np.zeros(0, dtype=np.int64), *(part for _, part, _ in bounds)]),
        [name for _, _, part in bounds for name in part],
    )  # fmt: skip
