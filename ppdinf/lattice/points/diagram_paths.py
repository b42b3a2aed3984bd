"""Random and cheapest paths of a decision diagram.

A path has the product of the weights of its edges. Totals are stored as ``total * BASE**exponent``, which avoids
overflow and underflow.
"""

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.lattice.algebra.systems import IntVector

BASE = 2.0**200  # base of the exponents of weights
LOG_BASE = 200 * 0.6931471805599453
HUGE = 1e15  # log weights below minus this are treated as -inf

type Reals = NDArray[np.float64]


@jit
def _scaled(total: float, exponent: int) -> tuple[float, int]:
    """Normalise a positive number ``total * BASE**exponent`` to a total from 1 to BASE."""
    while total >= BASE:
        total, exponent = total / BASE, exponent + 1
    while 0.0 < total < 1.0:
        total, exponent = total * BASE, exponent - 1
    return total, exponent


@jit
def _power(exponent: int) -> float:
    """Return ``BASE**exponent`` for an exponent of at most 0, or 0 if products of two totals would underflow."""
    return 1.0 if exponent == 0 else 1.0 / BASE if exponent == -1 else 1.0 / BASE / BASE if exponent == -2 else 0.0


@jit
def _relative(term: float, exponent: int) -> float:
    """Return ``term * BASE**exponent`` without overflow."""
    while exponent > 0:
        term, exponent = term * BASE, exponent - 1
    return term * _power(exponent)


@jit
def draw_path(first: IntVector, child: IntVector, position: IntVector, log_weights: Reals, uniform: Reals) -> IntVector:
    """Draw a path: the position of each layer's value, or -1 in the first place if all paths have weight 0."""
    weights, powers = np.zeros(log_weights.size), np.zeros(log_weights.size, dtype=np.int64)
    for k in range(log_weights.size):
        if log_weights[k] > -HUGE:
            powers[k] = int(np.floor(log_weights[k] / LOG_BASE))
            weights[k] = np.exp(log_weights[k] - powers[k] * LOG_BASE)
    # backward pass: total weight of the paths from each node to the end
    totals, exponents = np.zeros(first.size), np.zeros(first.size, dtype=np.int64)
    totals[first.size - 1] = 1.0  # the end node
    for node in range(first.size - 2, -1, -1):
        total, exponent = 0.0, 0
        for e in range(first[node], first[node + 1]):
            term, power = weights[position[e]] * totals[child[e]], powers[position[e]] + exponents[child[e]]
            if term == 0.0:
                continue
            if total == 0.0:
                total, exponent = term, power
            elif power == exponent:
                total += term
            elif power > exponent:
                total, exponent = total * _power(exponent - power) + term, power
            else:
                total += term * _power(power - exponent)
        totals[node], exponents[node] = _scaled(total, exponent)
    found, node = np.full(uniform.size, -1), 0
    if totals[0] == 0.0 or (first.size == 1 and uniform.size > 0):
        return found
    # forward pass: choose an edge with probability proportional to the weight of the paths through it
    for k in range(uniform.size):
        left, chosen = uniform[k] * totals[node], -1
        for e in range(first[node], first[node + 1]):
            term, power = weights[position[e]] * totals[child[e]], powers[position[e]] + exponents[child[e]]
            term = 0.0 if term == 0.0 else _relative(term, power - exponents[node])
            if term > 0.0:
                chosen = e
                left -= term
                if left < 0.0:
                    break
        found[k], node = position[chosen], child[chosen]
    return found


@jit
def cheapest_path(first: IntVector, child: IntVector, position: IntVector, cost: Reals, layers: int) -> IntVector:
    """Return the path of smallest cost: the position of each layer's value, or -1 first if all are infinite."""
    totals, best = np.zeros(first.size), np.zeros(first.size, dtype=np.int64)
    for node in range(first.size - 2, -1, -1):
        totals[node] = np.inf
        for e in range(first[node], first[node + 1]):
            total = cost[position[e]] + totals[child[e]]
            if total < totals[node]:
                totals[node], best[node] = total, e
    found, node = np.full(layers, -1), 0
    if totals[0] == np.inf or (first.size == 1 and layers > 0):
        return found
    for k in range(layers):
        found[k], node = position[best[node]], child[best[node]]
    return found
