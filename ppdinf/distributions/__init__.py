"""What PyMC has to know of a confidential table: random variables, their densities, what depends on them."""
