"""Mechanisms for estimates from individual records: means, quantiles, regressions.

gradient_law     The law of an answer given the records, exp(-rate |grad L(y)|_K / sigma(y)): its density, and a
                 Markov chain that samples it.
k_norm_gradient  The K-norm gradient mechanism for objectives on records.
mean             The mean of records in a unit ball, as an objective: its answers are sums on a grid.
objectives       The interface of objectives whose minimizer is published: gradients and sensitivities.
quantile         Quantiles as an objective: an answer is drawn among the multiples of a grid.
regressions      Regressions for the K-norm gradient mechanism: coefficients in a ball, records within stated bounds.
"""
