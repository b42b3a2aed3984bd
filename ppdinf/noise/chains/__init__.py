"""Markov chains of noise on a lattice, the published ones among them, and bounds of their distance from the law.

Rule: a chain is never called exact.

annealed      noise on lattices too large to couple otherwise: Metropolised independence with annealed proposals
coupling      L-lag couplings of the noise chains: how long two chains of one law take to become one
in_threads    independent pieces of random work in parallel threads, with results that do not depend on their number
independence  the published sampler of conditioned noise: Metropolised independence on a set of proposal cells
isdp          the published sampler of integer subspace noise: Gibbs within Metropolis, on a basis of the lattice
line_law      the law of noise along a line z + t b of the lattice, inverted: t as an increasing function of one
              uniform
noise_gibbs   gibbs sampling of noise on a lattice: every move draws from an exact full conditional of the law
tv_bound      how far a noise chain still is from its target: bounds from the meeting times of coupled chains
"""
