"""Exact draws of integers and of comparisons from a stream of random bits.

bernoulli            coins of many different probabilities, tossed exactly: in floating point where that settles
                     them
categorical_rows     exact draws from the rows of a stochastic matrix: in floating point where that settles them
chacha               A generator whose words nobody can foretell from its draws: ChaCha20, for compiled chains of
                     releases
continuous           real-valued draws from a stream: one word a draw, by inversion, to the last bit of the tail
enclosed_comparison  words of a stream compared with enclosures of real numbers, in as many bits as it takes
integers             exact draws of the noise laws on the integers, and of the coin exp(-q), for rational parameters
inversion            exact inverse-CDF sampling of log-concave laws on the integers
keyed                words that everybody who holds a key can draw again: noise shared by agents who never meet
lazy_reals           uniform real numbers whose binary digits are drawn as they are needed
sampler_offer        offers of samplers: which cells a sampler can draw, or the reason why it cannot
stream               random streams: every exact sampler is a function of an endless row of uniform 64-bit words
"""
