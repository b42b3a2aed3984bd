"""Drawing noise: every algorithm that turns a tape of random words into noise; NumPy in and out.

plan          which sampler a system of public sums allows, and why
exact_noise   the samplers that are asked for exact noise, in order
offer         what they answer
chain_noise   Markov chains with a measured distance from their law, where none of them serves
bits/         tapes of words, coins, single integers
exact/        exact samplers of lattice noise
chains/       Markov chains, and how far they are from their law
real/         noise of real numbers
"""
