"""Real-valued noise: K-norm laws and uniform points in convex bodies.

Rule: laws are stated for real numbers. The mechanisms document the effect of double precision.

hit_and_run         Hit-and-run in a convex body: uniform points by a Markov chain, and coupled pairs of chains.
independent_moves   K-norm noise in any dimension for bodies spanned by independent moves or by differences of points.
integer_k_norm      Exact integer vectors with mass proportional to exp(-rate |z|) (l1, l2, linf), and weighted choices.
k_norm_draws        Draws from K-norm laws with density proportional to exp(-|z|_K) on R^d.
polytope            Symmetric polytopes in few dimensions: gauge, uniform points and K-norm noise.
slice_lines         Slice sampling along random lines for densities on a ball or on R^m.
triangular_laplace  Exact Laplace noise in orthogonal coordinates of a lattice: mass proportional to exp(-rate |R x|_1).
"""
