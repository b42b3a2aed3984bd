"""Laws of published numbers that are rounded, suppressed, clipped or randomly changed.

Rule: a law states which counts a published number allows, and their weights.

censored             The base class of laws that replace numbers below a limit by one mark.
clipped              Noisy counts that are clipped from below.
indicator_law        The base class of laws that only exclude counts.
interval             Ranges of counts that are known with certainty.
random_rounding      Unbiased random rounding to multiples of a base.
randomized_response  Randomized response with two answers.
rounded              Deterministic rounding to multiples of a base.
sampled              Survey estimates: the number of sampled units times their weight.
suppressed           Numbers of another law, if the count is not suppressed.
thresholded          Numbers that are published only at or above a threshold.
transition_matrix    A transition matrix with the probability of every released count for every count.
"""
