"""Refusal of releases that occur twice: their noise would count as two independent draws.

Equal tables of one mechanism with the same public sums are the same draw, or two independent draws that coincide. The
probability of the latter is at most the largest probability of a noise table, 1 / W, where W is the sum of weights of
all noise that keeps the public sums. A lower bound on W: noise of cells in no public sum is free, and two cells in the
same public sums can change by k and -k. For disjoint pairs and free cells these changes are independent, so W is at
least the product of ``sum_k w(k)**2`` over the pairs and ``sum_k w(k)`` over the free cells.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.releases import Release

__all__ = ["log_chance_of_equality", "refuse_same_noise"]

LOG_NEGLIGIBLE = math.log(1e-9)  # log probability below which equal tables are one draw
COUNTED = 1000  # weights of noise up to this size enter the bound


def refuse_same_noise(releases: Sequence[Release]) -> None:
    """Refuse releases with the same noise, and warn if equal tables may be independent draws.

    Raises
    ------
    ModelError
        Two releases are one object or a copy, or are equal and coincide by chance with probability below 1e-9.

    Warns
    -----
    DiagnosisWarning
        Two releases are equal, and independent draws would be equal with a larger probability.
    """
    for (i, one), (j, other) in combinations(enumerate(releases, 1), 2):
        same = one is other or one.table is other.table
        if not same and not _are_equal(one, other):
            continue
        which = f"releases {i} and {j} have the same mechanism and the same noisy table"
        if same or log_chance_of_equality(one) < LOG_NEGLIGIBLE:
            raise ModelError(f"{which}: they are one release, which counts once. Give each release once")
        warnings.warn(
            f"{which}: if they are one release, give it once, otherwise its noise is counted as two independent draws",
            DiagnosisWarning,
            stacklevel=3,
        )


def log_chance_of_equality(release: Release) -> float:
    """Return an upper bound on the log probability that an independent draw equals a release; 0 if none is known.

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/10")
    >>> round(log_chance_of_equality(ppd.Release(np.arange(20), mechanism)), 1)
    -23.1
    """
    form = release.likelihood.form
    if not isinstance(form, AdditiveLaw) or not release.likelihood.is_fixed_by_cell:
        return 0.0
    log_weights = form.law.log_weight(np.arange(-COUNTED, COUNTED + 1).astype(np.float64))
    free, pair = (float(np.log(np.exp(power * log_weights).sum())) for power in (1, 2))
    columns = release.kept.A.tocsc()
    columns.sort_indices()
    alike: Counter[tuple[bytes, bytes]] = Counter()
    for begin, end in zip(columns.indptr[:-1], columns.indptr[1:], strict=True):
        alike[columns.indices[begin:end].tobytes(), columns.data[begin:end].tobytes()] += 1
    return -sum(n // 2 * pair if rows else n * free for (rows, _), n in alike.items())


def _are_equal(one: Release, other: Release) -> bool:
    A, B = one.kept.A, other.kept.A
    return (
        np.array_equal(one.table.values, other.table.values)
        and one.mechanism.to_dict() == other.mechanism.to_dict()
        and A.shape == B.shape
        and (A != B).nnz == 0
    )
