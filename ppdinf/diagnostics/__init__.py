"""Diagnostics of a posterior: movement, convergence, consistency.

Every finding states a remedy.

calibration      Simulation-based calibration of an inference procedure.
convergence      R-hat and effective sample sizes of every element of a variable, and limits of the largest of many
                 R-hats.
diagnose         `diagnose`: all checks of a posterior in one call, with remedies.
missed_modes     Comparison of the chains with importance sampling, which detects modes that no chain visited.
movement         Movement of a chain of tables: changes of each cell, cells that can move, and a bound by coupled
                 chains.
parametrization  Variables whose parametrization makes NUTS take short steps or diverge.
problems         Problems of a posterior, each a sentence with a remedy.
"""

from ppdinf.diagnostics.diagnose import Diagnosis, diagnose
from ppdinf.diagnostics.movement import acceptance_by_cell, coupling_bound
from ppdinf.noise.mcmc.tv_bound import TVBound, tv_bound

__all__ = ["Diagnosis", "TVBound", "acceptance_by_cell", "coupling_bound", "diagnose", "tv_bound"]
