"""Noise samplers: from a stream of random 64-bit words to integers and real numbers.

Rule: input and output are NumPy arrays. Every exact sampler is a function of its stream.

exact         Exact samplers of integer noise with given sums, one algorithm per file.
log_total     The total weight of all noise that keeps public sums.
mcmc          Markov chains for noise without an exact sampler, with couplings that bound their bias.
primitives    Exact draws of integers and exact comparisons from a stream of random bits.
real          Real-valued noise: K-norm laws, polytopes, and Laplace noise on subspaces.
sampler_plan  The choice of samplers for a system of public sums: exact samplers in a fixed order, then a Markov chain.
"""
