"""Exact and independent draws of lattice noise, one algorithm a file."""
