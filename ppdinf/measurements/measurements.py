"""Everything published about one table: noisy sums, exact sums, and bounds."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike

import numpy as np
import pandas as pd
import scipy.sparse as sp
import xarray as xr

from ppdinf._internal.values import Array, Integers
from ppdinf.errors import DiagnosisWarning, InvariantError, ModelError
from ppdinf.invariants import Public, System, margin
from ppdinf.invariants.public import bind
from ppdinf.invariants.statement import Chosen, Joined, cell_names
from ppdinf.invariants.sums import SelectedSums
from ppdinf.lattice.integer_rows import check_consistent
from ppdinf.laws.interval import Interval
from ppdinf.laws.l2_laplace import JointL2
from ppdinf.laws.likelihood import MixingScale
from ppdinf.laws.observation_model import ObservationModel
from ppdinf.measurements.entries import Entries, scale_dependence
from ppdinf.measurements.labelled_numbers import frame_of_labels, onto_rows
from ppdinf.measurements.measured import Measured, applied
from ppdinf.measurements.measurement_file import pack_measurements
from ppdinf.measurements.same_noise import refuse_same_noise
from ppdinf.mechanisms.suppression import Suppression
from ppdinf.releases import Release
from ppdinf.releases.sealed import save
from ppdinf.tables.count_ranges import missing_values
from ppdinf.tables.frame import Frame, Framed
from ppdinf.tables.totals import exempt_labels, possible_totals, refuse_totals, require_known

UNLIKELY = 1e-3
"""Probability that the noise of a number exceeds the bounds within which labels are compared with sums of others."""


class Measurements(Framed):
    """Noisy and exact published sums of one confidential table.

    Parameters
    ----------
    labels : mapping of str to sequence, or xarray.DataArray
        Dimensions of the confidential table and the labels of each, in the required order, or a table with them.
    *parts : Measured
        Noisy sums, each from `measured`. The noise of all entries is independent. Several measurements of the same
        sum are combined.
    coords : mapping of str to (dimension, values), DataArray or Series, optional
        Further coordinates, such as the state of each county. A DataArray or Series is matched by label, in any order.
    public : mapping of Public to numbers, Public or System, optional
        Exact knowledge: statements with their values, ``{inv.total(): 15523}``, with values as for `measured`, or
        bounds, which have no values, ``inv.nonnegative()``. Values may be texts of ranges, ``"1-9"`` or ``"<5"``, as
        for the law `ppdinf.laws.Interval`. nan and None state nothing about a sum. A missing label is an error.
    bounds : Public, optional
        Bounds that hold for every table, if `public` is a mapping of statements to values.
    not_totals : sequence of str or int
        Labels that are not totals, although their names or published numbers look like totals of other labels.

    Attributes
    ----------
    frame : Frame
        Labels of the cells.
    public : System
        Everything exact: ``A x = values``, ``B x >= limits``.
    entries : Entries
        Everything noisy: the sums, their published values and their laws.
    stated : tuple of Measured
        The noisy sums as stated, including those without values.
    releases : tuple of Release
        Releases that the measurements were made from.

    Raises
    ------
    LabelError, CountError, InvariantError, PrivacyError
        As for `measured` and `Public.on`: labels or values do not fit, or sums are contradictory. A label is a total
        of others.

    Warns
    -----
    DiagnosisWarning
        Scales of Gaussian or Laplace noise increase with the published numbers, as margins of error of survey estimates
        do. The false-alarm probability is 1 in 4,000 per statement whose scales are independent of its numbers.

    See Also
    --------
    ppdinf.measured, ppdinf.read_measurements, ppdinf.denoise, ppdinf.PartiallyPrivate

    Examples
    --------
    >>> import ppdinf as ppd
    >>> inv = ppd.invariants
    >>> seen = ppd.Measurements(
    ...     {"county": ["A", "B"], "sex": ["f", "m"]},
    ...     ppd.measured(inv.margin("county"), [30, 12], ppd.laws.DiscreteGaussian(variance=4.95)),
    ...     ppd.measured(inv.margin("county", "sex"), [[20, 7], [8, 8]], ppd.laws.DoubleGeometric("1/10")),
    ...     public={inv.total(): 40},
    ... )
    >>> seen
    <Measurements (county: 2, sex: 2): 6 noisy sums, 1 exact; Published exactly: the total.>
    """

    def __init__(
        self,
        labels: Mapping[str, Sequence[object]] | xr.DataArray,
        *parts: Measured,
        coords: Mapping[str, object] | None = None,
        public: Mapping[Public, object] | Public | System | None = None,
        bounds: Public | None = None,
        not_totals: Sequence[str | int] = (),
    ) -> None:
        for part in parts:
            if not isinstance(part, Measured):
                raise ModelError(f"measurements must be stated by ppd.measured(...), found {type(part).__name__}")
        frame = frame_of_labels(labels, coords)
        require_known(frame, exempt := exempt_labels(labels, not_totals))
        system, ranges = _exact(frame, public, bounds)
        stated = (*parts, *ranges)
        self._set(frame, [part.on(frame) for part in stated], stated, system)
        refuse_totals(frame, self._margins(), exempt)
        self._not_totals = exempt
        if dependence := scale_dependence(self.parts):
            warnings.warn(dependence, DiagnosisWarning, stacklevel=2)

    def _set(self, frame: Frame, parts: list[Entries], stated: Iterable[Measured], public: System) -> None:
        self.frame, self.parts, self.stated, self.public = frame, parts, tuple(stated), public
        self.releases: tuple[Release, ...] = ()
        self._not_totals = ()

    def possible_totals(self) -> list[str]:
        """Return a sentence for each label whose numbers agree with sums of other labels, too often by chance.

        Labels that are totals with more certainty are refused when the measurements are made.

        Returns
        -------
        list of str
            Each sentence names the label and states what to do.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> inv = ppd.invariants
        >>> seen = ppd.Measurements({"c": ["A", "B", "OH"]}, public={inv.margin("c"): ["12", "1-9", "17"]})
        >>> print(seen.possible_totals()[0][:60])
        The numbers of 'OH' agree with the sums of the other labels
        """
        return possible_totals(self.frame, self._margins(), self._not_totals)

    def _margins(self) -> list[tuple[tuple[str, ...], Array, Array]]:
        """Return bounds on the published counts by dimensions, which noise exceeds with probability `UNLIKELY`."""
        bounds: dict[tuple[str, ...], tuple[Array, Array]] = {}
        ends = [(self.public.names, self.public.values, self.public.values)]
        for names, low, high in ends + [(part.names, *part.support_bounds(UNLIKELY)) for part in self.parts]:
            for cells, rows in cell_names(names):
                if not cells.by or cells.after or not set(cells.by) <= set(self.dims):
                    continue
                shape = [self.shape[self.dims.index(dim)] for dim in cells.by]
                if cells.by not in bounds:
                    bounds[cells.by] = np.zeros(shape), np.full(shape, np.inf)
                at = tuple(self.frame.codes(dim)[0][cells.cells] for dim in cells.by)
                np.maximum.at(bounds[cells.by][0], at, low[rows])
                np.minimum.at(bounds[cells.by][1], at, high[rows])
        return [(by, low, high) for by, (low, high) in bounds.items()]

    @classmethod
    def of_releases(cls, releases: Iterable[Release]) -> Measurements:
        """Combine releases of one table: their noise is independent, and every public sum is exact.

        Parameters
        ----------
        releases : iterable of Release
            Releases of the same cells. Their noise is integer-valued and independent between cells given their public
            sums, or l2 noise. Mechanisms and public sums may differ.

        Raises
        ------
        LabelError
            The releases have different labels.
        InvariantError
            Their public sums are contradictory; the message names the rows.
        ModelError
            `releases` is empty, a release occurs twice, or the noise of a release is of another type. Equal tables of
            one mechanism are one release if independent draws coincide with probability below 1e-9.

        Warns
        -----
        DiagnosisWarning
            Two equal releases may be one release, or small tables that coincide by chance.
        """
        several = list(releases)
        for release in several:
            if not isinstance(release, Release):
                raise ModelError(f"releases must be ppdinf Releases, found {type(release).__name__}")
        if not several:
            raise ModelError("releases must contain at least one release")
        frame = several[0].frame
        for release in several[1:]:
            frame.check_same(release.frame, "a further release")
        refuse_same_noise(several)
        made: Measurements = object.__new__(cls)
        noisy = [(k, release) for k, release in enumerate(several) if not isinstance(release.mechanism, Suppression)]
        parts = [_entries_of(release, k) for k, release in noisy]
        stated = [Measured(margin(*r.dims), r.table, p.forms[0][0]) for (_, r), p in zip(noisy, parts, strict=True)]
        made._set(frame, parts, stated, _joined([r.public for r in several]))
        made.releases = tuple(several)
        return made

    @cached_property
    def entries(self) -> Entries:
        """All noisy sums, part by part."""
        if not self.parts:
            none = sp.csr_array((0, self.frame.size), dtype=np.int64)
            return Entries(none, [], np.zeros(0, dtype=np.int64), ())
        starts = np.cumsum([0, *(part.y.size for part in self.parts)])
        together: dict[int, tuple[ObservationModel, list[Integers]]] = {}
        for part, start in zip(self.parts, starts[:-1].tolist(), strict=True):
            for form, rows in part.forms:
                together.setdefault(id(form), (form, []))[1].append(rows + start)
        return Entries(
            sp.csr_array(sp.vstack([part.matrix for part in self.parts], format="csr")),
            Joined([part.names for part in self.parts]),
            np.concatenate([part.y for part in self.parts]),
            tuple((form, np.concatenate(rows)) for form, rows in together.values()),
        )

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per noisy sum.

        Returns
        -------
        pandas.DataFrame
            Columns ``released`` and ``law``, the type of the law; indexed by the name of the sum.
        """
        entries = self.entries
        law = np.empty(entries.y.size, dtype=object)
        for form, rows in entries.forms:
            law[rows] = str(form)
        values = entries.published
        if {type(value) for value in values.tolist()} <= {int, float}:
            values = values.astype(entries.y.dtype)
        return pd.DataFrame({"released": values, "law": law}, index=pd.Index(list(entries.names), name="sum"))

    def equals(self, other: Measurements) -> bool:
        """Return whether labels, noisy sums and exact sums are equal, statement by statement.

        Parameters
        ----------
        other : Measurements
        """
        return pack_measurements(self) == pack_measurements(other)

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write everything as one zip file of JSON and CSV; see `ppdinf.read_measurements`.

        Parameters
        ----------
        path : str or path
        overwrite : bool, default False
            Replace an existing file.

        Raises
        ------
        ReleaseFileError
            The file exists.
        WriteError
            The file cannot be written. An existing file is unchanged, and no partial file remains.
        """
        save(path, pack_measurements(self), overwrite=overwrite, why="it may be the only copy of the measurements")

    def __repr__(self) -> str:
        sizes = ", ".join(f"{dim}: {n}" for dim, n in zip(self.dims, self.shape, strict=True))
        return (
            f"<Measurements ({sizes}): {self.entries.y.size} noisy sums, {len(self.public.names)} exact; "
            f"{self.public.public}>"
        )


def _exact(
    frame: Frame, public: Mapping[Public, object] | Public | System | None, bounds: Public | None
) -> tuple[System, list[Measured]]:
    """Bind exact knowledge, with values that are known separately, and return ranges as measurements."""
    if isinstance(public, System):
        if bounds is not None:
            raise InvariantError("public is already bound to a table: include its bounds in it, and omit bounds=")
        frame.check_same(public.frame, "the table that the public information was bound to")
        return public, []
    if isinstance(public, Public):
        public = {public: None}
    if not isinstance(public, Mapping | None):
        raise InvariantError(
            f"public must map statements to their values, such as public={{ppd.invariants.total(): 40}}, found "
            f"{type(public).__name__}"
        )
    values_by_statement = dict(public or {})
    if not isinstance(bounds, Public | None):
        raise InvariantError(
            "bounds must be statements that contain their limits, such as ppd.invariants.nonnegative(), between(0, 9) "
            f"or inequality(matrix, limits) for chosen cells, found {type(bounds).__name__}"
        )
    if bounds is not None:
        values_by_statement[bounds] = None
    statements = Public()
    values: list[Array] = [np.zeros(0, dtype=np.int64)]
    ranges: list[Measured] = []
    # match the values of each statement to its sums
    for statement, stated in values_by_statement.items():
        if not isinstance(statement, Public):
            raise InvariantError(
                "public sums must be statements of ppdinf.invariants, such as total(), found "
                f"{type(statement).__name__}"
            )
        names = Joined([part.equalities(frame)[1] for part in statement])
        zeros = all(part.known for part in statement)
        if stated is not None and not len(names):
            raise InvariantError(f"{statement} states no sum and has no value: state it by bounds=")
        if stated is None and len(names) and not zeros:
            raise InvariantError(f"the public value of {names[0]!r} is missing: public={{statement: values}}")
        alone = next(iter(statement)).equalities(frame)[1] if len(statement.statements) == 1 else names
        numbers = [0] * len(names) if stated is None else onto_rows(stated, alone, frame, "public values").tolist()
        if set(statements.statements) & set(statement.statements):
            raise InvariantError(f"{statement} is stated twice")
        if not all(isinstance(number, int | np.integer) for number in numbers) and _has_ranges(numbers):
            statement, numbers, rest = _exact_and_ranges(statement, numbers, names)
            ranges += rest
        statements &= statement
        values.append(np.asarray(numbers))
    # bind all statements, and check that a table satisfies them
    blank = np.zeros(frame.size, dtype=np.int64)
    system = bind(statements, frame, blank, np.concatenate(values))
    if system.limits.size:
        system.nearest(frame.table(blank))  # the error names contradictory sums
    return system, ranges


def _has_ranges(values: list[object]) -> bool:
    """Return whether values are texts or missing."""
    stated = np.array(values, dtype=object)
    return any(isinstance(value, str) for value in values) or bool(missing_values(stated).any())


def _exact_and_ranges(
    statement: Public, values: list[object], names: Sequence[str]
) -> tuple[Public, Array, list[Measured]]:
    """Separate exact sums from ranges; sums without a value are in neither."""
    all_values = np.array(values, dtype=object)
    stated = np.flatnonzero(~missing_values(all_values))
    texts = all_values[stated]
    law, y = applied(Interval().read, texts, Chosen(names, stated), "public values")
    low, high = law.support_bounds(y, 0.0)
    exact, bounded = stated[low == high], stated[low != high]
    ranges = np.full(len(values), None)
    ranges[bounded] = texts[low != high]
    return (
        Public((SelectedSums(statement.statements, tuple(exact.tolist())),) if exact.size else ()),
        low[low == high].astype(np.int64),
        [Measured(statement, ranges, Interval())] if bounded.size else [],
    )


def _entries_of(release: Release, number: int) -> Entries:
    """Convert a release to entries, one per cell."""
    likelihood = release.likelihood
    mixed = isinstance(likelihood.auxiliary, MixingScale)
    plain = likelihood.norm is None and (likelihood.auxiliary is None or mixed) and likelihood.query is None
    plain = plain and not likelihood.is_of_release
    if not plain or likelihood.looks_at_table or not release.mechanism.is_integer:
        bounded = likelihood.normaliser is not None
        why = "is conditioned on bounds or weighted by table" if bounded else "is not independent between integer cells"
        raise ModelError(
            f"release {number + 1}, by {type(release.mechanism).__name__}, is not supported by denoise and in lists of "
            f"releases: its noise {why}. Use PartiallyPrivate with this release alone"
        )
    d, frame = release.frame.size, release.frame
    names = [f"{frame.cell(k)}, release {number + 1}" for k in range(d)]
    y = release.table.values.ravel().astype(np.int64)
    form: ObservationModel = JointL2(likelihood.form.law) if mixed else likelihood.form  # type: ignore[union-attr, assignment]
    return Entries(sp.eye_array(d, dtype=np.int64, format="csr"), names, y, ((form, np.arange(d)),))


def _joined(systems: list[System]) -> System:
    """Combine several systems of the same cells into one."""
    names = [f"{name}, release {k + 1}" for k, system in enumerate(systems) for name in system.names]
    A, values = sp.vstack([system.A for system in systems]), np.concatenate([system.values for system in systems])
    check_consistent(A, values, row_names=names)
    statements, distinct = Public(), []
    for system in systems:
        first = 0
        for statement in system.public:
            n = len(statement.equalities(system.frame)[1])
            if statement not in statements.statements:
                distinct += system.values[first : first + n].tolist()
                statements = statements & Public((statement,))
            first += n
    blank = np.zeros(systems[0].frame.size, dtype=np.int64)
    return bind(statements, systems[0].frame, blank, distinct)
