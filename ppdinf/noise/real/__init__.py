"""Real-valued noise: K-norm laws and uniform points in convex bodies.

Rule: laws are stated for real numbers. The mechanisms document the effect of double precision.

k_norm              K-norm noise: radii and directions, integer vectors, polytopes in few dimensions, and bodies of
                    independent moves.
random_lines        Markov chains along random lines: hit-and-run in convex bodies, and slice sampling of densities.
triangular_laplace  Exact Laplace noise in orthogonal coordinates of a lattice: mass proportional to exp(-rate |R x|_1).
"""
