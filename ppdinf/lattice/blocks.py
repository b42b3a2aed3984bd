"""Decomposition of an integer system A x = a into fixed cells, ties, classes and independent blocks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy import sparse

from ppdinf._internal.values import Flags, Integers, members
from ppdinf.lattice.class_sums import CoreSums, core_sums, proportional_rows
from ppdinf.lattice.kernel import Lattice, kernel, support_components
from ppdinf.lattice.margins import HierarchicalTable, hierarchical
from ppdinf.lattice.systems import MatrixLike, integer_matrix


@dataclass(frozen=True, eq=False)
class Structure:
    """Fixed, tied and parallel cells and independent blocks of a system with d cells.

    Attributes
    ----------
    lattice : Lattice
        The lattice of the system.
    class_system : scipy.sparse.csc_array of int64, shape (k, n_classes)
        A with one column per class: the constraints on class sums.
    class_sizes : ndarray of int64, shape (n_classes,)
        Number of cells in each class.
    determined : ndarray of bool, shape (n_classes,)
        Whether the sum over the class is equal for all tables of a fiber.
    blocks : ndarray of int64, shape (d,)
        Block of each cell, numbered by first cell.
    block_ranks : ndarray of int64, shape (n_blocks,)
        Rank of the lattice within each block; the sum is the rank of the lattice.
    sum_ranks : ndarray of int64, shape (n_blocks,)
        Dimension of the class sums of each block.
    fixed : ndarray of bool, shape (d,)
        Cells that no lattice vector moves.
    tied_to : ndarray of int64, shape (d,)
        First cell of the group of mutually proportional cells; the cell itself if alone.
    tied_ratio : ndarray of int64, shape (d, 2)
        Numerator and denominator of c in z_i = c z_{tied_to[i]}.

    See Also
    --------
    ppdinf.lattice.structure

    Examples
    --------
    >>> from ppdinf.lattice import structure
    >>> found = structure([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]])
    >>> found.blocks, found.fixed
    (array([0, 0, 1, 1, 2]), array([False, False, False, False,  True]))
    """

    lattice: Lattice
    class_system: sparse.csc_array
    class_sizes: Integers
    determined: Flags
    blocks: Integers
    block_ranks: Integers
    sum_ranks: Integers
    fixed: Flags
    tied_to: Integers
    tied_ratio: Integers

    @property
    def classes(self) -> Integers:
        """Class of each cell, shape (d,); a cell in no constraint is a separate class."""
        return self.lattice.classes

    @property
    def partition(self) -> Flags:
        """Whether every class sum of a block is determined (it is one class), shape (n_blocks,)."""
        return self.sum_ranks == 0

    @property
    def is_partition(self) -> bool:
        """Whether every class sum is determined, so that classes are independent."""
        return bool(self.partition.all())

    def tie(self, cell: int) -> tuple[int, Fraction]:
        """Return the cell j and the ratio c with z_cell = c z_j on the whole lattice.

        Examples
        --------
        >>> from ppdinf.lattice import structure
        >>> structure([[1, 2, 1, 0], [0, 0, 1, 1]]).tie(3)
        (2, Fraction(-1, 1))
        """
        numerator, denominator = self.tied_ratio[cell].tolist()
        return int(self.tied_to[cell]), Fraction(numerator, denominator)

    @cached_property
    def core(self) -> CoreSums:
        """Class sums of blocks with two or more dimensions, computed at first use."""
        block_of_class = self.blocks[self.lattice.representatives]
        return core_sums(self.class_system, self.lattice.class_basis, (self.sum_ranks > 1)[block_of_class])

    @cached_property
    def tables(self) -> list[HierarchicalTable]:
        """Blocks whose class sums form a complete table with margins, computed at first use."""
        block_of_class = self.blocks[self.lattice.representatives]
        crossing = np.flatnonzero(self.sum_ranks[block_of_class] > 0)
        found = []
        for classes in (crossing[group] for group in members(block_of_class[crossing])):
            entries = self.class_system[:, classes]
            if not entries.nnz:
                continue  # a cell in no constraint
            _, rows = np.unique(entries.indices, return_inverse=True)
            system = sparse.csc_array((entries.data, rows, entries.indptr), shape=(rows.max() + 1, classes.size))
            table = hierarchical(system, self.class_sizes[classes])
            if table is not None:
                found.append(replace(table, classes=classes[table.classes]))
        return found

    def restricted(self, cells: Integers) -> tuple[Lattice, list[HierarchicalTable]]:
        """Return the sublattice over the cells of one or more blocks, and its tables."""
        if cells.size == self.blocks.size:
            return self.lattice, self.tables
        wanted, classes = np.unique(self.classes[cells], return_inverse=True)
        place = np.full(self.blocks.size, -1)
        place[cells] = np.arange(cells.size)
        rows = sparse.csc_array(sparse.csr_array(self.lattice.class_basis)[wanted])
        basis = sparse.csc_array(rows[:, np.flatnonzero(np.diff(rows.indptr))])
        lattice = Lattice(classes, place[self.lattice.representatives[wanted]], basis, self.lattice.certificate)
        own = [table for table in self.tables if np.isin(table.classes[0], wanted)]
        return lattice, [replace(table, classes=np.searchsorted(wanted, table.classes)) for table in own]

    def summary(self) -> str:
        """Return a summary of fixed and tied cells, classes and the core.

        Examples
        --------
        >>> from ppdinf.lattice import structure
        >>> print(structure([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 0, 1]]).summary())
        6 cells, lattice of rank 4.
        Released without noise: none.
        Tied to another cell: 1 cell (5).
        Sum over the class is public: 5 cells in 2 classes.
        In no constraint: 1 cell (4).
        One-dimensional class sums: none.
        Core: none.
        """
        d, sizes = self.blocks.size, np.bincount(self.blocks, minlength=self.sum_ranks.size)
        summed = self.partition & (sizes > 1)
        line = (self.sum_ranks == 1) & (sizes > 1)
        core = self.sum_ranks > 1
        lines = [
            f"{d:,} cells, lattice of rank {self.lattice.rank:,}.",
            f"Released without noise: {_listed(self.fixed)}.",
            f"Tied to another cell: {_listed(self.tied_to != np.arange(d))}.",
            f"Sum over the class is public: {_spread(summed, self.blocks, 'class', 'classes')}.",
            f"In no constraint: {_listed(((self.sum_ranks == 1) & (sizes == 1))[self.blocks])}.",
            f"One-dimensional class sums: {_spread(line, self.blocks, 'block', 'blocks')}.",
            f"Core: {_spread(core, self.blocks, 'block', 'blocks')}.",
        ]
        if core.any():
            lines[-1] = f"{lines[-1][:-1]}; {self.core}."
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()


def structure(A: MatrixLike, *, row_names: Sequence[str] | None = None) -> Structure:
    """Compute the fixed, tied and parallel cells and the independent blocks of a system.

    Parameters
    ----------
    A : array_like or scipy sparse of int, shape (k, d)
        Equalities only: inequalities between cells may connect blocks.
    row_names : sequence of str, optional
        Labels for error messages.

    Raises
    ------
    InvariantError
        If A is invalid.

    See Also
    --------
    ppdinf.lattice.Structure, ppdinf.lattice.kernel

    Examples
    --------
    >>> from ppdinf.lattice import structure
    >>> found = structure([[1, 1, 1, 0, 0], [0, 0, 0, 1, 1]])
    >>> found.classes, found.is_partition
    (array([0, 0, 0, 1, 1]), True)
    """
    matrix = integer_matrix(A, row_names)
    lattice = kernel(matrix)
    classes, first = lattice.classes, lattice.representatives
    sizes = np.bincount(classes, minlength=first.size)
    sums = sparse.csr_array(lattice.class_basis)
    determined = np.diff(sums.indptr) == 0

    component = support_components(lattice.class_basis)
    earliest = np.full(component.max(initial=-1) + 1, matrix.shape[1])
    np.minimum.at(earliest, component, first)
    block_of_class = np.argsort(np.argsort(earliest))[component]
    carrier = block_of_class[lattice.class_basis.indices[lattice.class_basis.indptr[:-1]]]
    sum_ranks = np.bincount(carrier, minlength=earliest.size)
    inner_ranks = np.bincount(block_of_class, weights=sizes - 1, minlength=earliest.size).astype(np.int64)

    tied_to, ratio = _ties(lattice, sizes, determined, *proportional_rows(sums))
    return Structure(
        lattice=lattice,
        class_system=matrix[:, first],
        class_sizes=sizes,
        determined=determined,
        blocks=block_of_class[classes],
        block_ranks=inner_ranks + sum_ranks,
        sum_ranks=sum_ranks,
        fixed=(determined & (sizes == 1))[classes],
        tied_to=tied_to,
        tied_ratio=ratio,
    )


def _ties(
    lattice: Lattice, sizes: Integers, determined: Flags, group: Integers, height: Integers
) -> tuple[Integers, Integers]:
    d = lattice.classes.size
    tied_to, ratio = np.arange(d), np.ones((d, 2), dtype=np.int64)
    # A single cell equals its class sum, so proportional sums tie such cells.
    alone = np.flatnonzero((sizes == 1) & ~determined)
    alone = alone[np.argsort(lattice.representatives[alone])]
    _, lead, member = np.unique(group[alone], return_index=True, return_inverse=True)
    cells, leads = lattice.representatives[alone], alone[lead][member]
    tied_to[cells] = lattice.representatives[leads]
    common = np.gcd(height[alone], height[leads]) * np.sign(height[leads])
    ratio[cells] = np.column_stack([height[alone] // common, height[leads] // common])
    # Two cells with a determined sum are opposite. Every other cell has a separate coordinate.
    pair = ((sizes == 2) & determined)[lattice.classes]
    second = np.flatnonzero(pair & (lattice.representatives[lattice.classes] != np.arange(d)))
    tied_to[second] = lattice.representatives[lattice.classes[second]]
    ratio[second, 0] = -1
    return tied_to, ratio


def _listed(mask: Flags, shown: int = 10) -> str:
    found = np.flatnonzero(mask)
    if not found.size:
        return "none"
    names = ", ".join(map(str, found[:shown].tolist()))
    return f"{_count(found.size, 'cell', 'cells')} ({names}{', ...' if found.size > shown else ''})"


def _spread(which: Flags, blocks: Integers, one: str, many: str) -> str:
    if not which.any():
        return "none"
    return f"{_count(which[blocks].sum(), 'cell', 'cells')} in {_count(which.sum(), one, many)}"


def _count(n: int | np.integer, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"
