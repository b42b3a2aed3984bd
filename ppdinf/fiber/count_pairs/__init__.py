"""Pairs of counts of which the second is part of the first, for example cases and deaths.

noisy_pairs   confidential pairs of counts given noisy ones, and perhaps the exact total of the larger: posterior
              draws
pair_weights  weights of pairs of counts, one within the other: the smaller summed out, its mean, and draws given
              the larger
pairs         pairs of counts, one within the other, under one total: cases and deaths of counties in a month
"""
