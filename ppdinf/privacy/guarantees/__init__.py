"""Statements of guarantees and conversions between them.

conversion          from zero-concentrated to approximate differential privacy, and back
guarantee           what a release protects, per unit of what, against whom, and what it does not protect
lattice_noise_loss  what noise on a lattice {z : A z = 0} promises: scales of Gaussian noise, and tails of Gaussian
                    and Laplace noise
release_guarantee   what one release protects: its guarantee at the nearest other table
restatement         one guarantee said otherwise: in zCDP, at one distance, or as an event of dp-accounting
unit_loss           the privacy loss of one protected unit, from the neighbour relation, the unit and its number of
                    records
wording             numbers of a guarantee in words, rounded up
"""
