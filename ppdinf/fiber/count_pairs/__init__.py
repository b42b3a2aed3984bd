"""Pairs of counts of which the second is part of the first, for example cases and deaths.

noisy_pairs   Posterior draws of confidential pairs of counts given noisy pairs, optionally with an exact total.
pair_weights  Weights of pairs of counts: the smaller count marginalized, its mean, and draws given the larger one.
pairs         Exact draws of pairs of counts given one total, for the Wasserstein exponential mechanism.
"""
