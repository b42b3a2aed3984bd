"""Can this posterior be trusted: movement, convergence, consistency."""

from ppdinf.diagnostics.diagnose import Diagnosis as Diagnosis
from ppdinf.diagnostics.diagnose import diagnose as diagnose
from ppdinf.diagnostics.movement import movement as movement

__all__ = ["Diagnosis", "diagnose", "movement"]
