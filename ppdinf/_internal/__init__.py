"""Helpers that users do not import: compilation, files, exact rationals, and private names of PyMC.

arrays          Arrays that users pass: masks, missing values and entries that are not numbers are refused.
atomic_files    Files that are written completely or not at all.
citation        References to cite with results of the package.
frozen          Construction of frozen values from files, and families of classes that files name.
jax_callback    Ops that JAX evaluates by calls of their compiled code.
numba_jit       Compilation of kernels, the inner loops of the package.
progress        Progress bars, or lines where no bar can be shown.
pymc_compat     All private names of PyMC and PyTensor in use: names that are not available as ``pm.X`` or ``pt.X``.
rationals       Privacy parameters as exact rationals, and their enclosures.
rewriter_cache  PyTensor's cache of the rewrites of each Op, with weak references to the Ops.
types           Type names for values that libraries pass without a type.
visible_text    Text without control characters, which a terminal shows unchanged.
workers         Independent tasks in this process, in several processes, or on a Dask cluster.
"""
