"""What law or custom makes public about a table, declared by its labels."""

from ppdinf.invariants.statements import Public as Public
from ppdinf.invariants.statements import Sums as Sums
from ppdinf.invariants.statements import covariates as covariates
from ppdinf.invariants.statements import groups as groups
from ppdinf.invariants.statements import margin as margin
from ppdinf.invariants.statements import total as total
from ppdinf.invariants.system import System as System

__all__ = ["Public", "Sums", "System", "covariates", "groups", "margin", "total"]
