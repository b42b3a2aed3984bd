"""Drawing noise: from a tape of random words to whole and real numbers.

Rule: NumPy in and out; every exact sampler is a function of its tape.

bits/        from random words to integers, coins and reals
chain_noise  l1 Laplace noise by Markov chains with a measured distance from its law, where no exact sampler serves
chains/      markov chains of noise on a lattice, the published ones among them, and bounds of their distance from the
             law
exact/       exact and independent draws of noise on a lattice
exact_noise  exact noise for all cells of a system: samplers are asked in order, and what one leaves the next ones
             serve
offer        what samplers answer when they are asked for noise: an offer to draw it, or why they decline
plan         which sampler a system of public sums allows, and why
real/        real-valued noise: K-norm laws, uniform points in convex bodies
"""
