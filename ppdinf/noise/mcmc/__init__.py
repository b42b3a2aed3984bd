"""Markov chains for noise without an exact sampler, with couplings that bound their bias.

annealed             Metropolised independence: the published sampler of conditioned noise, and annealed proposals for
                     large lattices.
coupled_noise        l1 Laplace noise by Markov chains with a distance from its law that L-lag couplings of the chains
                     measure.
isdp                 The published sampler of integer subspace noise: Metropolis on a basis of the lattice.
lattice_gibbs_noise  Gibbs sampling of noise on a lattice with exact full conditionals along its lines.
tv_bound             Chains in parallel threads, and total variation bounds from the meeting times of coupled chains.
"""
