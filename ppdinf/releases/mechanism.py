"""What a release knows of how it was made: a name in files, a promise, and perhaps a likelihood."""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.frozen import NamedInFiles, made
from ppdinf._internal.types import Json
from ppdinf.errors import ModelError, PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.lattice.points.shortest import shortest_step
from ppdinf.laws.likelihood import Likelihood
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantees.guarantee import Guarantee
from ppdinf.privacy.guarantees.release_guarantee import ReleaseGuarantee
from ppdinf.tables.table import TableLike

if TYPE_CHECKING:
    from ppdinf.releases.prepared_release import PreparedRelease

__all__ = ["Mechanism"]

ROOMS = ("ppdinf.mechanisms", "ppdinf.counts")
"""Rooms above this one that define kinds, loaded when a file names a kind that nothing has defined yet."""

CHAIN = "that the chain which drew the noise is as near to its law as coupled chains show at 95 % confidence"


class Mechanism(NamedInFiles, ABC, by="kind"):
    """A way to publish something of confidential data.

    Attributes
    ----------
    kind : str
        Name in release files.
    title : str
        The law in a few words.
    is_integer : bool
        Whether releases are whole numbers; others are doubles, multiples of a grid where that is possible.
    is_translation_invariant : bool
        Whether the noise has the same law around every table with the same public sums.
    keeps_bounds : bool
        Whether releases obey public bounds as the confidential table does.
    public : Public
        What is kept exactly.
    """

    kind: ClassVar[str]
    title: str = "noise"
    is_integer: ClassVar[bool] = True
    is_translation_invariant: ClassVar[bool] = False
    keeps_bounds: ClassVar[bool] = False
    public: Public

    @property
    def distance(self) -> str:
        """Name of the distance that losses are stated in; those in one distance add up."""
        return self.kind

    @property
    def queries(self) -> tuple[tuple[int, ...], ...] | None:
        """Rows of the counting queries that are answered; None where a release has the cells of the table."""
        return None

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What the law promises on any table."""

    def guarantee_on(self, system: System, plan: Plan | None, public: System | None = None) -> ReleaseGuarantee:
        """State the guarantee of a release and the sampler that was planned.

        Parameters
        ----------
        system : System
            What the release keeps.
        plan : Plan or None
        public : System, optional
            Everything public, where that is more: it decides which tables there are to choose from.
        """
        public = system if public is None else public
        promise = self._promise_on(system, public, plan)
        distance = 0.0 if plan is None or plan.distance is None else plan.distance
        nearest, change = (None, None) if public.fixed.all() else self._nearest(promise, public)
        measured = (CHAIN,) if 0 < distance < 1 else ()
        given = vars(promise) | {"assumed": (*promise.assumed, *measured)}
        return ReleaseGuarantee(
            **given,
            nearest=nearest,
            fixed=int(public.fixed.sum()),
            cells=public.frame.size,
            sampler=self._sampled(plan),
            sampler_distance=distance,
            change=change,
        )

    def _promise_on(self, system: System, public: System, plan: Plan | None) -> Guarantee:
        """Say what is promised of releases that keep the sums of `system`."""
        return self.guarantee

    def _nearest(self, promise: Guarantee, public: System) -> tuple[Fraction | float | None, str | None]:
        """Find how far the nearest other table is, in steps where there is no metric, and what it differs in."""
        if promise.metric is None:
            return 1, None
        step = shortest_step(public.free, promise.metric)
        if step is None:
            return None, None
        size = int(np.abs(step).sum()) if promise.metric == "l1" else math.sqrt(int(step @ step))
        return size, _in_words(step, promise.unit if promise.contributions == 1 else "record")

    def _sampled(self, plan: Plan | None) -> str:
        """Say how the noise was drawn."""
        return f"{self.title}, {plan or 'drawn in a way that is not stated'}"

    @abstractmethod
    def to_dict(self) -> Json:
        """Kind and parameters, without `public`, as plain data; `from_dict` reads them back."""

    @staticmethod
    def from_dict(data: Any, public: Public) -> Mechanism:
        """Rebuild a mechanism from `to_dict`.

        Raises
        ------
        PrivacyError
            A kind of mechanism that this version does not know, or other parameters than it has.
        """
        found = Mechanism._named_in(data)
        for room in ROOMS:
            if found is None:
                importlib.import_module(room)
                found = Mechanism._named_in(data)
        if found is None:
            kind = data.get("kind") if isinstance(data, dict) else None
            raise PrivacyError(f"this version of ppdinf does not know mechanisms of kind {kind!r}")
        return found._of_file(public, {name: value for name, value in data.items() if name != "kind"})

    @classmethod
    def _of_file(cls, public: Public, parameters: Json) -> Mechanism:
        """Make a mechanism of what `to_dict` has said."""
        return made(cls, {"public": public} | parameters, f"a mechanism of kind {cls.kind!r}")

    def likelihood(self, system: System) -> Likelihood | None:
        """State how probable releases are given the cells of a table with these public sums.

        Parameters
        ----------
        system : System
            What the release keeps.

        Returns
        -------
        Likelihood or None
            None where inference by `ppdinf.PartiallyPrivate` has no use for the law; `intractable` says why.

        Raises
        ------
        ModelError
            What is public leaves no likelihood that could be worked with.
        """
        return None

    def intractable(self, system: System | None = None) -> str:
        """Say why there is no `likelihood` or no density, and what to do instead."""
        return f"the likelihood of releases by {type(self).__name__} is not known"

    def require_likelihood(self, system: System) -> Likelihood:
        """Return `likelihood`.

        Raises
        ------
        ModelError
            There is none.
        """
        found = self.likelihood(system)
        if found is None:
            raise ModelError(self.intractable(system))
        return found

    def logp(self, y: TableLike, x: TableLike) -> float:
        """Log density of releasing `y` when the confidential data are `x`, where that is known.

        Raises
        ------
        ModelError
            It is not.
        """
        raise ModelError(self.intractable())

    def draft(self, data: Any, *, allow_mcmc: bool = False) -> PreparedRelease:
        """Check and plan a release, and draw nothing: what `ppdinf.Session` asks what it will cost.

        Raises
        ------
        PrivacyError
            The mechanism draws no releases. Or whatever its `release` refuses.
        """
        raise PrivacyError(f"{type(self).__name__} draws no releases that can be planned ahead")

    def on(self, system: System) -> Mechanism:
        """Settle whatever the mechanism leaves open until it meets a table's public sums; never its counts."""
        return self


def _in_words(step: NDArray[np.int64], unit: str) -> str:
    """Say what a smallest change of the table is."""
    moved = step[step != 0]
    if moved.size == 1 and abs(moved[0]) == 1:
        return f"one {unit} more or less in a cell that no public sum covers"
    if moved.size == 2 and np.all(np.abs(moved) == 1):
        if moved.sum():
            return f"one {unit} more, or one less, in each of two cells"
        return f"one {unit} counted in another cell"
    return "several cells must change together to keep every public sum"
