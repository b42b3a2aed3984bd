"""What law or custom makes public about a table, declared by its labels.

Rule: statements speak of labels; bound to a table, they are one sparse integer system, which all other rooms read.

bounds      what is known to hold for every possible table: limits of counts, and counts that exceed others
cells       cells chosen by label: published exactly, or empty by definition
covariates  coordinates of a table that are public and travel with its release
domain      labels that a table has whatever its counts, in an order that its counts do not decide
matrices    any integer combinations of cells: published exactly, or known to have lower limits
names       names of rows, spelled out when one is asked for: of ten million, few are ever read
public      everything that is public about a table: statements joined by ``&``
statement   what every public statement shares: rows by label, a sentence, a form for the release file
sums        public sums: the total, margins, groups by a coordinate or a mapping, and hierarchies of them
system      public statements bound to a table: the sparse integer system ``A x = a, B x >= b`` with named rows
unit        whom a guarantee protects, and how many records one of them may have
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
