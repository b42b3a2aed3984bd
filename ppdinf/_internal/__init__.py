"""Helpers that no user imports: compilation, files, exact rationals, and the private names of PyMC that are used.

atomic_files  files that are written as a whole or not at all, whatever happens meanwhile
frozen        frozen values whose constructors read what users and files give them, and families of classes that
              files name
numba_jit     compilation of kernels, the hot loops of the package: `jit` for those called from Python and from each
              other
pymc_compat   everything that ppdinf takes from inside PyMC and PyTensor: names that are not reached as ``pm.X`` or
              ``pt.X``
rationals     privacy parameters as the exact rationals that were meant, and their enclosures
types         names for what libraries pass around without a type, so that a signature says what it takes
"""
