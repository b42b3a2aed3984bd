"""Inputs of a model of rates from a release: exposures, earlier counts, labels with effects.

This module does not use PyMC, so that invalid inputs are refused before anything is imported or compiled.
"""

from __future__ import annotations

import numpy as np

from ppdinf._internal.values import Reals
from ppdinf.errors import ModelError
from ppdinf.releases.release import Release

PARAMETERS = ("intercept", "slope", "spread", "deviation", "mean_rate", "rate")


def require_rates(release: Release, name: str, exposure: str | None, previous: str | None) -> None:
    """Refuse inputs that `ppdinf.models.rates.rate_model` cannot fit."""
    if release.mechanism.queries is not None:
        raise ModelError(
            "the release answers a query, but a model of rates needs the cells behind it: write a model of the cells "
            "with PartiallyPrivate(..., dims=...)"
        )
    parameters = [*PARAMETERS, *(f"{dim}_effect" for dim in effects(release))]
    for dim in release.dims:
        if dim in parameters:
            raise ModelError(f"the dimension {dim!r} has the name of a parameter of the model: rename the dimension")
    taken = [*parameters, *release.frame.coords]
    if not name or name in taken:
        raise ModelError(
            f"name must differ from the names in the model ({', '.join(taken)}) and not be empty: {name!r}"
        )
    at_risk = exposures(release, exposure)
    if previous is not None:
        log_earlier_rates(release, previous, at_risk)


def effects(release: Release) -> list[str]:
    """Return the dimensions whose labels have effects: of several dimensions, those with at least two labels."""
    if len(release.dims) == 1:
        return []
    return [dim for dim, labels in zip(release.dims, release.shape, strict=True) if labels > 1]


def exposures(release: Release, exposure: str | Reals | None) -> Reals:
    """Return the exposure of every cell, in the shape of the table; 1 if none is named or given."""
    if exposure is None:
        return np.ones(release.shape)
    values = _numbers(release, exposure) if isinstance(exposure, str) else np.asarray(exposure, float).ravel()
    if values.size != release.table.size or not np.isfinite(values).all():
        raise ModelError(f"exposure needs a finite number for each of the {release.table.size} cells")
    if np.any(values < 0):
        raise ModelError(f"the exposure {exposure!r} at {release.frame.cell(int(np.argmin(values)))} is negative")
    if not values.any():
        raise ModelError(f"exposure {exposure!r} must be positive in at least one cell: it is 0 in every cell")
    return values.reshape(release.shape)


def log_earlier_rates(release: Release, previous: str, at_risk: Reals) -> Reals:
    """Return the log rates of an earlier count, centred over the cells at risk; 0 elsewhere."""
    values = _numbers(release, previous)
    if np.any(values < 0):
        raise ModelError(f"the earlier count {previous!r} at {release.frame.cell(int(np.argmin(values)))} is negative")
    inhabited = at_risk > 0
    log_rate = np.zeros(release.shape)
    log_rate[inhabited] = np.log((values.reshape(release.shape) + 0.5)[inhabited] / at_risk[inhabited])
    log_rate[inhabited] -= log_rate[inhabited].mean()
    return log_rate


def _numbers(release: Release, name: str) -> Reals:
    values = release.frame.broadcast(name)
    if values.dtype.kind not in "if":
        raise ModelError(f"the covariate {name!r} contains text, not numbers")
    return values.astype(float)
