"""Integer noise on the lattice that keeps all public sums.

generalized_gaussian  the generalized Gaussian mechanism: noise with mass proportional to exp(-|z|^2 / (2 sigma^2))
                      on the lattice
generalized_laplace   the generalized Laplace mechanism: noise with mass proportional to exp(-epsilon |z|) on the
                      lattice
lattice_noise         whole noise that is the same around every table: laplace, gaussian
"""
