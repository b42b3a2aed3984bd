"""Can this posterior be trusted: movement, convergence, consistency.

Rule: every finding says what to do next.

acceptance_by_cell  how far a chain of tables moved: what R-hat and ESS cannot see when nothing moves at all
calibration         simulation-based calibration: does inference find what it was given, as often as it claims to
convergence         R-hat and effective sample sizes of every element of a variable, each under its own label
coupling_bound      how many draws a confidential table takes to forget where it was: a bound on the distance of its
                    chain from its law
diagnose            one call that says whether a posterior can be trusted, and what to do when it cannot
parametrization     which variable makes NUTS take short steps or diverge, and which way of writing it would suit
problems            what is wrong with a posterior, a sentence each, with what to do next
rhat                how large an R-hat may be when it is the largest of many, and how to say it
truncation_check    whether the posterior of a table ends within the windows of counts it was looked for in
"""

from ppdinf.diagnostics.acceptance_by_cell import acceptance_by_cell as acceptance_by_cell
from ppdinf.diagnostics.coupling_bound import coupling_bound as coupling_bound
from ppdinf.diagnostics.diagnose import Diagnosis as Diagnosis
from ppdinf.diagnostics.diagnose import diagnose as diagnose
from ppdinf.noise.mcmc.tv_bound import TVBound as TVBound
from ppdinf.noise.mcmc.tv_bound import tv_bound as tv_bound

__all__ = ["Diagnosis", "TVBound", "acceptance_by_cell", "coupling_bound", "diagnose", "tv_bound"]
