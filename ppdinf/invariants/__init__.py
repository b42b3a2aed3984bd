"""Public statements about a table, declared by its labels.

Rule: statements refer to labels; bound to a table, they are a sparse integer system that all other packages read.

cells      Statements about cells: published exactly, structural zeros, limits of counts, and counts that exceed others.
matrices   Integer combinations of cells: published exactly, or with known lower limits, such as those of percentages.
metadata   Public metadata of a table: covariates, labels of its dimensions, and the protected unit.
public     All public statements about a table, joined by ``&``, and the integer system to which they are bound.
statement  The base class of public statements, and the names of their rows.
sums       Public sums: the total, margins, groups by a coordinate or a mapping, hierarchies, and selections of sums.
"""

from ppdinf.invariants.cells import at_least, between, cells, nonnegative, zeros
from ppdinf.invariants.matrices import inequality, linear, shares
from ppdinf.invariants.metadata import covariates, labels, unit
from ppdinf.invariants.public import Public, System
from ppdinf.invariants.sums import groups, hierarchy, margin, total

__all__ = [
    "Public", "System", "at_least", "between", "cells", "covariates", "groups", "hierarchy", "inequality",
    "labels", "linear", "margin", "nonnegative", "shares", "total", "unit", "zeros",
]  # fmt: skip
