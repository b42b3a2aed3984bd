"""Diagnostics of a posterior: movement, convergence, consistency.

Every finding states a remedy.

acceptance_by_cell  Movement of each cell of a chain of tables, which R-hat and ESS cannot detect if nothing moves.
calibration         Simulation-based calibration of an inference procedure.
chain_statistics    R-hat and effective sample sizes of many numbers at a time.
convergence         R-hat and effective sample sizes of every element of a variable, by label.
coupling_bound      Upper bound, by coupled chains, on the distance of a table's chain from its conditional posterior.
diagnose            `diagnose`: all checks of a posterior in one call, with remedies.
missed_modes        Comparison of the chains with importance sampling, which detects modes that no chain visited.
mobile_cells        Cells of a sampled table that the Gibbs step moves from posterior draws.
parametrization     Variables whose parametrization makes NUTS take short steps or diverge.
problems            Problems of a posterior, each a sentence with a remedy.
rhat                Limit of the largest of many R-hats, and its display.
truncation_check    Posterior probability of a table outside its truncation windows.
"""

from ppdinf.diagnostics.acceptance_by_cell import acceptance_by_cell as acceptance_by_cell
from ppdinf.diagnostics.coupling_bound import coupling_bound as coupling_bound
from ppdinf.diagnostics.diagnose import Diagnosis as Diagnosis
from ppdinf.diagnostics.diagnose import diagnose as diagnose
from ppdinf.noise.mcmc.tv_bound import TVBound as TVBound
from ppdinf.noise.mcmc.tv_bound import tv_bound as tv_bound

__all__ = ["Diagnosis", "TVBound", "acceptance_by_cell", "coupling_bound", "diagnose", "tv_bound"]
