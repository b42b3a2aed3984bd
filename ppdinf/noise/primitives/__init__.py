"""Exact draws of integers and exact comparisons from a stream of random bits.

bernoulli            Exact Bernoulli draws with different probabilities; most are decided in floating point.
categorical_rows     Exact draws from the rows of a stochastic matrix; most are decided in floating point.
chacha               The cryptographic generator ChaCha20 for compiled Markov chains of releases.
continuous           Real-valued draws by inversion, one word per draw, with 63 bits relative to the tail.
enclosed_comparison  Comparison of words of a stream with enclosures of real numbers, with as many bits as needed.
integers             Exact draws of the noise laws on the integers and of Bernoulli(exp(-q)), for rational parameters.
inversion            Exact inversion sampling of log-concave laws on the integers.
keyed                Reproducible words from a secret key, for noise shared by several agents.
lazy_reals           Uniform real numbers whose binary digits are drawn when they are needed.
sampler_offer        The interface of exact samplers: an offer to draw noise, or the reason for declining.
stream               Random streams: functions that return uniform 64-bit words.
"""
