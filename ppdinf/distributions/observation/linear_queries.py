"""Windows and moves of confidential cells for releases of linear queries W x.

All released answers together bound each cell, because the noise of each answer is at most its support radius. The ends
of the windows are solutions of linear programs.
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
from ppdinf.laws.real_valued.noise_norm import NoiseNorm

SHORT = 200  # maximum number of cells for lattice reduction


def cell_windows(observed: Observed, nonnegative: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the smallest and largest count of every cell that agrees with all answers within the noise radius."""
    system, likelihood, y = observed.system, observed.likelihood, observed.y
    query, radius = sp.csr_array(likelihood.query), likelihood.support_radius
    rows = {
        "A_ub": sp.vstack([query, -query, -system.B]),
        "b_ub": np.concatenate([y + radius, radius - y, -system.limits]),
        "A_eq": system.A if system.values.size else None,
        "b_eq": system.values if system.values.size else None,
        "bounds": [(0 if below else None, None) for below in nonnegative],
    }
    ends = np.empty((2, nonnegative.size))
    for cell in range(nonnegative.size):
        for end, sign in enumerate((1, -1)):
            goal = np.zeros(nonnegative.size)
            goal[cell] = sign
            solution = linprog(goal, **rows)
            if solution.status == 2:
                raise ModelError("no table agrees with both the answers and the public statements: check the mechanism")
            if not solution.success:
                side, advice = (
                    ("smallest", "use a non-negative distribution")
                    if sign > 0
                    else ("largest", "inference requires an answer, or a public sum of answers, that includes the cell")
                )
                raise ModelError(f"the answers leave the count at {system.frame.cell(cell)} no {side} value: {advice}")
            ends[end, cell] = sign * solution.fun
    # one more count on either side, for rounding errors of the programs
    return np.floor(ends[0]).astype(np.int64) - 1, np.ceil(ends[1]).astype(np.int64) + 1


def short_moves(moves: Moves, system: System, norm: NoiseNorm) -> Moves:
    """Add moves with the least change of the answers (a basis reduced in the noise's norm) to connecting moves."""
    basis = system.lattice.basis
    if not 0 < basis.shape[1] <= SHORT:
        return moves
    image = norm.matrix @ basis
    scaled = np.rint(image.toarray().T * (1000 / max(abs(image).max(), 1e-300))).astype(np.int64)
    rows = np.hstack([scaled, basis.toarray().T])
    reduced = np.array(fmpz_mat(rows.tolist()).lll().tolist(), dtype=object)[:, scaled.shape[1] :].astype(np.int64)
    short = Listed(sp.csc_array(reduced.T))
    return replace(moves, families=[*moves.families, (short, basis.shape[1], False)])
