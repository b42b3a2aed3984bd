"""Mechanisms for estimates from individual records: means, quantiles, regressions.

gradient_law     the law of an answer given the records, exp(-rate |grad L(y)|_K / sigma(y)): its density, and a
                 chain that draws it
k_norm_gradient  answers about records (objectives, mean, quantile, regressions, gradient_law)
mean             the mean of records in a unit ball, as an objective: its answers are sums on a grid
objectives       objectives whose minimiser is published: their gradients, and how far one record can move them
quantile         quantiles as an objective: an answer is chosen among the multiples of a grid
regressions      regressions for the K-norm gradient mechanism: coefficients in a ball, records within stated bounds
"""
