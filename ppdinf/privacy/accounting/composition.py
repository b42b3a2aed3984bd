"""What several releases promise together.

Losses add up among the tables that agree with everything published by any of them: joined public information
protects fewer tables, and the promise says nothing about the others.

References
----------
P. Dharangutte et al., "Integer subspace differential privacy", Proposition 6. J. Gao et al., "Subspace differential
privacy", Proposition 2.9. Bun and Steinke, "Concentrated differential privacy", Lemma 1.7 and Proposition 1.4. J.
Seeman et al., "Formal privacy for partially private data", Lemma 6, which needs more than it says, and Lemma 7, which
fails where the data of two parts hang together (`compose_parallel` refuses it).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ppdinf.errors import PrivacyError
from ppdinf.privacy.guarantees.guarantee import Guarantee
from ppdinf.privacy.guarantees.restatement import whole_delta
from ppdinf.privacy.guarantees.unit_loss import tied_distance

__all__ = ["compose", "compose_parallel", "compose_partition"]


def compose(*guarantees: Guarantee, independent: bool | None = None) -> Guarantee:
    """Add up the losses of releases of one table.

    Parameters
    ----------
    *guarantees : Guarantee
        Of one variant; "integer-subspace" joins "congenial", as one that costs no gamma. Distances in l1 and l2 meet in
        l1, which is never smaller.
    independent : bool, optional
        For "pufferfish", which composes not otherwise, whether two things hold, which must be said. The releases are
        drawn independently of each other given the confidential table and what is public. And every loss holds between
        any two tables that are as near as the sensitivity, by one and the same distance of whole tables: as for
        `WassersteinExponential` in one norm. The sum then holds under the models that all were designed for.

    Returns
    -------
    Guarantee
        Unprotected is what any of them leaves unprotected. What a Markov chain costs is part of delta.

    Raises
    ------
    PrivacyError
        Nothing to compose; guarantees of several variants, or between neighbours of several kinds; deltas that add up
        to 1; Pufferfish guarantees whose independence is not stated, or given different public information.

    Examples
    --------
    >>> first = Guarantee("zcdp", rho=Fraction(1, 8), metric="l2", unprotected=("the total",))
    >>> second = Guarantee("zcdp", rho=Fraction(1, 4), metric="l2", unprotected=("the margin of sex",))
    >>> both = compose(first, second)
    >>> both.rho, both.unprotected
    (Fraction(3, 8), ('the total', 'the margin of sex'))
    """
    guarantees = _within_bounds(guarantees)
    first = _alike(guarantees)
    if first.variant == "pufferfish" and not independent:
        raise PrivacyError(
            "Pufferfish guarantees add up only for releases that are independent given the confidential table and what "
            "is public, with sensitivities by one distance of whole tables: pass independent=True where that is so"
        )
    if first.variant == "pufferfish" and len({frozenset(g.unprotected + g.known) for g in guarantees}) > 1:
        raise PrivacyError(
            "Pufferfish guarantees given different public information do not add up: what is public decides how far a "
            "secret moves the table, so work out each sensitivity given all that is public"
        )
    together = _joined(first, guarantees)
    zero = Fraction(0)
    if first.rho is not None:
        return replace(together, rho=sum((g.rho or zero for g in guarantees), start=zero))
    total = sum((g.epsilon or zero for g in guarantees), start=zero)
    delta = sum((whole_delta(g) for g in guarantees), start=zero)
    if delta >= 1:
        raise PrivacyError("together the deltas reach 1: nothing is promised of these releases as a whole")
    gamma = float(sum(g.loss() for g in guarantees) / total) - 1 if first.variant == "congenial" else None
    return replace(together, epsilon=total, delta=delta, gamma=gamma)


def compose_parallel(
    *guarantees: Guarantee, disjoint: bool, within: bool | None = None, independent: bool | None = None
) -> Guarantee:
    """Join releases about parts of the data that share nobody: only the largest loss counts, or the two largest.

    Parameters
    ----------
    *guarantees : Guarantee
        Of one variant.
    disjoint : bool
        Whether each release depends on its own part alone, given what is public.
    within : bool
        Whether two neighbours differ in one part only, and must be said: True where a record is added or removed, or
        replaced by one of its own part, as where the sizes of the parts are public; False where it can also move from
        one part to another, so that two parts change, one record less in one and one more in the other. Then every
        part must have a guarantee for records added or removed: one for records replaced takes their number to be
        known, and the sizes of the parts would be published without protection.
    independent : bool, optional
        Needed for Pufferfish guarantees: whether under every model the data of the parts are independent given what is
        public, and each secret is about one part. PPD Lemma 7 needs both (docs/errata.md).

    Returns
    -------
    Guarantee

    Raises
    ------
    PrivacyError
        As `compose`; or the parts are not stated to be disjoint, or it is not stated whether neighbours differ in one.
        With ``within=False``, guarantees that are not said to hold where a record is added or removed.
        Pufferfish guarantees without independent parts: where two hang together, both tell of the same secret.

    Examples
    --------
    >>> a = Guarantee("pure", Fraction(1), neighbours="one record added or removed")
    >>> b, c = replace(a, epsilon=Fraction(2)), replace(a, epsilon=Fraction(3))
    >>> [compose_parallel(a, b, c, disjoint=True, within=within).epsilon for within in (True, False)]
    [Fraction(3, 1), Fraction(5, 1)]
    """
    first = _alike(guarantees)
    if not disjoint:
        raise PrivacyError("losses of overlapping parts add up: use compose, or pass disjoint=True where none overlap")
    if first.variant == "pufferfish":
        if not independent:
            raise PrivacyError(
                "under models in which the data of two parts hang together, both tell of one secret, by more than "
                "either loss or their sum: pass independent=True where they are independent under every model and each "
                "secret is about one part, else work out one sensitivity for the data as a whole, and use compose"
            )
        within = True  # a secret is about one part
    if first.metric is not None:
        raise PrivacyError(
            "a loss per unit of distance adds up over the parts as the distance does: the guarantee with the largest "
            "loss holds for the whole table as it is"
        )
    if within is None:
        raise PrivacyError(
            f"do neighbours, who differ in {first.neighbours}, differ in one part only? A record that is replaced by "
            "one of another part changes both: pass within=True or within=False"
        )

    def largest(losses: Sequence[Fraction | float]) -> Any:
        return sum(sorted(losses)[-1 if within else -2 :])

    together, zero = _joined(first, guarantees, largest), Fraction(0)
    if not within:
        if "added" not in str(first.neighbours):
            raise PrivacyError(
                f"these guarantees hold between neighbours who differ in {first.neighbours}, not where a part gains "
                "or loses a record, as when one moves to another part: the sizes of the parts would be published. Use "
                "mechanisms for records added or removed, or make the sizes public and pass within=True"
            )
        together = replace(together, neighbours=f"{first.neighbours}, or moved from one part to another")
    if first.rho is not None:
        return replace(together, rho=largest([g.rho or zero for g in guarantees]))
    epsilon, delta = largest([g.epsilon or zero for g in guarantees]), largest([whole_delta(g) for g in guarantees])
    if delta >= 1:
        raise PrivacyError("together the deltas reach 1: nothing is promised of these releases as a whole")
    gamma = None if first.gamma is None else float(largest([g.loss() for g in guarantees]) / epsilon) - 1
    return replace(together, epsilon=epsilon, gamma=gamma, delta=delta)


def compose_partition(guarantees: Sequence[Guarantee], parts: Sequence[str | None]) -> Guarantee:
    """Add up releases of everybody and of parts that share nobody: of the parts the one that lost most counts.

    The distance of two states of the data is then the largest of those of the tables of everybody, and of the sum over
    the parts of the largest distance of a part's tables. A person who is counted in another part changes two tables by
    1 each, which is a distance of 2, as within one table.

    Parameters
    ----------
    guarantees : sequence of Guarantee
        As for `compose`; where there are parts, per unit of distance.
    parts : sequence of str or None
        The part that each is about, None for everybody.

    Returns
    -------
    Guarantee
        In l1, where parts lose in l2 and not in zCDP: distances of parts add up, those in l2 to more than that of the
        whole. Deltas of all parts add up.

    Raises
    ------
    PrivacyError
        As `compose`; or a loss of a part is not per unit of distance.

    Notes
    -----
    Let part p have loss e_p and distance d_p. Then ``sum e_p d_p <= max e_p sum d_p``, and in zCDP
    ``sum rho_p d_p**2 <= max rho_p sum d_p**2``, the squared distance of the whole in l2, and below that in l1.

    Examples
    --------
    >>> north = Guarantee("pure", Fraction(1), metric="l1")
    >>> south, whole = replace(north, epsilon=Fraction(2)), replace(north, epsilon=Fraction(4))
    >>> compose_partition([north, south, whole], ["north", "south", None]).epsilon
    Fraction(6, 1)
    """
    by_part: dict[str, list[Guarantee]] = defaultdict(list)
    everybody: list[Guarantee] = []
    for guarantee, part in zip(_within_bounds(tuple(guarantees)), parts, strict=True):
        if part is not None and guarantee.metric is None:
            raise PrivacyError(
                "of parts that share nobody the largest loss counts where losses are per unit of distance: this one is "
                f"between neighbours who differ in {guarantee.neighbours}, so enter it without a part"
            )
        (everybody if part is None else by_part[part]).append(guarantee)
    if not by_part:
        return compose(*everybody, independent=True)
    cut = [compose(*own) for own in by_part.values()]
    first = _alike(tuple(cut))
    most = max(cut, key=lambda guarantee: guarantee.loss())
    together = replace(
        _joined(first, tuple(cut), max), epsilon=most.epsilon, gamma=most.gamma, rho=most.rho,
        delta=sum((guarantee.delta for guarantee in cut), start=Fraction(0)),
    )  # fmt: skip
    if together.rho is None:
        together = replace(together, metric="l1", tied=_tied_in(together, "l1"))
    return compose(*everybody, together, independent=True)


def _within_bounds(guarantees: tuple[Guarantee, ...]) -> tuple[Guarantee, ...]:
    """State what holds between all tables with the same sums for those that agree with bounds, too, where others do."""
    if {getattr(g, "variant", None) for g in guarantees} != {"congenial", "integer-subspace"}:
        return guarantees
    return tuple(g if g.variant == "congenial" else replace(g, variant="congenial", gamma=0.0) for g in guarantees)


def _alike(guarantees: tuple[Guarantee, ...]) -> Guarantee:
    if not guarantees:
        raise PrivacyError("there is nothing to compose")
    for found in guarantees:
        if not isinstance(found, Guarantee):
            raise PrivacyError(f"guarantees compose, such as release.guarantee; found {type(found).__name__}")
    variants = {g.variant for g in guarantees}
    if len(variants) > 1:
        raise PrivacyError(f"guarantees of variants {sorted(variants)} do not add up: restate them with to_zcdp first")
    units = {(g.unit, g.contributions) for g in guarantees}
    if len(units) > 1:
        kinds = "; ".join(f"one {unit} with at most {count} records" for unit, count in sorted(units))
        raise PrivacyError(f"the guarantees protect units of several kinds ({kinds}): they do not add up")
    if len({(g.neighbours, g.steps) for g in guarantees}) > 1:
        raise PrivacyError("the guarantees hold between neighbours of several kinds: they do not add up")
    return guarantees[0]


def _joined(first: Guarantee, guarantees: tuple[Guarantee, ...], total: Callable[..., Any] = sum) -> Guarantee:
    """Drop what is said of one release, and join what is open; `total` joins zCDP losses."""
    metric = "l1" if any(g.metric == "l1" for g in guarantees) else first.metric
    return Guarantee(
        first.variant,
        first.epsilon,
        first.delta,
        first.rho,
        metric,
        first.neighbours,
        first.gamma,
        unprotected=tuple(dict.fromkeys(what for g in guarantees for what in g.unprotected)),
        known=tuple(dict.fromkeys(what for g in guarantees for what in g.known)),
        unit=first.unit,
        contributions=first.contributions,
        models=" and ".join(dict.fromkeys(g.models for g in guarantees if g.models)) or None,
        assumed=tuple(dict.fromkeys(what for g in guarantees for what in g.assumed)),
        concentrated=_concentrated(guarantees, total),
        steps=first.steps,
        tied=max(_tied_in(g, metric) for g in guarantees),
    )


def _tied_in(guarantee: Guarantee, metric: str | None) -> float | Fraction:
    """Return the distance of the nearest table; in l1 at most the square of that in l2, since counts are integers."""
    tied = tied_distance(guarantee)
    return round(float(tied) ** 2) if metric == "l1" and guarantee.metric == "l2" else tied


def _concentrated(guarantees: tuple[Guarantee, ...], total: Callable[..., Any]) -> Guarantee | None:
    """Join the zCDP losses of the noise, where all of it is Gaussian, states them, and counts them alike."""
    found = [g.concentrated for g in guarantees]
    if any(g is None for g in found) or any(whole_delta(g) != g.delta for g in guarantees):
        return None
    first, *others = zcdp = [g for g in found if g is not None]
    if any((g.metric, g.neighbours, g.steps) != (first.metric, first.neighbours, first.steps) for g in others):
        return None
    return replace(first, rho=total([g.rho or Fraction(0) for g in zcdp]), tied=max(g.tied for g in zcdp))
