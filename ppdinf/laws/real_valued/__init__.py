"""Laws of real noise on counts.

Rule: log weights of counts given a published real number; nothing is rounded.

gaussian    Real Gaussian noise on counts.
laplace     Real Laplace noise on counts.
noise_norm  Real noise whose log density is minus a norm of a linear image.
real_noise  The base class of laws of real noise on counts.
"""
