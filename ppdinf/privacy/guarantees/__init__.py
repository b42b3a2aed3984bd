"""Statements of guarantees and conversions between them.

conversion          From zero-concentrated to approximate differential privacy, and back.
guarantee           The statement of a guarantee: loss, distance, protected and unprotected information.
lattice_noise_loss  The loss of noise on a lattice {z : A z = 0}: scales of Gaussian noise, tail bounds.
possible_tables     The nearest two tables that the public sums of one or several releases allow.
release_guarantee   The guarantee of one release, at the nearest other table.
restatement         Restatement of a guarantee in zCDP, at one distance, or as an event of dp-accounting.
unit_loss           The privacy loss of one protected unit, from the neighbour relation and its number of records.
wording             Numbers of a guarantee in words, rounded up.
"""
