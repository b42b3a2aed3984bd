"""Markov chains of lattice noise, the published ones among them, and bounds of their distance from the law."""
