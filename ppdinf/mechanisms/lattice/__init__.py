"""Integer noise on the lattice that keeps all public sums.

generalized_gaussian  The generalized Gaussian mechanism: noise with mass proportional to exp(-|z|^2 / (2 sigma^2))
                      on the lattice.
generalized_laplace   The generalized Laplace mechanism: noise with mass proportional to exp(-epsilon |z|) on the
                      lattice.
lattice_noise         Base class of integer noise whose distribution does not depend on the table.
"""
