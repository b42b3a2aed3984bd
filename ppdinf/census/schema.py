"""Histograms of the files: axes, their labels, and their groupings by queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from ppdinf.errors import LabelError

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

    def query_size(self, groupings: Sequence[str]) -> int:
        """Return the number of values of a query."""
        return math.prod(self.query_shape(groupings))

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
