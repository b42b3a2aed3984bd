"""Helpers that users do not import: compilation, files, exact rationals, and private names of PyMC.

atomic_files  Files that are written completely or not at all.
citation      References to cite with results of the package.
kernel_op     PyTensor Ops of compiled kernels, which JAX evaluates by calls of their compiled code.
numba_jit     Compilation of kernels, the inner loops of the package.
progress      Progress bars, or lines where no bar can be shown.
pymc_compat   All private names of PyMC and PyTensor in use: names that are not available as ``pm.X`` or ``pt.X``.
pymc_patches  All functions of PyMC and PyTensor that the package replaces, each with the reason.
rationals     Privacy parameters as exact rationals, and their enclosures.
values        Values that users and files pass: names of their types, and checks of arrays, frozen values and text.
workers       Independent tasks in this process, in several processes, or on a Dask cluster.
"""
