"""Saturated kernel bases: ppdinf compared with SymPy and python-flint on the same systems, one core.

Run with ``python benchmarks/lattices.py`` (about five minutes, most of it for competitors that are stopped after 60 s).
Each entry of the table is a separate process. Its imports are not timed; its peak memory includes everything.

- ppdinf: `structure`, which includes the kernel and its certificate.
- SymPy: kernel columns of the transform of `smith_normal_decomp`.
- python-flint: rows of the transform of a dense Hermite form, LLL-reduced.
"""

import itertools
import multiprocessing
import os
import resource
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import sparse

from ppdinf.lattice import kernel, margin_matrix, structure

LIMIT = 60.0  # time limit in seconds for a competitor
LARGE = 50_000  # largest number of cells for dense competitors


def group_totals(n_cells, n_groups):
    labels = np.random.default_rng(1).integers(0, n_groups, n_cells)
    ones = np.ones(n_cells, dtype=np.int64)
    return sparse.csc_array((ones, labels, np.arange(n_cells + 1)), shape=(n_groups, n_cells))


def random_system(k, d):
    return sparse.csc_array(np.random.default_rng(1).integers(0, 2, (k, d)))


def stacked_margins(tables, *shape):
    one = margin_matrix(shape, [(0,), (1,)])
    return sparse.csc_array(sparse.block_diag([sparse.coo_array(one)] * tables))


SYSTEMS = {
    "51 groups over 3,143 cells": lambda: group_totals(3143, 51),
    "20 margins of 14 x 24": lambda: stacked_margins(20, 14, 24),
    "30 x 30 margins": lambda: margin_matrix((30, 30), [(0,), (1,)]),
    "6 x 6 x 6, all two-way": lambda: margin_matrix((6, 6, 6), [(0, 1), (0, 2), (1, 2)]),
    "random 0/1, 10 x 60": lambda: random_system(10, 60),
    "random 0/1, 40 x 200": lambda: random_system(40, 200),
    "weights 2 3 5 7 11": lambda: sparse.csc_array([[2, 3, 5, 7, 11]]),
    "2^8, all two-way": lambda: margin_matrix((2,) * 8, list(itertools.combinations(range(8), 2))),
    "51 groups over 10,000,000": lambda: group_totals(10_000_000, 51),
}


def ours(A):
    found = structure(A)
    basis = found.lattice.class_basis
    largest = max(int(abs(basis).max()) if basis.nnz else 1, 1)
    return largest, found.lattice.certificate


def sympys(A):
    from sympy import ZZ, Matrix
    from sympy.matrices.normalforms import smith_normal_decomp

    form, _, right = smith_normal_decomp(Matrix(A.toarray().tolist()), domain=ZZ)
    rank = sum(form[i, i] != 0 for i in range(min(form.shape)))
    return right[:, rank:], None


def flints(A):
    from flint import fmpz_mat

    hermite, transform = fmpz_mat(A.toarray().tolist()).transpose().hnf(transform=True)
    rows = [row for form, row in zip(hermite.tolist(), transform.tolist(), strict=True) if not any(form)]
    return fmpz_mat(rows).lll(), None


def work(name, method, channel):
    A = SYSTEMS[name]()
    method(sparse.csc_array([[2, 3]]))  # imports and first calls
    if method is ours:
        kernel([[2, 3, 5]])
    start = time.perf_counter()
    result = method(A)
    seconds = time.perf_counter() - start
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    channel.send((seconds, megabytes, result if method is ours else None))


def measure(name, method):
    """Return seconds, peak megabytes and result, or None if the time limit is exceeded."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(name, method, sender))
    process.start()
    sender.close()  # so that a crash ends the wait
    outcome = receiver.recv() if receiver.poll(None if method is ours else LIMIT + 10) else None
    process.kill()
    process.join()
    return outcome


def shown(outcome):
    return f"> {LIMIT:.0f}" if outcome is None or outcome[0] > LIMIT else f"{outcome[0]:.3f}"


def main():
    header = ("system", "ppdinf s", "SymPy s", "flint s", "peak MB", "max |entry|", "certificate")
    line = "{:<28}{:>10}{:>10}{:>10}{:>9}{:>13}  {}".format
    print(line(*header))
    for name, build in SYSTEMS.items():
        dense = build().shape[1] <= LARGE
        seconds, megabytes, (largest, certificate) = measure(name, ours)
        others = [shown(measure(name, method)) if dense else "too big" for method in (sympys, flints)]
        print(line(name, f"{seconds:.3f}", *others, f"{megabytes:.0f}", largest, certificate), flush=True)


if __name__ == "__main__":
    main()
