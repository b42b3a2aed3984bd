"""Markov chains for noise that no exact sampler covers, with couplings that bound their bias.

annealed                   noise on lattices too large to couple otherwise: Metropolised independence with annealed
                           proposals
coupled_noise              l1 Laplace noise by Markov chains with a measured distance from its law, where no exact
                           sampler serves
coupling                   L-lag couplings of the noise chains: how long two chains of one law take to become one
isdp                       the published sampler of integer subspace noise: Gibbs within Metropolis, on a basis of
                           the lattice
lattice_gibbs_noise        gibbs sampling of noise on a lattice: every move draws from an exact full conditional of
                           the law
line_conditionals          the law of noise along a line z + t b of the lattice, inverted: t as an increasing
                           function of one uniform
metropolised_independence  the published sampler of conditioned noise: Metropolised independence on a set of
                           proposal cells
parallel_chains            independent pieces of random work in parallel threads, with results that do not depend on
                           their number
tv_bound                   how far a noise chain still is from its target: bounds from the meeting times of coupled
                           chains
"""
