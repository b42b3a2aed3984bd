"""The total weight of all noise that keeps public sums: the normalizer of the density of a release.

Blocks of a system have independent noise. The total weight of a class with a public sum is that of independent noise
with the sum 0 (`ppdinf.laws.IntegerLaw.log_total_of_sum`). That of crossing sums is computed by elimination if this
takes less than a second. Wide Gaussian noise on any lattice has the total weight of an integral. l2 noise is a mixture
of Gaussian noise over its scale.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy.sparse as sp

from ppdinf._internal.values import Integers
from ppdinf.errors import InvariantError
from ppdinf.lattice.blocks import Structure
from ppdinf.laws import DiscreteGaussian, IntegerLaw, L2Laplace
from ppdinf.laws.l2_laplace import log_l2_total
from ppdinf.noise.exact.cell_elimination import elimination_work
from ppdinf.noise.exact.potentials import symmetric
from ppdinf.noise.exact.variable_elimination import Elimination

QUICK = 10**8  # multiplications of an elimination that takes less than a second
LARGEST_RANK = 1000  # largest dimension of a basis that is orthogonalized
NEGLIGIBLE = -40.0  # log of a negligible relative error
SLACK = 16  # factor by which an elimination may exceed the estimate of its multiplications


def log_total(structure: Structure, law: IntegerLaw | L2Laplace) -> float | None:
    """Return the log of the sum of the weights of all noise on the lattice of a system; zero noise has weight 1."""
    budget = _Budget(QUICK)
    try:
        if not isinstance(law, L2Laplace):
            return _of_blocks(structure, law, budget)

        def log_gaussian_total(variance: Fraction) -> float:
            return _of_blocks(structure, DiscreteGaussian(variance=variance), budget)

        return log_l2_total(log_gaussian_total, law.epsilon, 0.0, structure.lattice.rank)
    except InvariantError:
        return None


@dataclass
class _Budget:
    """Multiplications that all eliminations of a total may still take, by their estimates."""

    left: float


def _of_blocks(structure: Structure, law: IntegerLaw, budget: _Budget) -> float:
    """Return the log total weight of independent noise."""
    in_classes = structure.partition[structure.blocks]
    sizes = Counter(np.unique(structure.classes[in_classes], return_counts=True)[1].tolist())
    crossing = np.flatnonzero(~in_classes)
    alone = np.bincount(structure.blocks)[structure.blocks[crossing]] == 1  # single cells without a public sum
    totals = [float(alone.sum()) * law.log_total] if alone.any() else []
    for size, number in sizes.items():
        total = law.log_total_of_sum(size)
        if total is None:
            raise InvariantError(f"the sum of {law.name} noise of {size:,} cells covers too many integers")
        totals.append(number * total)
    for block in np.unique(structure.blocks[crossing[~alone]]):
        cells = np.flatnonzero(structure.blocks == block)
        smooth = _of_smooth_gaussian(structure, cells, law) if isinstance(law, DiscreteGaussian) else None
        if smooth is not None:
            totals.append(smooth)
            continue
        rows = sp.csc_array(structure.class_system[:, structure.classes[cells]])
        work = elimination_work(rows, np.full(cells.size, np.inf), law)
        if work > budget.left:
            raise InvariantError(f"public sums cross too much for a quick sum of {law.name} noise")
        elimination = Elimination(rows, [0] * rows.shape[0], [symmetric(law)] * cells.size, largest=SLACK * budget.left)
        budget.left -= work
        totals.append(elimination.log_normaliser)
    return float(sum(totals))


def _of_smooth_gaussian(structure: Structure, cells: Integers, law: DiscreteGaussian) -> float | None:
    """Return the total weight of Gaussian noise on a block if it is an integral in double precision, otherwise None."""
    variance = float(law.variance)
    if structure.block_ranks[structure.blocks[cells[0]]] > LARGEST_RANK:
        return None
    basis = structure.restricted(cells)[0].basis.toarray().astype(np.float64)
    lengths = np.abs(np.diag(np.linalg.qr(basis, mode="r")))
    if np.log(lengths.size) - 2 * np.pi**2 * variance / lengths.max() ** 2 > NEGLIGIBLE:
        return None
    return float(lengths.size / 2 * np.log(2 * np.pi * variance) - np.log(lengths).sum())
