"""Public statements about a table, declared by its labels.

Rule: statements refer to labels; bound to a table, they are a sparse integer system that all other packages read.

cells      Statements about cells: published exactly, structural zeros, limits of counts, and counts that exceed others.
matrices   Integer combinations of cells: published exactly, or with known lower limits, such as those of percentages.
metadata   Public metadata of a table: covariates, labels of its dimensions, and the protected unit.
public     All public statements about a table, joined by ``&``, and the integer system to which they are bound.
statement  The base class of public statements, and the names of their rows.
sums       Public sums: the total, margins, groups by a coordinate or a mapping, hierarchies, and selections of sums.
"""

from ppdinf.invariants.cells import at_least as at_least
from ppdinf.invariants.cells import between as between
from ppdinf.invariants.cells import cells as cells
from ppdinf.invariants.cells import nonnegative as nonnegative
from ppdinf.invariants.cells import zeros as zeros
from ppdinf.invariants.matrices import inequality as inequality
from ppdinf.invariants.matrices import linear as linear
from ppdinf.invariants.matrices import shares as shares
from ppdinf.invariants.metadata import covariates as covariates
from ppdinf.invariants.metadata import labels as labels
from ppdinf.invariants.metadata import unit as unit
from ppdinf.invariants.public import Public as Public
from ppdinf.invariants.public import System as System
from ppdinf.invariants.sums import groups as groups
from ppdinf.invariants.sums import hierarchy as hierarchy
from ppdinf.invariants.sums import margin as margin
from ppdinf.invariants.sums import total as total

__all__ = [
    "Public", "System", "at_least", "between", "cells", "covariates", "groups", "hierarchy", "inequality",
    "labels", "linear", "margin", "nonnegative", "shares", "total", "unit", "zeros",
]  # fmt: skip
