"""Decomposable models: junction trees of sets of margins.

Margins whose generators form an acyclic hypergraph have a junction tree; its edges are the separators. Removing one
edge splits the dimensions into a side, the separator and another side. Exchanging partners between the sides at a
common level of the separator preserves every margin. Dobra (2003, Bernoulli 9) proves that these swaps, over all
separators, are a Markov basis. They are among the swaps of `ppdinf.lattice.moves.margin_swaps`.
"""

from collections.abc import Sequence

Tree = list[tuple[int, int]]


def junction_tree(generators: Sequence[frozenset[int]]) -> Tree | None:
    """Return a junction tree of generators, or None if the model is not decomposable."""
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
