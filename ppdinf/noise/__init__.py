"""Drawing noise: from a stream of random words to whole and real numbers.

Rule: NumPy in and out; every exact sampler is a function of its stream.

bits/        from random words to integers, coins and reals

exact          exact samplers of integer noise with given sums, one algorithm per file
exact_noise    exact noise for all cells of a system: samplers are asked in order, and what one leaves the next ones
               serve
mcmc           markov chains for noise that no exact sampler covers, with couplings that bound their bias
primitives     exact draws of integers and of comparisons from a stream of random bits
real           real-valued noise: K-norm laws, polytopes, and Laplace noise on subspaces
sampler_plan   which sampler a system of public sums allows, and why
"""
