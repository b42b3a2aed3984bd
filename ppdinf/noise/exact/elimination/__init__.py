"""Exact noise by variable elimination and by rejection of independent noise.

class_sums            l1 Laplace noise of a block whose class sums cross: class sums by elimination, then the cells
                      of each class
partial_sums          tables of the total weight of partial sums, with proved error bounds; in doubles or in balls
potentials            weights of single integers, enclosed to any precision: what elimination multiplies and sums
rejection             l1 Laplace noise on a small lattice by rejection: exact and independent draws
variable_elimination  integers with separable weights given linear constraints: exact draws and their total weight
"""
