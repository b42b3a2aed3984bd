"""Real-valued noise: K-norm laws, uniform points in convex bodies.

Rule: the law is one of real numbers; what doubles leave of it is said by the mechanism.

hit_and_run         hit-and-run in a convex body: uniform points by a Markov chain, and pairs of chains that meet
independent_moves   K-norm noise in any dimension, where the moves that span K depend on each other no more than
                    they must
integer_k_norm      whole vectors with mass proportional to exp(-rate |z|) in the l1, l2 or linf norm, exactly, and
                    weighted choices
k_norm_draws        draws from K-norm laws, with density proportional to exp(-|z|_K) on R^d
polytope            symmetric polytopes in few dimensions: gauge, uniform points and K-norm noise, exactly
slice_lines         slice sampling along random lines: a chain for any density that can be evaluated, on a ball or
                    everywhere
triangular_laplace  Laplace noise in the orthogonal coordinates of a lattice: mass proportional to exp(-rate |R
                    x|_1), exactly
"""
