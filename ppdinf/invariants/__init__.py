"""What law or custom makes public about a table, declared by its labels."""

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
