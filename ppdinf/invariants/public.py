"""All public statements about a table, joined by ``&``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from ppdinf._internal.types import Json
from ppdinf.errors import InvariantError
from ppdinf.invariants.statement import Statement
from ppdinf.invariants.system import System, Values, bind
from ppdinf.tables.table import TableLike, labelled_cells


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

        Notes
        -----
        Time and memory grow with the number of cells under each statement: 51 groups over 10,000,000
        cells take about 3 s and 1.3 GB.

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
