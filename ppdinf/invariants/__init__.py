"""Public statements about a table, declared by its labels.

Rule: statements refer to labels; bound to a table, they are a sparse integer system that all other packages read.

bounds         Statements that hold for every possible table: limits of counts, and counts that exceed others.
cells          Cells chosen by label: published exactly, or structural zeros.
covariates     Coordinates of a table that are public and published with its release.
domain         Labels and their order that a table has independently of its counts.
matrices       Integer combinations of cells: published exactly, or with known lower limits.
names          Names of rows, which are composed only when they are read.
public         All public statements about a table, joined by ``&``.
selected_sums  Some of the sums of other statements, published exactly.
statement      The base class of public statements: rows by label, a sentence, data for the release file.
sums           Public sums: the total, margins, groups by a coordinate or a mapping, and hierarchies.
system         Public statements bound to a table: the sparse integer system ``A x = a, B x >= b`` with named rows.
unit           The protected unit, and the number of records that one unit may have.
"""

from ppdinf.invariants.bounds import at_least as at_least
from ppdinf.invariants.bounds import between as between
from ppdinf.invariants.bounds import nonnegative as nonnegative
from ppdinf.invariants.cells import cells as cells
from ppdinf.invariants.cells import zeros as zeros
from ppdinf.invariants.covariates import covariates as covariates
from ppdinf.invariants.domain import labels as labels
from ppdinf.invariants.matrices import inequality as inequality
from ppdinf.invariants.matrices import linear as linear
from ppdinf.invariants.public import Public as Public
from ppdinf.invariants.sums import groups as groups
from ppdinf.invariants.sums import hierarchy as hierarchy
from ppdinf.invariants.sums import margin as margin
from ppdinf.invariants.sums import total as total
from ppdinf.invariants.system import System as System
from ppdinf.invariants.unit import unit as unit

__all__ = [
    "Public", "System", "at_least", "between", "cells", "covariates", "groups", "hierarchy", "inequality",
    "labels", "linear", "margin", "nonnegative", "total", "unit", "zeros",
]  # fmt: skip
