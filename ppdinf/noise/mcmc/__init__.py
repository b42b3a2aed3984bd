"""Markov chains for noise without an exact sampler, with couplings that bound their bias.

annealed                   Metropolised independence with annealed proposals, for large lattices.
coupled_noise              l1 Laplace noise by Markov chains with a measured distance from its law.
coupling                   L-lag couplings of the noise chains: meeting times of two chains.
isdp                       The published sampler of integer subspace noise: Metropolis on a basis of the lattice.
lattice_gibbs_noise        Gibbs sampling of noise on a lattice with exact full conditionals.
line_conditionals          Quantile function of the noise along a line z + t b of the lattice.
metropolised_independence  The published sampler of conditioned noise: Metropolised independence on a set of cells.
parallel_chains            Independent random tasks in parallel threads, with results independent of their number.
tv_bound                   Total variation bounds from the meeting times of coupled chains.
"""
