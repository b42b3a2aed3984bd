"""Variances of the noise by level and query, including the production settings.

The files state the variance of the discrete Gaussian, which differs from its parameter ``s = sigma**2``: it is smaller
for small s, and equal to s within 1e-8 for s >= 1.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import brentq

from ppdinf.census.schema import PERSONS, UNITS, Histogram
from ppdinf.errors import PrivacyError

LARGE = 1.5  # variance from which it equals sigma**2 in double precision


@dataclass(frozen=True)
class Strategy:
    """Measured and exact queries by level.

    Attributes
    ----------
    histogram : Histogram
    squared_sigmas : mapping of str to mapping of str to float
        ``{level: {query: sigma**2}}`` of the discrete Gaussian, queries by name: ``"votingage * hispanic"``.
    exact : mapping of str to sequence of str
        ``{level: queries}`` that are published exactly.
    zeros : mapping of str to str
        ``{constraint: query}`` of structural zeros; the groupings of the query leave out all other cells.

    See Also
    --------
    ppdinf.census.Histogram, ppdinf.census.simulate_nmf

    Examples
    --------
    >>> import ppdinf as ppd
    >>> age = ppd.census.Axis("age", ["0-17", "18-64", "65+"])
    >>> small = ppd.census.Strategy(
    ...     ppd.census.Histogram([age]), {"County": {"total": 1}, "Block": {"age": 4}}, exact={"County": ["total"]}
    ... )
    >>> small.squared_sigmas["Block"]
    {'age': 4}
    """

    histogram: Histogram
    squared_sigmas: Mapping[str, Mapping[str, float]]
    exact: Mapping[str, Sequence[str]] = field(default_factory=dict)
    zeros: Mapping[str, str] = field(default_factory=dict)


def variance_of(squared_sigma: float) -> float:
    """Return the variance of the discrete Gaussian with parameter `squared_sigma`."""
    if squared_sigma >= LARGE:
        return squared_sigma
    z = np.arange(-80, 81)
    weight = np.exp(-(z**2) / (2 * squared_sigma))
    return float((z**2 * weight).sum() / weight.sum())


def squared_sigma(variance: float) -> float:
    """Return the parameter ``sigma**2`` of the discrete Gaussian with a given variance."""
    if not 0 < variance < np.inf:
        raise PrivacyError(f"the variance of noise must be a positive number, found {variance}")
    if variance >= LARGE:
        return variance
    return float(brentq(lambda s: variance_of(s) - variance, 1e-3, 2 * LARGE, xtol=1e-14))


_QUERIES = (
    ("total",), ("cenrace",), ("hispanic", "votingage", "hhinstlevels", "hhgq"), ("hispanic * cenrace",),
    ("votingage * cenrace",), ("votingage * hispanic",), ("votingage * hispanic * cenrace",), ("detailed",),
)  # fmt: skip
_PERSONS = {
    "US": (np.nan, 1214.8, 2429.6, 485.9, 485.9, 2429.6, 142.9, 19.66),
    "State": (1.21, 760.4, 760.4, 380.2, 380.2, 760.4, 134.2, 19.84),
    "County": (4.70, 1469.7, 1469.7, 524.9, 524.9, 1469.7, 145.5, 19.49),
    "Tract": (6.11, 1196.8, 1914.9, 4.95, 478.7, 1914.9, 142.9, 19.86),
    "Block_Group": (3.07, 1744.4, 1744.4, 4.96, 581.5, 1744.4, 218.1, 4.06),
    "Block": (7963.3, 4424.0, 7963.3, 1896.0, 1896.0, 7963.3, 560.8, 10.09),
}

PERSONS_2020 = Strategy(
    PERSONS,
    {
        level: {query: s for names, s in zip(_QUERIES, row, strict=True) for query in names if not np.isnan(s)}
        for level, row in _PERSONS.items()
    },
    exact={"US": ("total",)},
    zeros={"nurse_nva_0": "gqNursingTotal * nonvoting"},
)
"""Redistricting persons of 2020: zCDP with rho 2.556. Variances are computed from the budget shares of the production
settings, with the same order of queries."""

_SHARES = {"US": 104, "State": 1440, "County": 447, "Tract": 687, "Block_Group": 1256, "Block": 165}  # of 4099

UNITS_2020 = Strategy(
    UNITS,
    {level: {"detailed": round(4099 / (0.07 * share), 1)} for level, share in _SHARES.items()},
    exact=dict.fromkeys(_SHARES, ("total",)),
)
"""Redistricting housing units of 2020: zCDP with rho 0.07 as published. The shares by level are not published and are
assumed to equal the shares of persons. Totals of all geounits are exact."""
