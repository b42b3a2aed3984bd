"""Moves that connect the tables of a fiber, with the theorem that proves it."""

import math
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

import numpy as np
from scipy import sparse

from ppdinf._internal.values import Integers
from ppdinf.errors import InvariantError
from ppdinf.lattice.blocks import Structure, structure
from ppdinf.lattice.margins import HierarchicalTable, margin_matrix, two_way_table
from ppdinf.lattice.move_families import (
    Combinations,
    Cycles,
    Family,
    GraphCycles,
    Listed,
    MarginSwaps,
    Placed,
    Transfers,
    all_enumerated,
    graph_of,
    junction_tree,
    lift,
    margin_swaps,
    margins_of,
)
from ppdinf.lattice.systems import MatrixLike, distinct_rows, exact_product

Kind = Literal["markov", "graver"]


def program(kind: Kind) -> str | None:
    """Return the path of the 4ti2 program, under its own name or Debian's name, or None."""
    return shutil.which(f"4ti2-{kind}") or shutil.which(kind)


def computed_basis(A: sparse.csc_array, kind: Kind, seconds: float) -> sparse.csc_array | None:
    """Compute a Markov or Graver basis with 4ti2."""
    path = program(kind)
    if path is None or seconds <= 0:
        return None
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "system")
        rows = "\n".join(" ".join(map(str, row)) for row in A.toarray().tolist())
        project.with_suffix(".mat").write_text(f"{A.shape[0]} {A.shape[1]}\n{rows}\n")
        try:
            command = [path, "--quiet", "--precision=arbitrary", str(project)]
            subprocess.run(command, check=True, capture_output=True, timeout=seconds, cwd=folder)
            text = project.with_suffix(".mar" if kind == "markov" else ".gra").read_text()
        except (OSError, subprocess.SubprocessError):
            return None
    numbers = np.array(text.split(), np.int64)
    vectors = numbers[2:].reshape(numbers[0], numbers[1])
    if vectors.shape[1] != A.shape[1] or any(exact_product(A, vector).any() for vector in vectors):
        return None
    return sparse.csc_array(vectors.T)


Bounds = Literal["none", "lower", "box", "any"]

LARGEST_COMPUTED = 100
"""Largest number of class sums of a block for 4ti2."""

PREFERRED = 3
"""Number of margin swaps per combination of basis vectors, which is rarely feasible."""


@dataclass(frozen=True, eq=False)
class Moves:
    """Random directions for a Markov chain on a fiber.

    Attributes
    ----------
    families : list of (Family, weight, bool)
        The families, their weights, and whether they are directions of class sums (which are lifted).
    members, sizes : ndarray of int64
        Cells class by class, and the size of each class.
    connected : bool
        Whether the moves are proved to connect every fiber under the given bounds.
    reason : str
        The theorem that is used, for each part.

    See Also
    --------
    ppdinf.lattice.connected_moves

    Examples
    --------
    >>> from ppdinf.lattice import connected_moves
    >>> moves = connected_moves([[1, 1, 1]])
    >>> moves.connected, moves.reason
    (True, 'Connects every fiber with lower bounds on cells: transfers within classes of equal cells.')
    """

    families: Sequence[tuple[Family, float, bool]]
    members: Integers
    sizes: Integers
    connected: bool
    reason: str

    def draw(self, size: int, *, rng: int | np.random.Generator) -> sparse.csc_array:
        """Draw random directions; every move of the set has positive probability.

        The cost is linear in the drawn entries; moves are not listed.

        Parameters
        ----------
        size : int
            Number of directions.
        rng : int or numpy.random.Generator

        Returns
        -------
        scipy.sparse.csc_array of int64, shape (d, size)
            One direction per column, in random order. Families have probabilities proportional to their rank, and
            directions across classes are at least as frequent as those within. A chain may move any integer multiple
            along a direction.

        Examples
        --------
        >>> from ppdinf.lattice import connected_moves
        >>> moves = connected_moves([[1, 1, 0], [0, 0, 1]])
        >>> abs(moves.draw(2, rng=1).toarray())
        array([[1, 1],
               [1, 1],
               [0, 0]])
        """
        generator = np.random.default_rng(rng)
        weights = np.array([weight for _, weight, _ in self.families], dtype=float)
        if not weights.size:
            return sparse.csc_array((self.members.size, size), dtype=np.int64)
        counts = generator.multinomial(size, weights / weights.sum())
        drawn = []
        for (family, _, on_sums), count in zip(self.families, counts.tolist(), strict=True):
            directions = family.draw(count, rng=generator)
            drawn.append(lift(directions, self.members, self.sizes, generator) if on_sums else directions)
        return sparse.csc_array(sparse.hstack(drawn, format="csc")[:, generator.permutation(size)])


def connected_moves(
    A: MatrixLike | Structure, *, bounds: Bounds = "lower", seconds: float = 10.0, shape: Sequence[int] = ()
) -> Moves:
    """Return moves that connect all tables with the same public sums.

    Parameters
    ----------
    A : array_like or scipy sparse of int, shape (k, d), or Structure
    bounds : {"none", "lower", "box", "any"}
        Further restrictions of the tables: none, a lower bound on each cell (such as x >= 0), lower and upper bounds on
        each cell, or any inequalities B x >= b.
    seconds : float
        Time limit of 4ti2, if installed, per block of at most 100 class sums without a theorem. With 0, 4ti2 is not
        used, and the moves do not depend on the machine.
    shape : sequence of int, optional
        Shape of the table whose cells, in C order, are the columns of A. If A contains margins of the table, their
        swaps are among the moves.

    Raises
    ------
    InvariantError
        If A is invalid or `bounds` is not one of the four words.

    See Also
    --------
    ppdinf.lattice.margin_moves, ppdinf.lattice.Moves

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.lattice import connected_moves
    >>> two_way = np.vstack([np.kron(np.eye(3, dtype=int), [1] * 4), np.tile(np.eye(4, dtype=int), 3)])
    >>> print(connected_moves(two_way).reason)
    Connects every fiber with lower bounds on cells: basic swaps of a 3 x 4 table.
    """
    if bounds not in get_args(Bounds):
        raise InvariantError(f"bounds must be one of {', '.join(map(repr, get_args(Bounds)))}, found {bounds!r}.")
    found = A if isinstance(A, Structure) else structure(A)
    members = np.argsort(found.classes, kind="stable")
    sizes = found.class_sizes
    if bounds in ("none", "any"):
        basis = found.lattice.basis
        everything: Family = Listed(basis) if bounds == "none" else Combinations(basis)
        why = "basis vectors" if bounds == "none" else "integer combinations of the basis"
        parts = [(everything, found.lattice.rank, False)] if found.lattice.rank else []
        swaps = _swaps(found, shape)[0] if bounds == "any" and (found.sum_ranks > 1).any() else None
        parts += [(swaps, PREFERRED * found.lattice.rank, False)] if swaps is not None else []
        return Moves(parts, members, sizes, True, reason(bounds, [why] if parts else []))
    families: list[tuple[Family, float, bool]] = []
    reasons: list[str] = []
    if sizes.max(initial=0) > 1:
        families.append((Transfers(members, sizes), int((sizes - 1).sum()), False))
        reasons.append("transfers within classes of equal cells")
    across = list(_on_class_sums(found, bounds, seconds, shape))
    # at least as often as transfers: most moves with random cells of a class would make a count negative
    share = max(1.0, sum(weight for _, weight, _ in families) / max(1, sum(rank for _, rank, *_ in across)))
    for family, rank, on_sums, theorems in across:
        families.append((family, share * rank, on_sums))
        reasons += [theorem for theorem in theorems if theorem not in reasons]
    return Moves(families, members, sizes, True, reason(bounds, reasons))


def margin_moves(
    shape: Sequence[int], generators: Iterable[Iterable[int]], *, bounds: Bounds = "lower", seconds: float = 10.0
) -> Moves:
    """Return moves that connect all n-way tables with the same margins.

    Parameters
    ----------
    shape : sequence of int
        Size of each dimension; cells are in C order.
    generators : iterable of iterables of int
        Dimensions of each margin.
    bounds, seconds
        As for `connected_moves`.

    Raises
    ------
    InvariantError
        If a generator names a dimension that does not exist, or a size is not positive.

    See Also
    --------
    ppdinf.lattice.connected_moves, ppdinf.lattice.margin_matrix

    Examples
    --------
    >>> from ppdinf.lattice import margin_moves
    >>> print(margin_moves((2, 3, 2, 2), [(0, 1), (1, 2), (2, 3)]).reason)
    Connects every fiber with lower bounds on cells: swaps across separator (1); swaps across separator (2).
    """
    return connected_moves(margin_matrix(shape, generators), bounds=bounds, seconds=seconds, shape=shape)


def _on_class_sums(
    found: Structure, bounds: Bounds, seconds: float, shape: Sequence[int]
) -> Iterable[tuple[Family, int, bool, list[str]]]:
    """Return families with weights, whether they are directions of class sums, and why they connect."""
    basis = found.lattice.class_basis
    block_of_class = found.blocks[found.lattice.representatives]
    block_of_vector = block_of_class[basis.indices[basis.indptr[:-1]]]
    lines = np.flatnonzero((found.sum_ranks == 1)[block_of_vector])
    if lines.size:
        yield Listed(basis[:, lines]), lines.size, True, ["the one direction of each one-dimensional block"]
    n, others = basis.shape[0], []
    for block in np.flatnonzero(found.sum_ranks > 1).tolist():
        classes = np.flatnonzero(block_of_class == block)
        system = distinct_rows(found.class_system[:, classes])
        table = two_way_table(system)
        ends = graph_of(system) if table is None else None
        if ends is not None:
            yield GraphCycles(*ends, classes, n), int(found.sum_ranks[block]), True, ["cycles of a graph"]
            continue
        if table is None:
            others.append((block, classes, system))
            continue
        rows, columns = table.shape
        longest = 2 if bounds == "lower" else min(rows, columns)
        what = "basic swaps" if longest == 2 else "alternating cycles"
        yield Cycles(classes[table], n, longest), int(found.sum_ranks[block]), True, [
            f"{what} of a {rows} x {columns} table"
        ]  # fmt: skip
    swaps, separators = _swaps(found, shape) if others else (None, [])
    proved = separators if bounds == "lower" else []
    if swaps is not None:
        yield swaps, PREFERRED * sum(int(found.sum_ranks[block]) for block, _, _ in others), False, proved
    tables = {int(block_of_class[table.classes[0]]): table for table in found.tables} if others and not proved else {}
    for block, classes, system in [] if proved else others:
        table_swaps, separators = _table_swaps(tables.get(block)) if bounds == "lower" else (None, [])
        if table_swaps is not None and separators:
            yield Placed(table_swaps, tables[block].classes, n), int(found.sum_ranks[block]), True, separators
            continue
        rank, kind = int(found.sum_ranks[block]), "markov" if bounds == "lower" else "graver"
        listed = computed_basis(system, cast(Kind, kind), seconds) if classes.size <= LARGEST_COMPUTED else None
        if listed is not None:
            placed = sparse.csc_array((listed.data, classes[listed.indices], listed.indptr), shape=(n, listed.shape[1]))
            yield Listed(placed), rank, True, [f"{kind.capitalize()} bases by 4ti2"]
        else:
            combinations = Combinations(basis[:, block_of_vector == block])
            yield combinations, rank, True, ["integer combinations of the reduced basis"]


def _swaps(found: Structure, shape: Sequence[int]) -> tuple[MarginSwaps | None, list[str]]:
    """Return swaps of the margins of a system, and the reason if they connect under lower bounds."""
    generators = margins_of(found.lattice, shape) if math.prod(shape) == found.blocks.size and shape else None
    if generators is None:
        return None, []
    swaps, separators = _across_separators(shape, generators)
    return swaps, [f"swaps across separator ({', '.join(map(str, separator))})" for separator in separators]


def _table_swaps(table: HierarchicalTable | None) -> tuple[MarginSwaps | None, list[str]]:
    """Return swaps of a block of class sums that is a table with margins, like `_swaps`."""
    swaps, separators = (None, []) if table is None else _across_separators(table.shape, table.generators)
    return swaps, [f"swaps across the {len(separators)} separators of a {table}"] * bool(separators)


def _across_separators(
    shape: Sequence[int], generators: list[frozenset[int]]
) -> tuple[MarginSwaps | None, list[list[int]]]:
    """Return swaps of margins, and the separators of a junction tree if all swaps across them are included."""
    swaps = margin_swaps(shape, generators)
    tree = junction_tree(generators) if swaps is not None and all_enumerated(2, shape) else None
    return swaps, [sorted(generators[i] & generators[j]) for i, j in tree or []]


def reason(bounds: Bounds, parts: Sequence[str]) -> str:
    """Return the statement that the parts together prove."""
    fiber = {
        "none": "every fiber without bounds",
        "lower": "every fiber with lower bounds on cells",
        "box": "every fiber with lower and upper bounds on cells",
        "any": "every fiber with any inequalities",
    }[bounds]
    return f"Connects {fiber}: {'; '.join(parts) or 'nothing moves'}."
