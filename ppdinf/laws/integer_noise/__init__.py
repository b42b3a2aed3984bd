"""Laws of integer noise, independent from cell to cell or joint.

Rule: a law states weights and supports; `ppdinf.noise` draws from it.

additive_noise     Independent integer noise with any distribution of finite support.
banded_noise       Integer noise whose distribution depends on the band of the count.
chain_kernels      The same log masses for compiled Markov chains.
discrete_gaussian  Discrete Gaussian noise: exp(-z^2 / (2 sigma^2)).
double_geometric   Double geometric noise: exp(-epsilon |z|), or l1 Laplace noise on a lattice.
joint_l2           l2 Laplace noise of several published numbers together.
l2_laplace         l2 Laplace noise of vectors: exp(-epsilon |z|_2).
l2_total           Total weight of l2 noise, by quadrature over the scale of a mixture of Gaussians.
staircase          Staircase noise: exp(-epsilon j) on the j-th stair.
"""
