"""The joint guarantee of several releases.

Losses are added for tables that agree with all published information of all releases: joint public information
protects fewer tables, and the guarantee does not cover the others.

References
----------
P. Dharangutte et al., "Integer subspace differential privacy", Proposition 6. J. Gao et al., "Subspace differential
privacy", Proposition 2.9. Bun and Steinke, "Concentrated differential privacy", Lemma 1.7 and Proposition 1.4. J.
Seeman et al., "Formal privacy for partially private data", Lemma 6, which needs additional assumptions, and Lemma 7,
which fails for dependent parts of the data (`compose_parallel` refuses them).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ppdinf.errors import PrivacyError
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.release_guarantee import PossibleTables
from ppdinf.privacy.restatement import whole_delta
from ppdinf.privacy.unit_loss import SMALLEST, distance_of_unit, tied_distance

EVERY = "every model of the data in which "
ALSO = " and in which, at the same time, "


def compose(*guarantees: Guarantee, independent: bool | None = None) -> Guarantee:
    """Add the losses of releases of one table.

    Parameters
    ----------
    *guarantees : Guarantee
        Of one variant; "integer-subspace" can be combined with "congenial", as a guarantee with gamma = 0. l1 and l2
        distances are combined in l1, which is never smaller. A guarantee without loss, such as that of
        `ppdinf.Suppression`, is combined with every variant except "pufferfish": it adds public sums.
    independent : bool, optional
        Required for "pufferfish". True states that two conditions hold. The releases are drawn independently of each
        other given the confidential table and the public information. And every loss holds between any two tables
        within the sensitivity, by the same distance of tables, as for `WassersteinExponential` in one norm. The sum
        then holds under all models that all releases were designed for.

    Returns
    -------
    Guarantee
        Information that any of them leaves unprotected is unprotected. The cost of a Markov chain is part of delta.

    Raises
    ------
    PrivacyError
        No guarantees; several variants, several kinds of neighbours, or different units; deltas whose sum is at least
        1; Pufferfish guarantees without stated independence, or given different public information.

    See Also
    --------
    ppdinf.privacy.compose_parallel, ppdinf.privacy.Ledger, ppdinf.Session

    Examples
    --------
    >>> from fractions import Fraction
    >>> from ppdinf.privacy import Guarantee, compose
    >>> first = Guarantee("zcdp", rho=Fraction(1, 8), metric="l2", unprotected=("the total",))
    >>> second = Guarantee("zcdp", rho=Fraction(1, 4), metric="l2", unprotected=("the margin of sex",))
    >>> both = compose(first, second)
    >>> both.rho, both.unprotected
    (Fraction(3, 8), ('the total', 'the margin of sex'))
    """
    guarantees = _restated(guarantees)
    first = _alike(guarantees)
    if first.variant == "pufferfish" and not independent:
        raise PrivacyError(
            "Pufferfish guarantees add up only for releases that are independent given the confidential table and the "
            "public information, with sensitivities by one distance of tables: pass independent=True if this holds"
        )
    if first.variant == "pufferfish" and len({frozenset(g.unprotected + g.known) for g in guarantees}) > 1:
        raise PrivacyError(
            "Pufferfish guarantees given different public information do not add up, because sensitivities depend on "
            "it: compute each sensitivity given all public information"
        )
    return _with_losses(_of_one_table(_joined(first, guarantees), guarantees), guarantees, sum)


def compose_parallel(
    *guarantees: Guarantee, disjoint: bool, within: bool | None = None, independent: bool | None = None
) -> Guarantee:
    """Join releases about disjoint parts of the data: only the largest loss counts, or the two largest losses.

    Parameters
    ----------
    *guarantees : Guarantee
        Of one variant.
    disjoint : bool
        Whether each release depends on its part alone, given the public information.
    within : bool
        Required: whether two neighbours differ in one part only. True if a record is added, removed, or replaced by
        another record of the same part, for example if the sizes of the parts are public. False if a record can also
        move to another part, which then has one more record, while its previous part has one less. With False, every
        part must have a guarantee for added or removed records: a guarantee for replaced records assumes that their
        number is known, so the sizes of the parts would be published without protection.
    independent : bool, optional
        Required for Pufferfish guarantees: whether under every model the data of the parts are independent given the
        public information, and each secret is about one part. PPD Lemma 7 needs both (docs/errata.md).

    Raises
    ------
    PrivacyError
        As for `compose`; or the parts are not stated to be disjoint, or `within` is not stated.
        With ``within=False``, a guarantee does not cover added or removed records.
        Pufferfish guarantees without independent parts: two dependent parts reveal the same secret.

    See Also
    --------
    ppdinf.privacy.compose

    Examples
    --------
    >>> from dataclasses import replace
    >>> from fractions import Fraction
    >>> from ppdinf.privacy import Guarantee, compose_parallel
    >>> a = Guarantee("pure", Fraction(1), neighbours="one record added or removed")
    >>> b, c = replace(a, epsilon=Fraction(2)), replace(a, epsilon=Fraction(3))
    >>> [compose_parallel(a, b, c, disjoint=True, within=within).epsilon for within in (True, False)]
    [Fraction(3, 1), Fraction(5, 1)]
    """
    first = _alike(guarantees)
    if not disjoint:
        raise PrivacyError("losses of overlapping parts add up: use compose, or pass disjoint=True for disjoint parts")
    if first.variant == "pufferfish":
        if not independent:
            raise PrivacyError(
                "if the data of two parts are dependent under a model, both releases reveal one secret, by more than "
                "either loss or their sum: pass independent=True if the parts are independent under every model and "
                "each secret is about one part; otherwise compute one sensitivity for all data, and use compose"
            )
        within = True  # a secret is about one part
    if first.metric is not None:
        raise PrivacyError(
            "a loss per unit of distance adds up over the parts as the distance does: use the guarantee with the "
            "largest loss for the complete table"
        )
    if within is None:
        raise PrivacyError(
            f"state whether neighbours, who differ in {first.neighbours}, differ in one part only: pass within=True, "
            "or within=False if a record can be replaced by a record of another part, which changes both parts"
        )

    def largest(losses: Sequence[Fraction | float]) -> Any:
        return sum(sorted(losses)[-1 if within else -2 :])

    together = _joined(first, guarantees, largest)
    if not within:
        if "added" not in str(first.neighbours):
            raise PrivacyError(
                f"these guarantees hold between neighbours who differ in {first.neighbours}, not if a part gains or "
                "loses a record, as when a record moves to another part: the sizes of the parts would be published. "
                "Use mechanisms for added or removed records, or make the sizes public and pass within=True"
            )
        together = replace(together, neighbours=f"{first.neighbours}, or moved from one part to another")
    return _with_losses(together, guarantees, largest)


def _with_losses(together: Guarantee, guarantees: tuple[Guarantee, ...], total: Callable[..., Any]) -> Guarantee:
    """Return the joint guarantee with the total of the losses."""
    zero = Fraction(0)
    if together.rho is not None:
        return replace(together, rho=total([g.rho or zero for g in guarantees]))
    epsilon, delta = total([g.epsilon or zero for g in guarantees]), total([whole_delta(g) for g in guarantees])
    if delta >= 1:
        raise PrivacyError("the sum of the deltas must be below 1: these releases have no joint guarantee")
    has_gamma = together.variant == "congenial" or together.gamma is not None
    gamma = _gamma(total([_exact_loss(g) for g in guarantees]), epsilon) if has_gamma else None
    return replace(together, epsilon=epsilon, gamma=gamma, delta=delta)


def _exact_loss(guarantee: Guarantee) -> Fraction:
    """Return the loss without rounding, or as rounded where this is larger."""
    exact = (guarantee.epsilon or Fraction(0)) * (1 + Fraction(guarantee.gamma or 0.0))
    return max(exact, Fraction(guarantee.loss()))


def _gamma(loss: Fraction, epsilon: Fraction) -> float:
    """Return the cost of conditioning with which ``(1 + gamma) epsilon`` is at least a loss, after rounding, too."""
    gamma = max(float(loss / epsilon - 1), 0.0)
    while epsilon * (1 + Fraction(gamma)) < loss or Fraction(epsilon * (1 + gamma)) < loss:
        gamma += math.ulp(1 + gamma)
    return gamma


def compose_partition(guarantees: Sequence[Guarantee], parts: Sequence[str | None]) -> Guarantee:
    """Add up releases about everybody and about disjoint parts: of the parts, only the largest loss counts."""
    by_part: dict[str, list[Guarantee]] = defaultdict(list)
    everybody: list[Guarantee] = []
    for guarantee, part in zip(_restated(tuple(guarantees)), parts, strict=True):
        if part is not None and guarantee.metric is None:
            raise PrivacyError(
                "the largest loss of disjoint parts counts only if losses are per unit of distance: this loss is "
                f"between neighbours who differ in {guarantee.neighbours}, so enter it without a part"
            )
        (everybody if part is None else by_part[part]).append(guarantee)
    if not by_part:
        return compose(*everybody, independent=True)
    of_parts = [compose(*part_guarantees) for part_guarantees in by_part.values()]
    first = _alike(tuple(of_parts))
    largest = max(of_parts, key=lambda guarantee: guarantee.loss())
    together = replace(
        _joined(first, tuple(of_parts), max), epsilon=largest.epsilon, gamma=largest.gamma, rho=largest.rho,
        delta=sum((guarantee.delta for guarantee in of_parts), start=Fraction(0)),
    )  # fmt: skip
    if together.rho is None:
        together = replace(together, metric="l1", tied=_tied_in(together, "l1"))
    return compose(*everybody, together, independent=True)


def _restated(guarantees: tuple[Guarantee, ...]) -> tuple[Guarantee, ...]:
    """Restate guarantees without loss like the others, and those between all tables as between tables within bounds."""
    known = [g for g in guarantees if isinstance(g, Guarantee)]
    like = next((g for g in known if g.epsilon or g.rho or g.delta), None)
    if like is not None and len(known) == len(guarantees):
        # Public sums restrict the tables that a guarantee compares, whatever its variant (SDP, Proposition 2.7).
        fields = {name: getattr(like, name) for name in ("variant", "metric", "neighbours", "gamma", "steps")}
        fields |= {name: None if getattr(like, name) is None else Fraction(0) for name in ("epsilon", "rho")}
        guarantees = tuple(g if g.epsilon or g.rho or g.delta else replace(g, **fields) for g in guarantees)
    if {getattr(g, "variant", None) for g in guarantees} != {"congenial", "integer-subspace"}:
        return guarantees
    return tuple(g if g.variant == "congenial" else replace(g, variant="congenial", gamma=0.0) for g in guarantees)


def _alike(guarantees: tuple[Guarantee, ...]) -> Guarantee:
    if not guarantees:
        raise PrivacyError("compose needs at least one guarantee")
    for guarantee in guarantees:
        if not isinstance(guarantee, Guarantee):
            raise PrivacyError(f"compose needs guarantees, such as release.guarantee; found {type(guarantee).__name__}")
    variants = {g.variant for g in guarantees}
    if len(variants) > 1:
        raise PrivacyError(
            f"guarantees of variants {sorted(variants)} do not add up as stated: restate them with to_zcdp first, or "
            "open a session for each of them"
        )
    if len({g.rho is None for g in guarantees}) > 1:
        raise PrivacyError("Pufferfish guarantees in epsilon and in rho do not add up: restate both with to_pufferfish")
    units = {(g.unit, g.contributions) for g in guarantees}
    if len(units) > 1:
        kinds = "; ".join(f"one {unit} with at most {count} records" for unit, count in sorted(units))
        raise PrivacyError(f"guarantees of different units ({kinds}) do not add up")
    if len({(g.neighbours, g.steps) for g in guarantees}) > 1:
        raise PrivacyError("guarantees between different kinds of neighbours do not add up: open a session for each")
    return guarantees[0]


def _joined(first: Guarantee, guarantees: tuple[Guarantee, ...], total: Callable[..., Any] = sum) -> Guarantee:
    """Drop the fields of a single release, and join unprotected information; `total` joins zCDP losses."""
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
        models=_models_of_all([g.models for g in guarantees if g.models]),
        assumed=tuple(dict.fromkeys(what for g in guarantees for what in g.assumed)),
        concentrated=_concentrated(guarantees, total),
        steps=first.steps,
        tied=max(_tied_in(g, metric) for g in guarantees),
    )


def _of_one_table(together: Guarantee, guarantees: tuple[Guarantee, ...]) -> Guarantee:
    """Add the nearest two tables that the public sums of all releases allow, where these are known."""
    possible = guarantees[0].possible
    for guarantee in guarantees[1:]:
        possible = guarantee.possible and possible and possible.joined(guarantee.possible)
    if possible is None or together.variant == "pufferfish":
        return together
    zcdp, steps = together.concentrated, together.steps
    zcdp = zcdp and replace(zcdp, tied=_nearest(possible, replace(zcdp, contributions=together.contributions)))
    if str(together.neighbours).startswith(SMALLEST) and zcdp is not None and zcdp.tied:
        steps = 0  # no smallest change of one release keeps the sums of all
    return replace(together, possible=possible, concentrated=zcdp, steps=steps, tied=_nearest(possible, together))


def _nearest(possible: PossibleTables, guarantee: Guarantee) -> float | Fraction:
    """Return the distance of the nearest table if one unit's records alone keep no public sum; otherwise 0."""
    step, alone = possible.nearest_step(guarantee), distance_of_unit(guarantee)
    if step is None:
        return math.inf
    return step[0] if alone is not None and step[0] > alone else 0


def _models_of_all(models: Sequence[str]) -> str | None:
    """Describe the models that all releases were designed for: the intersection, not the union."""
    if not models:
        return None
    prefix = EVERY if all(model.startswith(EVERY) for model in models) else ""
    conditions = dict.fromkeys(x for model in models for x in model.removeprefix(prefix).split(ALSO))
    return prefix + ALSO.join(conditions)


def _tied_in(guarantee: Guarantee, metric: str | None) -> float | Fraction:
    """Return the distance of the nearest table; in l1 at most its square in l2, because counts are integers."""
    tied = tied_distance(guarantee)
    return round(float(tied) ** 2) if metric == "l1" and guarantee.metric == "l2" else tied


def _concentrated(guarantees: tuple[Guarantee, ...], total: Callable[..., Any]) -> Guarantee | None:
    """Join the zCDP losses of the noise, if all of it is Gaussian and stated in the same way."""
    zcdp_guarantees = [g.concentrated for g in guarantees]
    if any(g is None for g in zcdp_guarantees) or any(whole_delta(g) != g.delta for g in guarantees):
        return None
    first, *others = zcdp = [g for g in zcdp_guarantees if g is not None]
    if any((g.metric, g.neighbours, g.steps) != (first.metric, first.neighbours, first.steps) for g in others):
        return None
    return replace(first, rho=total([g.rho or Fraction(0) for g in zcdp]), tied=max(g.tied for g in zcdp))
