"""Real-valued noise on the subspace that keeps all public sums.

correlated_gaussian  Gaussian noise with a covariance adapted to the sensitivity directions.
k_norm               The K-norm mechanism: level sets of the noise are multiples of the sensitivity polytope.
real_noise           The law of real-valued noise under the public sums of one table, in multiples of a grid.
subspace             Base class of mechanisms with real-valued noise on the null space of public sums, which agents can
                     add in parts.
subspace_gaussian    Gaussian noise on the null space of public sums, projected or extended.
subspace_laplace     Laplace noise on the null space of public sums, projected or extended.
"""
