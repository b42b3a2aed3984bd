"""Bounds of cells by integer programmes that HiGHS solves through SciPy, independent of the package."""

import math

import numpy as np
from scipy.optimize import LinearConstraint, milp


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
