"""What law or custom makes public about a table, declared by its labels."""

from ppdinf.invariants.public import Public as Public
from ppdinf.invariants.public import at_least as at_least
from ppdinf.invariants.public import between as between
from ppdinf.invariants.public import cells as cells
from ppdinf.invariants.public import covariates as covariates
from ppdinf.invariants.public import groups as groups
from ppdinf.invariants.public import hierarchy as hierarchy
from ppdinf.invariants.public import inequality as inequality
from ppdinf.invariants.public import linear as linear
from ppdinf.invariants.public import margin as margin
from ppdinf.invariants.public import nonnegative as nonnegative
from ppdinf.invariants.public import total as total
from ppdinf.invariants.public import zeros as zeros
from ppdinf.invariants.system import System as System

__all__ = [
    "Public", "System", "at_least", "between", "cells", "covariates", "groups", "hierarchy", "inequality",
    "linear", "margin", "nonnegative", "total", "zeros",
]  # fmt: skip
