"""Real-valued noise on the subspace that keeps all public sums.

correlated_gaussian     Gaussian noise with a covariance adapted to the sensitivity directions.
k_norm                  The K-norm mechanism: level sets of the noise are multiples of the sensitivity polytope.
on_grid                 Gaussian noise on a lattice with the guarantee of real-valued Gaussian noise.
real_noise              The law of real-valued noise under the public sums of one table, for release and inference.
sensitivity_directions  The changes of the answers by one person, projected onto the null space of the public sums.
shared_key              Noise of agents who hold parts of a table and share a secret key.
subspace                Base class of mechanisms with real noise on the null space of public sums.
subspace_gaussian       Gaussian noise on the null space of public sums, projected or extended.
subspace_laplace        Laplace noise on the null space of public sums, projected or extended.
"""
