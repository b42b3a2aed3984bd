"""Bounds of cells, and distances of laws, by programmes that HiGHS solves through SciPy, independent of the package."""

import math

import numpy as np
from scipy.optimize import LinearConstraint, linprog, milp


def programme(low, high, rows):
    """Return the smallest and largest count of each cell, shape (2, cells), within limits of cells and of rows."""
    limits = [LinearConstraint(weights, least, most) for weights, least, most in rows]
    found = np.empty((2, low.size))
    for k, sign in np.ndindex(low.size, 2):
        goal = np.zeros(low.size)
        goal[k] = 1 - 2 * sign
        solved = milp(goal, integrality=np.ones(low.size), bounds=(low, high), constraints=limits)
        unbounded = solved.status in (3, 4) and sign
        assert unbounded or solved.status == 0, solved.message
        found[sign, k] = math.inf if unbounded else abs(round(solved.fun))
    return found


def distance_by_programme(law, other, order):
    """Return the infinity-Wasserstein distance: the least distance within which a coupling exists."""
    first, second = np.array(list(law)), np.array(list(other))
    away = np.linalg.norm(first[:, np.newaxis] - second, ord=order, axis=2)
    rows = [np.kron(np.eye(len(first)), np.ones(len(second))), np.kron(np.ones(len(first)), np.eye(len(second)))]
    masses = np.array([*law.values(), *other.values()], dtype=float)
    for reach in np.unique(away):
        ends = [(0, float(near)) for near in (away <= reach + 1e-9).ravel()]
        if linprog(np.zeros(away.size), A_eq=np.vstack(rows), b_eq=masses, bounds=ends).status == 0:
            return reach
    raise AssertionError("no coupling")
