"""Refusal of releases that occur twice: their noise would count as two independent draws.

Equal tables of one mechanism with the same public sums are the same draw, or two independent draws that coincide. The
probability of the latter is at most the largest probability of a noise table, 1 / W, where W is the sum of weights of
all noise that keeps the public sums. A lower bound on W: noise of cells in no public sum is free, and two cells in the
same public sums can change by k and -k. For disjoint pairs and free cells these changes are independent, so W is at
least the product of ``sum_k w(k)**2`` over the pairs and ``sum_k w(k)`` over the free cells.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, product

import numpy as np

from ppdinf._internal.values import Json
from ppdinf.errors import DiagnosisWarning, InvariantError, ModelError
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.releases import Release

LOG_NEGLIGIBLE = math.log(1e-9)  # log probability below which equal tables are one draw
COUNTED = 1000  # weights of noise up to this size enter the bound


def refuse_same_noise(releases: Sequence[Release]) -> None:
    """Refuse releases of one table with the same noise, and warn if equal tables may be independent draws."""
    for (i, one), (j, other) in combinations(enumerate(releases, 1), 2):
        which = f"releases {i} and {j}"
        if _is_same_noise(one, other, which):
            raise ModelError(
                f"{which} have the same mechanism and the same noisy table: they are one release, which counts once. "
                "Give each release once"
            )


def refuse_noise_in_use(releases: Sequence[Release], earlier: Sequence[Release], name: str) -> None:
    """Refuse releases with the noise of an earlier table `name` of the same model."""
    for one, other in product(releases, earlier):
        common = _common_cells(one, other)
        if common and _is_same_noise(*common, f"the release and that of {name!r}"):
            raise ModelError(f"the release is already in the model as that of {name!r}: observe it only once")


def _common_cells(one: Release, other: Release) -> tuple[Release, Release] | None:
    """Restrict two parts of releases by one mechanism to their common cells, None without such cells."""
    if _complete(one) != _complete(other):
        return one, other
    dims = {dim for part in (one, other) if part.selection for dim in part.selection.labels}
    # the same order of labels for both
    common = {dim: sorted(_labels(one, dim) & _labels(other, dim), key=repr) for dim in dims}
    if not all(common.values()):
        return None
    with contextlib.suppress(InvariantError):  # other public sums
        return _restricted(one, common), _restricted(other, common)
    return one, other


def _complete(release: Release) -> dict[str, Json]:
    """Return the mechanism of the complete release."""
    return (release.selection or release).mechanism.to_dict()


def _labels(part: Release, dim: str) -> set[str | int]:
    """Return the labels of a dimension or coordinate; a part of a single label does not have the dimension."""
    if dim in part.table.coords:
        return set(part.table[dim].values.ravel().tolist())
    return set(part.selection.labels.get(dim, ())) if part.selection else set()


def _restricted(part: Release, labels: Mapping[str, Sequence[str | int]]) -> Release:
    present = {dim: list(chosen) for dim, chosen in labels.items() if dim in part.dims}
    return part.sel(present) if present else part


def _is_same_noise(one: Release, other: Release, which: str) -> bool:
    """Return whether two releases have the same noise; warn if this is not certain."""
    if one is other or one.table is other.table:
        return True
    A, B = one.kept.A, other.kept.A
    same_sums = A.shape == B.shape and (A != B).nnz == 0
    same_table = np.array_equal(one.table.values.ravel(), other.table.values.ravel())
    if not (same_table and same_sums and _complete(one) == _complete(other)):
        return False
    if log_chance_of_equality(one) < LOG_NEGLIGIBLE:
        return True
    if one.frame.digest == other.frame.digest:
        warnings.warn(
            f"{which} have the same mechanism and the same noisy table: if they are one release, give it once, "
            "otherwise its noise is counted as two independent draws",
            DiagnosisWarning,
            stacklevel=4,
        )
    return False


def log_chance_of_equality(release: Release) -> float:
    """Return an upper bound on the log probability that an independent draw equals a release; 0 if none is known."""
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
