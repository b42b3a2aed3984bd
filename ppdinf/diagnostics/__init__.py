"""Can this posterior be trusted: movement, convergence, consistency."""

from ppdinf.diagnostics.diagnose import Diagnosis as Diagnosis
from ppdinf.diagnostics.diagnose import diagnose as diagnose
from ppdinf.diagnostics.forgetting import forgetting as forgetting
from ppdinf.diagnostics.movement import movement as movement
from ppdinf.noise.chains.tv_bound import TVBound as TVBound
from ppdinf.noise.chains.tv_bound import tv_bound as tv_bound

__all__ = ["Diagnosis", "TVBound", "diagnose", "forgetting", "movement", "tv_bound"]
