"""Windows and moves of confidential cells, where a release answers linear queries W x on them.

How far a cell can be from others'
counts follows from all answers together, each of which noise moves by no more than its reach: the ends of a window are
linear programmes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from flint import fmpz_mat
from numpy.typing import NDArray
from scipy.optimize import linprog

from ppdinf.distributions.observation.observed import Observed
from ppdinf.errors import ModelError
from ppdinf.invariants import System
from ppdinf.lattice.moves.families import Listed
from ppdinf.lattice.moves.moves import Moves
from ppdinf.laws.noise_norm import NoiseNorm

__all__ = ["cell_windows", "short_moves"]

SHORT = 200  # cells for which a lattice is reduced


def cell_windows(observed: Observed, nonnegative: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the smallest and largest count of every cell from which noise reaches all answers.

    Parameters
    ----------
    observed : Observed
        Answers.
    nonnegative : array of bool, shape (d,)
        Cells whose counts the data model takes to be 0 or more.

    Raises
    ------
    ModelError
        Naming a cell whose count no answer and no public sum bounds.
    """
    system, likelihood, y = observed.system, observed.likelihood, observed.y
    query, reach = sp.csr_array(likelihood.query), likelihood.support_radius
    rows = {
        "A_ub": sp.vstack([query, -query, -system.B]),
        "b_ub": np.concatenate([y + reach, reach - y, -system.limits]),
        "A_eq": system.A if system.values.size else None,
        "b_eq": system.values if system.values.size else None,
        "bounds": [(0 if below else None, None) for below in nonnegative],
    }
    ends = np.empty((2, nonnegative.size))
    for cell in range(nonnegative.size):
        for end, sign in enumerate((1, -1)):
            goal = np.zeros(nonnegative.size)
            goal[cell] = sign
            found = linprog(goal, **rows)
            if found.status == 2:
                raise ModelError("no table agrees with both the answers and what is public: check the mechanism")
            if not found.success:
                side, advice = (
                    ("smallest", "give it a distribution that is never negative")
                    if sign > 0
                    else ("largest", "inference needs an answer, or a public sum of answers, that counts it")
                )
                raise ModelError(f"the answers leave the count at {system.frame.cell(cell)} no {side} value: {advice}")
            ends[end, cell] = sign * found.fun
    # one more count on either side, for what the programmes round
    return np.floor(ends[0]).astype(np.int64) - 1, np.ceil(ends[1]).astype(np.int64) + 1


def short_moves(moves: Moves, system: System, norm: NoiseNorm) -> Moves:
    """Add to moves that connect the fiber those that change the answers least, a basis reduced in the noise's norm.

    Records that move together to where no answer tells them apart go further than records that move alone.
    """
    basis = system.lattice.basis
    if not 0 < basis.shape[1] <= SHORT:
        return moves
    seen = norm.matrix @ basis
    scaled = np.rint(seen.toarray().T * (1000 / max(abs(seen).max(), 1e-300))).astype(np.int64)
    rows = np.hstack([scaled, basis.toarray().T])
    reduced = np.array(fmpz_mat(rows.tolist()).lll().tolist(), dtype=object)[:, scaled.shape[1] :].astype(np.int64)
    short = Listed(sp.csc_array(reduced.T))
    return replace(moves, families=[*moves.families, (short, basis.shape[1], False)])
