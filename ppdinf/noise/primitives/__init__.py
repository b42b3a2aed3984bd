"""Exact draws of integers and exact comparisons from a stream of random bits.

chacha      The cryptographic generator ChaCha20 for compiled Markov chains of releases.
enclosures  Exact comparisons, Bernoulli draws and categorical draws from enclosures of real numbers.
integers    Exact draws of integers: inversion of log-concave laws, Bernoulli draws, discrete Laplace and Gaussian
            noise.
lazy_reals  Exact uniform, gamma and beta variables whose binary digits are drawn when they are needed.
stream      Random streams: functions that return uniform 64-bit words, from the system, a seed or a secret key.
"""
