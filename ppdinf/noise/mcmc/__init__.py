"""Markov chains for noise without an exact sampler, with couplings that bound their bias.

coupled_noise            l1 Laplace noise by Markov chains with a distance from its law that L-lag couplings of the
                         chains measure.
independence_metropolis  The published sampler of conditioned noise, Metropolised independence, its coupling, and
                         annealed proposals.
lattice_gibbs_noise      Gibbs sampling of noise on a lattice with exact full conditionals along its lines.
lattice_metropolis       The published sampler of integer subspace noise: Metropolis on a basis of the lattice, and its
                         coupling.
tv_bound                 Chains in parallel threads, and total variation bounds from the meeting times of coupled
                         chains.
"""
