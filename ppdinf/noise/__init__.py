"""Noise samplers: from a stream of random 64-bit words to integers and real numbers.

Rule: input and output are NumPy arrays. Every exact sampler is a function of its stream.

exact          Exact samplers of integer noise with given sums, one algorithm per file.
exact_noise    Exact noise for all cells of a system, combined from the exact samplers in a fixed order.
log_total      The total weight of all noise that keeps public sums.
mcmc           Markov chains for noise without an exact sampler, with couplings that bound their bias.
primitives     Exact draws of integers and exact comparisons from a stream of random bits.
real           Real-valued noise: K-norm laws, polytopes, and Laplace noise on subspaces.
sampler_plan   The choice of a sampler for a system of public sums, with the reason.
"""
