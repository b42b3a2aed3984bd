"""Moves for margins of n-way tables: swaps across the separators of a junction tree.

Margins whose generators form a decomposable model (an acyclic hypergraph) have a
junction tree: its edges are the separators. Cutting one edge splits the dimensions into
a side, the separator and another side; with the separator at a common level, exchanging
partners between the sides keeps every margin. Dobra (2003, Bernoulli 9) proves that these
swaps, over all separators, are a Markov basis.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from ppdinf.lattice.families import Family, SeparatorSwaps, Transfers
from ppdinf.lattice.margins import margin_matrix, maximal_generators
from ppdinf.lattice.moves import Bounds, Moves, connected_moves, reason
from ppdinf.lattice.systems import IntVector

__all__ = ["junction_tree", "margin_moves"]

Tree = list[tuple[int, int]]


def margin_moves(
    shape: Sequence[int],
    generators: Iterable[Iterable[int]],
    *,
    bounds: Bounds = "lower",
    seconds: float = 10.0,
) -> Moves:
    """Find moves that connect all n-way tables with the same margins.

    Parameters
    ----------
    shape : sequence of int
        Size of each dimension; cells are in C order.
    generators : iterable of iterables of int
        Dimensions that each margin keeps.
    bounds, seconds
        As for `ppdinf.lattice.moves.connected_moves`, which takes over for models that
        are not decomposable and for bounds other than lower ones.

    Returns
    -------
    Moves

    Raises
    ------
    InvariantError
        If a generator names a dimension that does not exist, or a size is not positive.

    Notes
    -----
    Swaps are drawn, not listed: the cost is one index array of the table per separator.
    Dimensions in no margin make classes, as in `connected_moves`.

    Examples
    --------
    >>> print(margin_moves((2, 3, 4), [(0, 1), (1, 2)]).reason)
    Connects every fiber with lower bounds on cells: swaps across separator (1).
    >>> margin_moves((2, 2, 2), [(0, 1), (1, 2), (0, 2)]).draw(1, rng=1).nnz
    8
    """
    kept = maximal_generators(shape, generators)
    tree = junction_tree(kept)
    if bounds != "lower" or tree is None or len(kept) < 2:
        return connected_moves(margin_matrix(shape, kept), bounds=bounds, seconds=seconds)
    covered = sorted(frozenset().union(*kept))
    inner = [shape[s] for s in covered]
    families: list[tuple[Family, int, bool]] = []
    reasons, arrangements = [], []
    # Dimensions in no margin are summed out: cells that differ only there are a class.
    summed_out = [s for s in range(len(shape)) if s not in covered]
    members = np.arange(math.prod(shape)).reshape(shape).transpose([*covered, *summed_out]).ravel()
    sizes = np.full(math.prod(inner), members.size // math.prod(inner))
    if sizes[0] > 1:
        families.append((Transfers(members, sizes), int((sizes - 1).sum()), False))
        reasons.append("transfers within classes of equal cells")
    for edge in tree:
        separator = kept[edge[0]] & kept[edge[1]]
        levels = _arranged(shape, covered, separator, _side(kept, tree, edge) - separator)
        if min(levels.shape[1:]) > 1:
            arrangements.append(levels)
            reasons.append(f"swaps across separator ({', '.join(map(str, sorted(separator)))})")
    if arrangements:
        families.append((SeparatorSwaps(arrangements, sizes.size), sizes.size, True))
    return Moves(families, members, sizes, True, reason(bounds, list(dict.fromkeys(reasons))))


def junction_tree(generators: Sequence[frozenset[int]]) -> Tree | None:
    """Join generators by largest overlaps, if that keeps every dimension in one piece.

    Parameters
    ----------
    generators : sequence of frozenset of int
        None contained in another.

    Returns
    -------
    list of (int, int), or None
        Edges of a junction tree; None when the model is not decomposable.

    Notes
    -----
    A spanning tree of largest total overlap is a junction tree exactly when that total
    reaches the sum, over dimensions, of the number of generators holding it minus one
    (Jensen and Jensen 1994).

    Examples
    --------
    >>> junction_tree([frozenset({0, 1}), frozenset({1, 2}), frozenset({3})])
    [(0, 1), (0, 2)]
    >>> junction_tree([frozenset({0, 1}), frozenset({1, 2}), frozenset({0, 2})]) is None
    True
    """
    joined, edges = {0}, []
    while len(joined) < len(generators):
        edge = max(
            ((i, j) for i in sorted(joined) for j in range(len(generators)) if j not in joined),
            key=lambda pair: len(generators[pair[0]] & generators[pair[1]]),
        )
        edges.append(edge)
        joined.add(edge[1])
    overlap = sum(len(generators[i] & generators[j]) for i, j in edges)
    return edges if overlap == sum(map(len, generators)) - len(set().union(*generators)) else None


def _side(generators: Sequence[frozenset[int]], tree: Tree, cut: tuple[int, int]) -> frozenset[int]:
    """Dimensions of all generators on the first side of an edge."""
    reached = {cut[0]}
    for _ in tree:
        for i, j in tree:
            if (i, j) != cut and len({i, j} & reached) == 1:
                reached |= {i, j}
    return frozenset().union(*(generators[i] for i in reached))


def _arranged(
    shape: Sequence[int], covered: Sequence[int], separator: frozenset[int], side: frozenset[int]
) -> IntVector:
    """Cells of the covered dimensions as separator levels by levels of either side."""
    parts = [
        [at for at, s in enumerate(covered) if (s in separator, s in side) == where]
        for where in ((True, False), (False, True), (False, False))
    ]
    inner = [shape[s] for s in covered]
    cells = np.arange(math.prod(inner)).reshape(inner).transpose([at for part in parts for at in part])
    return cells.reshape([math.prod(inner[at] for at in part) for part in parts])
