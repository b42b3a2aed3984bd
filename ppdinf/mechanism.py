"""The base class of mechanisms: kind in files, guarantee, likelihood, and releases planned before a draw."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ppdinf._internal.values import Array, Integers, Json, NamedInFiles, as_html, as_plain, construct
from ppdinf.errors import ModelError, PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.laws.likelihood import Likelihood
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.release_guarantee import PossibleTables, ReleaseGuarantee
from ppdinf.tables.table import TableLike

PACKAGES = ("ppdinf.mechanisms", "ppdinf.counts")
"""Packages that define kinds of mechanisms, imported when a file names a kind that is not defined yet."""

CHAIN = "that the chain which drew the noise is as near to its law as coupled chains show at 95 % confidence"


class Mechanism(NamedInFiles, ABC, by="kind"):
    """A way to publish results from confidential data.

    Attributes
    ----------
    kind : str
        Name in release files.
    title : str
        Short description of the law.
    is_integer : bool
        Whether releases are integers; otherwise they are doubles, multiples of a grid where possible.
    is_translation_invariant : bool
        Whether the noise has the same law around every table with the same public sums.
    keeps_bounds : bool
        Whether releases satisfy public bounds as the confidential table does.
    public : Public
        Statements that are published exactly.

    See Also
    --------
    ppdinf.GeneralizedLaplace, ppdinf.GeneralizedGaussian

    Examples
    --------
    >>> import ppdinf as ppd
    >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4")
    >>> isinstance(mechanism, ppd.mechanisms.Mechanism), mechanism.kind, mechanism.is_integer
    (True, 'generalized-laplace', True)
    """

    kind: ClassVar[str]
    title: str = "noise"
    is_integer: ClassVar[bool] = True
    is_translation_invariant: ClassVar[bool] = False
    keeps_bounds: ClassVar[bool] = False
    public: Public

    @property
    def distance(self) -> str:
        """Name of the distance of losses; only losses in the same distance can be added."""
        return self.kind

    @property
    def queries(self) -> tuple[tuple[int, ...], ...] | None:
        """Rows of the counting queries; None if a release has the cells of the table."""
        return None

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The guarantee of the law for every table."""

    def _repr_html_(self) -> str:
        guarantee = self.guarantee
        return as_html(f"{type(self).__name__}. {guarantee.describe_unit()}", guarantee.describe())

    def guarantee_on(self, system: System, plan: Plan | None, public: System | None = None) -> ReleaseGuarantee:
        """Return the guarantee of a release, with the planned sampler.

        Parameters
        ----------
        system : System
            The sums that the release keeps.
        plan : Plan or None
        public : System, optional
            All public statements, if more is public: they determine the set of possible tables.
        """
        public = system if public is None else public
        guarantee = self._guarantee_on(system, public, plan)
        distance = 0.0 if plan is None or plan.distance is None else plan.distance
        sums, answers = public.free.class_system[:, public.free.classes], None
        if self.queries is not None:
            answers = sparse.csc_array(np.array(self.queries, dtype=np.int64))
            sums = sums @ answers
        possible = PossibleTables(sparse.csc_array(sums), answers, public.frame.digest)
        step = None if public.fixed.all() else possible.nearest_step(guarantee)
        nearest, moved = step or (None, None)
        record = guarantee.unit if guarantee.contributions == 1 else "record"
        measured = (CHAIN,) if 0 < distance < 1 else ()
        fields = vars(guarantee) | {"assumed": (*guarantee.assumed, *measured), "possible": possible}
        return ReleaseGuarantee(
            **fields,
            nearest=nearest,
            fixed=int(public.fixed.sum()),
            cells=public.frame.size,
            sampler=self._sampled(plan),
            sampler_distance=distance,
            change=None if moved is None else _describe_step(moved, record),
            is_free=_is_free(public, possible),
        )

    def _guarantee_on(self, system: System, public: System, plan: Plan | None) -> Guarantee:
        """Return the guarantee of releases that keep the sums of `system`."""
        return self.guarantee

    def _sampled(self, plan: Plan | None) -> str:
        """Describe how the noise was drawn."""
        return f"{self.title}, {plan or 'drawn in a way that is not stated'}"

    def to_dict(self) -> Json:
        """Return the kind and parameters, without `public`, as plain data; the default is for dataclasses."""
        return {"kind": self.kind} | as_plain(self, "public")

    @staticmethod
    def from_dict(data: Any, public: Public) -> Mechanism:
        """Rebuild a mechanism from `to_dict`.

        Raises
        ------
        PrivacyError
            The kind of mechanism, or one of its parameters, is unknown to this version.
        """
        kind_class = Mechanism._named_in(data)
        for package in PACKAGES:
            if kind_class is None:
                importlib.import_module(package)
                kind_class = Mechanism._named_in(data)
        if kind_class is None:
            kind = data.get("kind") if isinstance(data, dict) else None
            raise PrivacyError(f"this version of ppdinf does not know mechanisms of kind {kind!r}: use a newer version")
        return kind_class._of_file(public, {name: value for name, value in data.items() if name != "kind"})

    @classmethod
    def _of_file(cls, public: Public, parameters: Json) -> Mechanism:
        """Return a mechanism from the data of `to_dict`."""
        return construct(cls, {"public": public} | parameters, f"a mechanism of kind {cls.kind!r}")

    def likelihood(self, system: System) -> Likelihood | None:
        """Return the likelihood of the cells of a table with these public sums, given a release.

        Parameters
        ----------
        system : System
            The sums that the release keeps.

        Returns
        -------
        Likelihood or None
            None if `ppdinf.PartiallyPrivate` cannot use the law; `intractable` states the reason.

        Raises
        ------
        ModelError
            The public statements leave no tractable likelihood.
        """
        return None

    def intractable(self, system: System | None = None) -> str:
        """Return the reason why `likelihood` or a density is not available, and an alternative."""
        return f"the likelihood of releases by {type(self).__name__} is not known"

    def likelihood_given(self, system: System, y: Array) -> Likelihood | None:
        """Return `likelihood`, or the likelihood of the release y alone if its form depends on y."""
        return self.likelihood(system)

    def require_likelihood(self, system: System, y: Array | None = None) -> Likelihood:
        """Return `likelihood`, or `likelihood_given` a release.

        Raises
        ------
        ModelError
            The likelihood is not available.
        """
        likelihood = self.likelihood(system) if y is None else self.likelihood_given(system, y)
        if likelihood is None:
            raise ModelError(self.intractable(system))
        return likelihood

    def logp(self, y: TableLike, x: TableLike) -> float:
        """Return the log density of releasing `y` given the confidential data `x`, if it is known.

        Raises
        ------
        ModelError
            The density is not known.
        """
        raise ModelError(self.intractable())

    def draft(self, data: Any, *, allow_mcmc: bool = False) -> PreparedRelease:
        """Validate data and plan a release without drawing; `ppdinf.Session` uses its guarantee.

        Raises
        ------
        PrivacyError
            The mechanism cannot plan releases, or the reasons of its `release`.
        """
        raise PrivacyError(f"{type(self).__name__} does not support releases that are planned before they are drawn")

    def on_part(self, public: Public) -> Mechanism:
        """Return the mechanism of a part of a release, given the public statements of the part.

        Raises
        ------
        ModelError
            The distribution of the noise on a part alone is not known.
        """
        raise ModelError(
            f"a part of a release by {type(self).__name__} is not a release: the distribution of its noise on the part "
            "alone is not known. Use release.table.sel(...) for the numbers"
        )

    def on(self, system: System) -> Mechanism:
        """Return the mechanism with all parameters that depend on a table's public sums; never on its counts."""
        return self


def _is_free(public: System, possible: PossibleTables) -> bool:
    """Return whether a record can move between all cells that are not fixed: they are in the same public sums."""
    low, high = public.cell_limits
    if np.any(np.diff(public.B.indptr) > 1) or np.any(low > 0) or np.any(high < np.inf):
        return False
    sums = possible.sums if possible.answers is not None else public.A.tocsc()[:, ~public.fixed]
    return bool(sums.shape[1]) and not (sums.max(axis=1) != sums.min(axis=1)).nnz


def _describe_step(step: Integers, unit: str) -> str:
    """Describe a smallest change of the table."""
    moved = step[step != 0]
    if moved.size == 1 and abs(moved[0]) == 1:
        return f"one {unit} more or less in a cell that no public sum covers"
    if moved.size == 2 and np.all(np.abs(moved) == 1):
        if moved.sum():
            return f"one {unit} more, or one less, in each of two cells"
        return f"one {unit} counted in another cell"
    return "several cells must change together to keep every public sum"


@dataclass(frozen=True, eq=False)
class PreparedRelease:
    """A validated and planned release without noise. It holds the confidential table: never publish it."""

    mechanism: Mechanism
    public: System
    plan: Plan | None
    draw: Callable[[], Any]

    @cached_property
    def guarantee(self) -> ReleaseGuarantee:
        """The guarantee of the complete release."""
        return self.mechanism.guarantee_on(self.public, self.plan)
