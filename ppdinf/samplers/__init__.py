"""Posterior samplers: rejection, importance sampling, and the Gibbs sampler of confidential tables.

The subpackage contains step methods and samplers for models with confidential tables. The algorithms on fibers are in
`ppdinf.fiber`.

fixed_length_hmc      Fixed-length Hamiltonian Monte Carlo for nearly standard-normal posteriors.
interrupts            Stop PyMC's samplers between two draws, so that Ctrl-C keeps the finished draws.
lattice_gibbs         Gibbs sampling of a confidential table along lines of its fiber, and its combination with NUTS for
                      the parameters.
posterior_importance  Posterior draws by importance sampling, with the confidential table marginalized.
posterior_proposal    Proposals of importance sampling: modes of a posterior, and mixtures of multivariate t
                      distributions.
posterior_rejection   Exact independent posterior draws by rejection from the prior, with proved bounds on the
                      likelihood.
posterior_target      Log posterior density of a model in its unconstrained space; models and results of the samplers of
                      parameters.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
