"""Noise samplers: from a stream of random 64-bit words to integers and real numbers.

Rule: input and output are NumPy arrays. Every exact sampler is a function of its stream.

exact               Exact samplers of integer noise with given sums, one algorithm per file.
k_norm              K-norm noise: radii and directions, integer vectors, polytopes in few dimensions, and bodies of
                    independent moves.
log_total           The total weight of all noise that keeps public sums.
mcmc                Markov chains for noise without an exact sampler, with couplings that bound their bias.
primitives          Exact draws of integers and exact comparisons from a stream of random bits.
random_lines        Markov chains along random lines: hit-and-run in convex bodies, and slice sampling of densities.
sampler_plan        The choice of samplers for a system of public sums: exact samplers in a fixed order, then a Markov
                    chain.
triangular_laplace  Exact Laplace noise in orthogonal coordinates of a lattice: mass proportional to exp(-rate |R x|_1).
"""

from ppdinf.noise.mcmc.independence_metropolis import IndependenceMetropolis
from ppdinf.noise.mcmc.lattice_metropolis import LatticeMetropolis

__all__ = ["IndependenceMetropolis", "LatticeMetropolis"]
