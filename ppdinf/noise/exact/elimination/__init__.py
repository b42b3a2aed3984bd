"""Exact noise by variable elimination and by rejection of independent noise.

cell_elimination      Noise of any law of independent integers: elimination over the cells.
class_sums            l1 Laplace noise of a block with crossing class sums: first the sums, then the cells.
partial_sums          Tables of the total weight of partial sums, with proved error bounds.
potentials            Weights of single integers, enclosed to any precision: the input of elimination.
rejection             l1 Laplace noise on a small lattice by rejection.
variable_elimination  Integers with separable weights given linear constraints: exact draws and the normaliser.
"""
