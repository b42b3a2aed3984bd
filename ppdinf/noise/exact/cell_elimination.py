"""Noise of any law of independent integers under crossing public sums: elimination over the cells.

The work of an elimination is estimated before it starts. For l1 noise, `class_sums` needs fewer multiplications.
"""

import math

import numpy as np
import scipy.sparse as sp

from ppdinf._internal.values import Integers, Reals
from ppdinf.lattice.blocks import Structure
from ppdinf.lattice.class_sums import elimination_order
from ppdinf.lattice.integer_rows import row_algebra
from ppdinf.lattice.systems import MatrixLike, equal_columns
from ppdinf.laws import DoubleGeometric, IntegerLaw, Law
from ppdinf.noise.exact.potentials import symmetric
from ppdinf.noise.exact.sampler_offer import Answer, Declined, Offer, is_one_block
from ppdinf.noise.exact.variable_elimination import LARGEST_SCOPE, LARGEST_WORK, Elimination, steps

LEFT_OUT = -56.0  # log probability outside the initial truncation
DEVIATIONS = 11.0  # standard deviations of a sum at which it is truncated
NEAR = 2**9


def offer(structure: Structure, law: Law, cells: Integers) -> Answer:
    """Offer to draw complete blocks if elimination takes at most about 10 s, by an estimate of its multiplications."""
    if not isinstance(law, IntegerLaw) or isinstance(law, DoubleGeometric):
        return None
    if law.log_quadratic is not None and not is_one_block(structure, cells):
        return None
    rows = sp.csc_array(structure.class_system[:, structure.classes[cells]])
    work = elimination_work(rows, np.full(cells.size, np.inf), law)
    if work > LARGEST_WORK:
        remedy = "choose less noise, or publish fewer crossing sums"
        return Declined(lambda: f"elimination would take {steps(work)}; {remedy}", LARGEST_WORK / work)
    potentials = [symmetric(law)] * cells.size
    return Offer("elimination", cells, lambda: Elimination(rows, [0] * rows.shape[0], potentials).draw)


def elimination_work(rows: MatrixLike, half: Reals, law: IntegerLaw) -> float:
    """Estimate the multiplications of an elimination."""
    reach = float(law.tail_start(LEFT_OUT))
    sizes = np.arange(-NEAR, NEAR + 1) * max(1.0, reach / NEAR)
    weights = np.exp([float(law.log_weight(int(size))) for size in sizes])
    spread = math.sqrt(float(weights @ sizes**2 / weights.sum()))
    half = np.clip(half, 0.0, reach)
    spreads = np.minimum(spread, half)
    A = sp.csc_array(sp.csr_array(rows)[row_algebra(sp.csc_array(rows)).independent])
    size = abs(A)
    # Number of values of each partial sum: from the intervals, or from a multiple of its standard deviation.
    width = 1 + 2 * np.minimum(
        size @ half, float(size.data.max(initial=0)) * reach + DEVIATIONS * np.sqrt(size**2 @ spreads**2)
    )
    column_kinds, _ = equal_columns(A)
    order, work = elimination_order(A), 0.0
    if order.width >= LARGEST_SCOPE:
        return math.inf
    # Work of each elimination step: convolutions of identical cells in pairs, then one product per step.
    for row, near, cells in zip(order.rows, order.open_rows, order.variables, strict=True):
        groups = np.unique(column_kinds[cells], return_counts=True)[1]
        widest = 1 + 2 * float(half[cells].max(initial=0.0))
        for n in groups.tolist():
            while n > 1:  # in pairs
                work += n / 2 * widest**2
                widest = min(2 * widest, 1 + 2 * reach + 2 * DEVIATIONS * spread * math.sqrt(groups.max() / n * 2))
                n /= 2
            work += widest * math.prod(width[[row, *near]].tolist())
    return work
