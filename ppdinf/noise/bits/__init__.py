"""From random words to integers, coins and reals: what every sampler is made of."""
