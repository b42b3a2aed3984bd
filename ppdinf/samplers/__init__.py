"""Posterior samplers: rejection, importance sampling, and the Gibbs sampler of confidential tables.

Rule: step methods and samplers for models with confidential tables; the algorithms themselves are in
`ppdinf.fiber`.

fixed_length_hmc      hamiltonian paths of a quarter of a turn, for unknowns that move as what is near standard
                      normal
interrupts            stop PyMC's own samplers between two draws, so that Ctrl-C keeps what was drawn
lattice_gibbs         gibbs sampling of a confidential table along the lines of its fiber, by exact full
                      conditionals
parameters            what samplers of parameters alone share: models they accept, and results in the shape that
                      `pm.sample` gives
posterior_bound       upper bounds, with proof, of the likelihood of a noisy table: what rejection sampling has to
                      know
posterior_importance  posterior draws by importance sampling, with the confidential table summed out
posterior_modes       search for the modes of a posterior: a Gaussian approximation at each that is found
posterior_proposal    proposals of importance sampling: mixtures of multivariate t laws, fitted to weighted draws
posterior_rejection   exact independent posterior draws by rejection from the prior
posterior_target      log posterior density of a model in its unconstrained space, compiled for one point and for
                      many
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
