"""Posterior samplers: rejection, importance sampling, and the Gibbs sampler of confidential tables.

The subpackage contains step methods and samplers for models with confidential tables. The algorithms on fibers are in
`ppdinf.fiber`.

dense_steps           Steps for models with a sampled table: Gibbs updates of the table, and NUTS with a dense metric.
fixed_length_hmc      Fixed-length Hamiltonian Monte Carlo for nearly standard-normal posteriors.
interrupts            Stop PyMC's samplers between two draws, so that Ctrl-C keeps the finished draws.
lattice_gibbs         Gibbs sampling of a confidential table along lines of its fiber, by exact full conditionals.
parameters            Checks of models and labelled results, shared by the samplers of parameters.
posterior_bound       Proved upper bounds on the likelihood of a noisy table, for rejection sampling.
posterior_importance  Posterior draws by importance sampling, with the confidential table marginalized.
posterior_modes       Search for the modes of a posterior, with a Gaussian approximation at each.
posterior_proposal    Proposals of importance sampling: mixtures of multivariate t distributions fitted to draws.
posterior_rejection   Exact independent posterior draws by rejection from the prior.
posterior_target      Log posterior density of a model in its unconstrained space, for single points and for batches.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
