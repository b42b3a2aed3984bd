"""All public statements about a table, joined by ``&``, and the integer system to which they are bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd
import scipy.sparse as sp
import xarray as xr

from ppdinf._internal.values import Array, Flags, Integers, Json, Reals, as_html
from ppdinf.errors import CountError, InvariantError, LabelError
from ppdinf.invariants.statement import Chosen, Joined, Statement, no_rows, rows_of
from ppdinf.lattice.blocks import structure
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.lattice.fiber_tables import fixed_cells
from ppdinf.lattice.integer_rows import check_consistent
from ppdinf.lattice.systems import exact_product, integer_vector
from ppdinf.tables.frame import LARGEST, Frame
from ppdinf.tables.table import TableLike, labelled_cells

if TYPE_CHECKING:
    from ppdinf.lattice.blocks import Structure
    from ppdinf.lattice.kernel import Lattice


Values = Sequence[int] | Array | Mapping[str, int] | pd.Series


@dataclass(frozen=True, eq=False, repr=False)
class System:
    """The public information about one table, as exact integer rows.

    Attributes
    ----------
    public : Public
        The statements.
    frame : Frame
        Labels of the table.
    A : scipy.sparse.csr_array of int64, shape (k, d)
        One row per public sum, one column per cell in table order. Rows may repeat or be linearly
        dependent, for example for two margins with the same total.
    values : numpy.ndarray of int64, shape (k,)
        The exact public values ``a``.
    names : sequence of str
        Name of each row, used in error messages and reports.
    B, limits, bound_names
        The same for known inequalities, ``B x >= limits``.
    empty : numpy.ndarray of bool, shape (d,)
        Structural zeros: cells that are zero by definition.

    See Also
    --------
    ppdinf.invariants.Public, ppdinf.lattice.structure

    Examples
    --------
    >>> import ppdinf as ppd
    >>> public = ppd.invariants.total() & ppd.invariants.nonnegative()
    >>> system = public.on([3, 1, 2])
    >>> system.A.toarray(), system.values, system.names
    (array([[1, 1, 1]]), array([6]), ['total'])
    >>> system.B.shape, system.limits
    ((3, 3), array([0, 0, 0]))
    """

    public: Public
    frame: Frame
    A: sp.csr_array
    values: Integers
    names: Sequence[str]
    B: sp.csr_array
    limits: Integers
    bound_names: Sequence[str]
    empty: Flags

    def __repr__(self) -> str:
        sizes = f"{len(self.names)} sums and {len(self.bound_names)} bounds on {self.frame.size} cells"
        return f"<System of {sizes}; {self.public}>"

    @property
    def lattice(self) -> Lattice:
        """Integer vectors z with ``A z = 0``: ``lattice.basis`` (d, m), ``lattice.rank``."""
        return self.structure.lattice

    @cached_property
    def fixed(self) -> Flags:
        """Cells that are determined by the public sums and bounds together.

        All determined cells if bounds leave at most 100 cells undecided. In larger tables, the cells that are
        determined by successive single sums and bounds (`ppdinf.lattice.fiber_tables`).
        """
        return fixed_cells(self.structure, self.A, self.values, self.B, self.limits)

    @cached_property
    def cell_limits(self) -> tuple[Reals, Reals]:
        """Smallest and largest count of each cell by bounds on single cells alone; infinite for unbounded cells."""
        low = np.full(self.frame.size, -np.inf)
        high = np.full(self.frame.size, np.inf)
        single = np.flatnonzero(np.diff(self.B.indptr) == 1)
        cells = self.B.indices[self.B.indptr[single]]
        weights = self.B.data[self.B.indptr[single]]
        ends = np.ceil(self.limits[single] / np.abs(weights))
        np.maximum.at(low, cells[weights > 0], ends[weights > 0])
        np.minimum.at(high, cells[weights < 0], -ends[weights < 0])
        return low, high

    @cached_property
    def structure(self) -> Structure:
        """Fixed, tied and parallel cells and independent blocks of the system."""
        return structure(self.A, row_names=self.names)

    @cached_property
    def free(self) -> Structure:
        """Structure of the system after all cells that are determined, also by bounds, are fixed."""
        held = np.flatnonzero(self.fixed & ~self.structure.fixed)
        return structure(sp.vstack([self.A, rows_of(held, self.frame)])) if held.size else self.structure

    def check(self, table: TableLike) -> pd.DataFrame:
        """Compare the sums of a table with the public values.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray
            With the same labels in the same order as the bound table. Negative cells are allowed.

        Returns
        -------
        pandas.DataFrame
            One row per public sum and bound: ``found``, ``relation``, ``public``, ``agrees``. For a
            confidential table, ``found`` is confidential in rows that do not agree.

        Raises
        ------
        LabelError, CountError
            The labels differ from the bound table, or cells are not counts.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> bound = ppd.invariants.total().on([3, 1, 2])
        >>> bound.check([2, 2, 1])
               found relation  public  agrees
        total      5        =       6   False
        """
        sums, bounds = self._sums(self.cells(table))
        relation = np.repeat(["=", ">="], [sums.size, bounds.size])
        return pd.DataFrame(
            {
                "found": np.concatenate([sums, bounds]),
                "relation": relation,
                "public": np.concatenate([self.values, self.limits]),
                "agrees": np.concatenate([sums == self.values, bounds >= self.limits]),
            },
            index=[*self.names, *self.bound_names],
        )

    def require(self, table: TableLike) -> None:
        """Raise unless `table` satisfies all public statements.

        Raises
        ------
        InvariantError
            The message names the first violated public sum or bound and shows no count.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> ppd.invariants.total().on([3, 1, 2]).require([6, 0, 0])
        """
        self.require_cells(self.cells(table))

    def require_cells(self, cells: Integers, *, bounds: bool = True) -> None:
        """Raise unless cells in the order of the columns of ``A`` satisfy the public statements.

        Parameters
        ----------
        cells : ndarray of int64, shape (d,)
        bounds : bool, default True
            Whether bounds are checked; noise keeps only the sums.
        """
        sums, above = self._sums(cells)
        broken = [self.names[r] for r in np.flatnonzero(sums != self.values)[:1]]
        broken += [self.bound_names[r] for r in np.flatnonzero(above < self.limits)[:1]] if bounds else []
        if broken:
            raise InvariantError(
                f"the table violates the public statement {broken[0]!r}: correct the table or the statement"
            )

    def nearest(self, table: TableLike) -> xr.DataArray:
        """Return a table that satisfies all public statements, as near to `table` in l1 as possible.

        ``O(d log d)`` if bounds concern single cells and public sums split the cells into groups; otherwise an
        integer program (`ppdinf.lattice.nearest_feasible`).

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray
            Any table with the same labels, such as a release with negative cells.

        Returns
        -------
        xarray.DataArray of int64
            Every public sum and bound holds. If several tables are nearest, one of them is returned.

        Raises
        ------
        InvariantError
            No such table exists; the message names sums and bounds that contradict each other.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> public = ppd.invariants.total() & ppd.invariants.nonnegative()
        >>> public.on([3, 1, 2]).nearest([5, -2, 4]).values
        array([3, 0, 3])
        """
        nearest = nearest_feasible(
            self.A, self.values, self.B, self.limits, self.cells(table),
            structure=self.structure, row_names=self.names, bound_names=self.bound_names,
        )  # fmt: skip
        return self.frame.table(nearest)

    def cells(self, table: TableLike) -> Integers:
        """Return the cells of `table` in the order of the columns of ``A``, after a check of its labels.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> ppd.invariants.total().on([3, 1, 2]).cells([6, 0, 0])
        array([6, 0, 0])
        """
        bare = not isinstance(table, xr.DataArray | pd.Series | pd.DataFrame)
        frame, cells = labelled_cells(table, nonnegative=False, dims=self.frame.dims if bare else None)
        if not bare:
            self.frame.check_same(frame, "the table")
        elif frame.shape != self.frame.shape:
            raise LabelError(f"the array has shape {frame.shape}, but the bound table has shape {self.frame.shape}")
        return cells

    def _sums(self, cells: Integers) -> tuple[Array, Array]:
        return exact_product(self.A, cells), exact_product(self.B, cells)


def bind(public: Public, frame: Frame, cells: Integers, values: Values | None = None) -> System:
    """Compute the rows of the statements for the labels of a table; see `Public.on`."""
    rows = [statement.equalities(frame) for statement in public]
    bounds = [statement.inequalities(frame) for statement in public]
    A = _stack(frame, [part for part, _ in rows])
    names = Joined([part for _, part in rows])
    known = [statement.known for statement in public]  # equalities that hold for every table: structural zeros
    zero_rows = np.repeat(known, [len(part) for _, part in rows]).astype(bool)
    empty = np.zeros(frame.size, dtype=bool)
    empty[A[zero_rows].indices] = True
    if values is None:
        sums = exact_product(A, cells)
        large = np.flatnonzero(np.abs(sums) > LARGEST)
        if large.size:
            raise CountError(f"the sum of {names[large[0]]!r} exceeds 2**53: publish smaller sums or smaller weights")
        stated = sums.astype(np.int64)
        stated[zero_rows] = 0  # structural zeros hold for every table
    else:
        stated = _by_row(values, names, zero_rows)
        for row in np.flatnonzero(zero_rows & (stated != 0))[:1]:
            raise InvariantError(f"the public value of {names[row]!r} is not zero: correct it, or drop the statement")
        check_consistent(A, stated, row_names=names)
    return System(
        public, frame, A, stated, names,
        _stack(frame, [part for part, _, _ in bounds]),
        np.concatenate([np.zeros(0, dtype=np.int64), *(part for _, part, _ in bounds)]),
        Joined([part for _, _, part in bounds]), empty,
    )  # fmt: skip


def _stack(frame: Frame, parts: list[sp.csr_array]) -> sp.csr_array:
    filled = [part for part in parts if part.shape[0]] or [no_rows(frame)]
    return filled[0] if len(filled) == 1 else sp.csr_array(sp.vstack(filled))


def _by_row(values: Values, names: Sequence[str], zero_rows: Flags) -> Integers:
    """Return the values in the order of the rows; structural zeros may be omitted."""
    if isinstance(values, Mapping | pd.Series):
        stated, known = dict(values.items()), set(names)
        given = {names[row]: 0 for row in np.flatnonzero(zero_rows).tolist()} | stated
        wrong = [name for name in [*names, *given] if name not in given or name not in known]
        if wrong or len(stated) < len(values):
            problem = f"{wrong[0]!r} is missing or unknown" if wrong else "a name is given twice"
            raise LabelError(f"values must give one number by the name of each row: {problem}; rows are {names!r}")
        values = [given[name] for name in names]
    elif isinstance(values, xr.DataArray | pd.DataFrame):
        raise LabelError(
            "values must be a sequence in the order of the rows, or a mapping or Series by the name of each row; found "
            f"a {type(values).__name__}, whose labels would be ignored"
        )
    rows = np.arange(len(names)) if np.size(values) == len(names) else np.flatnonzero(~zero_rows)
    by_row = np.zeros(len(names), dtype=np.int64)
    by_row[rows] = integer_vector(values, rows.size, Chosen(names, rows), name="values")
    return by_row


@dataclass(frozen=True)
class Public:
    """All public statements about a table, joined by ``&``; ``Public()`` if nothing is exact.

    See Also
    --------
    ppdinf.invariants.System, ppdinf.invariants.total, ppdinf.invariants.margin

    Examples
    --------
    >>> from ppdinf.invariants import Public, groups, nonnegative, total
    >>> print(total() & groups("state") & nonnegative())
    Published exactly: the total; the sum for every state. Known: no count is negative.
    >>> print(Public())
    Published exactly: nothing.
    """

    statements: tuple[Statement, ...] = ()

    def __post_init__(self) -> None:
        units = [str(s) for s in self.statements if s.kind == "unit"]
        if len(units) > 1:
            raise InvariantError(f"public statements must declare at most one unit, found: {'; '.join(units)}")

    def __and__(self, other: Public) -> Public:
        if not isinstance(other, Public):
            return NotImplemented
        return Public(self.statements + tuple(s for s in other.statements if s not in self.statements))

    def __iter__(self) -> Iterator[Statement]:
        return iter(self.statements)

    def __bool__(self) -> NoReturn:
        raise InvariantError(
            "public statements have no truth value: join them by '&'; 'and' and 'or' would drop all but one"
        )

    def __str__(self) -> str:
        sentence = f"Published exactly: {'; '.join(self.exact) or 'nothing'}."
        return sentence + (f" Known: {'; '.join(self.known)}." if self.known else "")

    def _repr_html_(self) -> str:
        return as_html(str(self))

    @property
    def exact(self) -> tuple[str, ...]:
        """Statements that are published exactly, one phrase per statement."""
        return tuple(str(s) for s in self.statements if not s.known)

    @property
    def known(self) -> tuple[str, ...]:
        """Statements that hold for every possible table, one phrase per statement."""
        return tuple(str(s) for s in self.statements if s.known)

    @property
    def open(self) -> dict[str, Any]:
        """Fields of a `ppdinf.privacy.Guarantee` about public information and the protected unit."""
        unit = {name: vars(s)[name] for s in self.statements if s.kind == "unit" for name in ("unit", "contributions")}
        return {"unprotected": self.exact, "known": self.known} | unit

    def coordinates(self) -> frozenset[str]:
        """Names of all coordinates in the statements, which are therefore public."""
        return frozenset().union(*(statement.coordinates() for statement in self.statements))

    def on(self, table: TableLike, *, values: Values | None = None) -> System:
        """Bind the statements to the labels of a table.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of integers
            Its labels define the cells of each sum. Negative cells are allowed.
        values : sequence of int, or mapping or Series by row name, optional
            Public values, one per row of ``A``, if they are known independently of `table`. By default
            they are computed from its cells. Structural zeros may be omitted.

        Returns
        -------
        System
            ``A``, ``values``, ``names``, ``lattice``, ``structure``, ``check(table)``.

        Raises
        ------
        InvariantError
            Malformed statements; `values` that contradict each other, or that no table within the
            bounds can have. The message names the rows.
        LabelError
            A statement names a dimension, coordinate or label that the table does not have; the names of
            `values` differ from the names of the rows.
        CountError
            A sum exceeds 2**53.

        Examples
        --------
        >>> from ppdinf.invariants import total
        >>> total().on([3, 1, 2]).values
        array([6])
        """
        frame, cells = labelled_cells(table, nonnegative=False)
        system = bind(self, frame, cells, values)
        if values is not None and system.limits.size:
            system.nearest(frame.table(cells))
        return system

    def to_dict(self) -> list[Json]:
        """Return plain data for the release file; `from_dict` reads it."""
        return [statement.to_dict() for statement in self.statements]

    @classmethod
    def from_dict(cls, data: object) -> Public:
        """Return the statements from the data of `to_dict`.

        Raises
        ------
        InvariantError, LabelError
            `data` is not a list of statements, or a statement is unknown to this version or malformed.
        """
        if not isinstance(data, list):
            raise InvariantError(f"public statements must be stored as a list, found {type(data).__name__}")
        return cls(tuple(Statement.from_dict(entry) for entry in data))
