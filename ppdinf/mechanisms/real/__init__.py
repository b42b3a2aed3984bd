"""Real-valued noise on the subspace that keeps all public sums.

correlated_gaussian     gaussian noise shaped like what one person can change
k_norm                  noise whose level sets are what one person can change: the K-norm mechanism
on_grid                 gaussian noise on a lattice that keeps what was calibrated for Gaussian noise of real
                        numbers
real_noise              the law of real-valued noise under the public sums of one table, as release and inference
                        use it
sensitivity_directions  what one person can change in the answers, as seen from the null space of the public sums
shared_key              noise of agents who each hold some cells of a table and share a secret key: all parts
                        together are one release
subspace                real noise on the null space of public sums: subspace_gaussian, subspace_laplace,
                        correlated_gaussian, k_norm (real_noise, on_grid, sensitivity_directions, counting_queries,
                        shared_key)
subspace_gaussian       gaussian noise on the null space of public sums, projected or extended
subspace_laplace        laplace noise on the null space of public sums, projected or extended
"""
