"""Histograms of the files: axes, labels, groupings by queries, and the variances of the noise by level and query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from scipy.optimize import brentq

from ppdinf.errors import LabelError, PrivacyError

SUMMED = "*"
"""Entry for an axis that a query sums over."""

OTHER = "other"
"""Label of all labels that a grouping leaves out."""

Groups = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Axis:
    """One axis of a histogram.

    Attributes
    ----------
    name : str
        Name of the axis: a column of the files.
    labels : sequence of str
        Labels in the order of the arrays of the files.
    groupings : mapping of str to mapping of str to sequence of str, optional
        ``{grouping: {group: labels}}``. Groups must not overlap; they may leave out labels.

    Raises
    ------
    LabelError
        A grouping contains labels that the axis lacks, or a label in two groups.

    See Also
    --------
    ppdinf.census.Histogram, ppdinf.census.Strategy

    Examples
    --------
    >>> import ppdinf as ppd
    >>> age = ppd.census.Axis("age", ["0-17", "18-64", "65+"], {"adult": {"18 or older": ["18-64", "65+"]}})
    >>> ppd.census.Histogram([age]).query("adult")
    ('adult',)
    """

    name: str
    labels: Sequence[str]
    groupings: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, groups in self.groupings.items():
            held = [label for labels in groups.values() for label in labels]
            if len(set(held)) < len(held) or not set(held) <= set(self.labels):
                raise LabelError(f"the grouping {name!r} must contain labels of {self.name!r} only, each at most once")

    def groups(self, grouping: str) -> Groups | None:
        """Return the groups of a grouping with their labels; None for the grouping that sums over the axis.

        Raises
        ------
        LabelError
            The axis does not have this grouping.
        """
        if grouping == SUMMED:
            return None
        if grouping in ("detailed", self.name):
            return {label: (label,) for label in self.labels}
        if grouping not in self.groupings:
            known = ", ".join([SUMMED, "detailed", self.name, *self.groupings])
            raise LabelError(f"{self.name!r} has no grouping {grouping!r}; it has {known}")
        return {group: tuple(labels) for group, labels in self.groupings[grouping].items()}

    def coordinate(self, grouping: str) -> list[str]:
        """Return the group of every label; `OTHER` for labels in no group."""
        of = {label: group for group, labels in (self.groups(grouping) or {}).items() for label in labels}
        return [of.get(label, OTHER) for label in self.labels]


@dataclass(frozen=True)
class Histogram:
    """Axes of the arrays of a file, in order.

    See Also
    --------
    ppdinf.census.Axis, ppdinf.census.PERSONS, ppdinf.census.UNITS

    Examples
    --------
    >>> from ppdinf.census import PERSONS
    >>> PERSONS.shape
    (8, 2, 2, 63)
    >>> PERSONS.query("votingage * hispanic")
    ('*', 'votingage', 'hispanic', '*')
    """

    axes: tuple[Axis, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(axis.name for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of labels along each axis."""
        return tuple(len(axis.labels) for axis in self.axes)

    def query_shape(self, groupings: Sequence[str]) -> tuple[int, ...]:
        """Return the shape of the array of a query, 1 for axes that the query sums over."""
        groups_of_axes = [axis.groups(name) for axis, name in zip(self.axes, groupings, strict=True)]
        return tuple(1 if groups is None else len(groups) for groups in groups_of_axes)

    def query(self, name: str) -> tuple[str, ...]:
        """Return the groupings of all axes from the name of a query, with factors in any order.

        Raises
        ------
        LabelError
            A factor is neither an axis nor a grouping, or two factors refer to one axis.
        """
        if name in ("total", "detailed"):
            return tuple(SUMMED if name == "total" else "detailed" for _ in self.axes)
        groupings = dict.fromkeys(self.names, SUMMED)
        for factor in name.split(" * "):
            names = [axis.name for axis in self.axes if factor == axis.name or factor in axis.groupings]
            if len(names) != 1 or groupings[names[0]] != SUMMED:
                raise LabelError(f"{factor!r} of the query {name!r} is not an axis or grouping, or repeats an axis")
            groupings[names[0]] = factor
        return tuple(groupings.values())


_RACES = ("white", "black", "aian", "asian", "nhopi", "sor")
_QUARTERS = (
    "household", "correctional", "juvenile", "nursing", "other institutional", "college", "military",
    "other noninstitutional",
)  # fmt: skip

PERSONS = Histogram(
    (
        Axis(
            "hhgq", _QUARTERS,
            {
                "hhinstlevels": {
                    "household": _QUARTERS[:1], "institutional": _QUARTERS[1:5], "noninstitutional": _QUARTERS[5:],
                },
                "gqNursingTotal": {"nursing": ("nursing",)},
            },
        ),
        Axis("votingage", ("under 18", "18 and over"), {"nonvoting": {"under 18": ("under 18",)}}),
        Axis("hispanic", ("not hispanic", "hispanic")),
        Axis("cenrace", tuple("-".join(some) for k in range(1, 7) for some in combinations(_RACES, k))),
    )
)  # fmt: skip
"""Persons of the redistricting files: residence, voting age, ethnicity, and any of six races."""

UNITS = Histogram((Axis("h1", ("vacant", "occupied")),))
"""Housing units of the redistricting files."""


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
