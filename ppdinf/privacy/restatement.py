"""Restatement of a guarantee: in zCDP, as (epsilon, delta) at one distance, for models, or for dp-accounting.

References
----------
Bun and Steinke, "Concentrated differential privacy", Proposition 1.4.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf.errors import PrivacyError
from ppdinf.privacy.guarantee import Guarantee, circumstances
from ppdinf.privacy.release_guarantee import ReleaseGuarantee
from ppdinf.privacy.unit_loss import steps_at, tied_distance
from ppdinf.privacy.zcdp import as_delta, zcdp_epsilon

LARGEST = 700  # losses above have factors that overflow


def to_zcdp(guarantee: Guarantee) -> Guarantee:
    """Restate a guarantee in zCDP: Gaussian noise by its rho, a pure guarantee by half of its squared loss.

    Raises
    ------
    PrivacyError
        The guarantee has a delta and is not of Gaussian noise, or its delta is from a Markov chain; or it is about
        models of the data.

    See Also
    --------
    ppdinf.privacy.to_approximate, ppdinf.privacy.zcdp_rho

    Examples
    --------
    >>> from fractions import Fraction
    >>> from ppdinf.privacy import Guarantee, to_zcdp
    >>> to_zcdp(Guarantee("integer-subspace", Fraction(1, 2), metric="l1")).rho
    Fraction(1, 8)
    """
    if guarantee.rho is not None:
        return guarantee
    if (zcdp := guarantee.concentrated) is not None and whole_delta(guarantee) == guarantee.delta:
        names = ("unprotected", "known", "unit", "contributions", "models", "assumed", "possible")
        same_neighbours = (zcdp.metric, zcdp.neighbours) == (guarantee.metric, guarantee.neighbours)
        tied = tied_distance(guarantee) if same_neighbours else zcdp.tied
        return replace(zcdp, **{name: getattr(guarantee, name) for name in names}, tied=tied)
    if whole_delta(guarantee) or guarantee.variant == "pufferfish":
        raise PrivacyError(f"a guarantee of variant {guarantee.variant!r} with these parameters has no zCDP form")
    loss = Fraction(guarantee.loss())
    return replace(guarantee, variant="zcdp", epsilon=None, gamma=None, rho=loss**2 / 2)


def to_approximate(guarantee: Guarantee, delta: Parameter, *, distance: float = 1) -> Guarantee:
    """Restate a guarantee as (epsilon, delta) between tables at one distance.

    Parameters
    ----------
    guarantee : Guarantee
    delta : int, float, str or Fraction
        Required delta; at least the delta of the guarantee at that distance, including a Markov chain's share.
    distance : float
        Distance in its metric, or in steps between neighbours. All records of one unit are at the distance
        ``guarantee.distance_of_unit``: 2 for one person under l1 noise.

    Raises
    ------
    PrivacyError
        The delta is out of range, or the guarantee is about models of the data.

    See Also
    --------
    ppdinf.privacy.to_zcdp, ppdinf.privacy.zcdp_delta

    Examples
    --------
    >>> from fractions import Fraction
    >>> from ppdinf.privacy import Guarantee, to_approximate
    >>> census = Guarantee("zcdp", rho=Fraction("2.55623"), neighbours="one person's record")
    >>> round(float(to_approximate(census, "1e-10").epsilon), 2)
    17.14
    """
    wanted = as_delta(delta)
    if guarantee.variant == "pufferfish":
        raise PrivacyError("a Pufferfish guarantee holds under models of the data: it does not cover single tables")
    if guarantee.rho is not None:
        # rounded up at the 12th digit, so that the decimal is a valid bound
        epsilon = Fraction(f"{zcdp_epsilon(Fraction(guarantee.loss(distance)), wanted) * (1 + 1e-11):.12g}")
    else:
        epsilon = Fraction(guarantee.loss(distance))
        if guarantee.delta_at(distance) > float(wanted):
            raise PrivacyError(f"delta must be at least {guarantee.delta_at(distance):.3g} at this distance")
    step = guarantee.neighbours or f"an {guarantee.metric} distance of {distance:g}"
    return Guarantee(
        "approximate", epsilon, wanted, unprotected=guarantee.unprotected, known=guarantee.known,
        neighbours=step if distance == 1 or guarantee.metric else f"{distance:g} times {step}",
        assumed=guarantee.assumed, steps=steps_at(guarantee, distance),
        tied=0 if guarantee.metric or not distance else math.ceil(tied_distance(guarantee) / distance),
        # several records of one unit can differ by another distance
        unit="record" if guarantee.metric and guarantee.contributions > 1 else guarantee.unit,
        contributions=1 if guarantee.metric else guarantee.contributions,
    )  # fmt: skip


def to_pufferfish(
    guarantee: Guarantee, sensitivity: Parameter, *, secrets: str, models: str | None = None
) -> Guarantee:
    """Restate a guarantee between tables as a guarantee between two statements, under models of the data.

    Let a secret move the law of the table by an infinity-Wasserstein distance of at most Delta, under every model and
    given the public information. Then epsilon per unit of distance bounds the loss by epsilon Delta. Similarly, rho per
    squared unit bounds the Renyi divergence of every order alpha by alpha rho Delta^2. Gaussian noise has
    rho = 1 / (2 sigma^2).

    Parameters
    ----------
    guarantee : Guarantee
        With a metric and without delta: of `ppdinf.GeneralizedLaplace` or `ppdinf.GeneralizedGaussian`, of several
        releases by `ppdinf.privacy.compose`, or of a `ppdinf.privacy.Ledger`.
    sensitivity : int, float, str or Fraction
        Delta in the metric of the guarantee, ``delta_z(pairs, norm=guarantee.metric)``.
    secrets : str
        The pairs of statements, for example "whether one person is a case".
    models : str, optional
        The models; by default those with this sensitivity.

    Returns
    -------
    Guarantee
        Pufferfish, in epsilon or in rho. Releases of one table add up: restate their joint guarantee.

    Raises
    ------
    PrivacyError
        The guarantee has a delta or no metric; the sensitivity is not positive, or `secrets` is empty.

    See Also
    --------
    ppdinf.privacy.delta_z, ppdinf.privacy.compose, ppdinf.WassersteinExponential

    References
    ----------
    C. Pierquin, A. Bellet, M. Tommasi, M. Boussion, "Renyi Pufferfish privacy", ICML 2024.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> from ppdinf.privacy import delta_z, secret_pair, to_pufferfish
    >>> released = ppd.GeneralizedGaussian(ppd.invariants.Public(), sigma=6).guarantee
    >>> sensitivity = delta_z([secret_pair(100, "0.3", "0.4")], norm="l2")
    >>> sensitivity, to_pufferfish(released, sensitivity, secrets="whether one person is counted").rho
    (12, Fraction(2, 1))
    """
    delta = as_fraction(sensitivity, "sensitivity")
    if guarantee.metric is None or guarantee.gamma is not None or whole_delta(guarantee):
        raise PrivacyError("only a guarantee per unit of distance, without delta or gamma, holds for laws of tables")
    if not isinstance(secrets, str) or not secrets.strip():
        raise PrivacyError("secrets must describe the pairs of statements, such as 'whether one person is a case'")
    every = "every model of the data in which the secret moves the table by an infinity-Wasserstein distance of at most"
    return Guarantee(
        "pufferfish",
        None if guarantee.epsilon is None else guarantee.epsilon * delta,
        rho=None if guarantee.rho is None else guarantee.rho * delta**2,
        neighbours=secrets,
        models=models or f"{every} Delta = {delta} in {guarantee.metric}",
        **circumstances(guarantee),
    )


def to_event(guarantee: Guarantee, *, distance: float = 1) -> Any:
    """Restate a guarantee as an event of the dp-accounting library, for composition with others.

    Parameters
    ----------
    guarantee : Guarantee
        zCDP or pure; the event of a pure guarantee is randomized response, the worst case for its epsilon.
    distance : float
        As for `to_approximate`: the default is the loss per unit of distance, or between neighbours.

    Returns
    -------
    dp_accounting.DpEvent

    Raises
    ------
    PrivacyError
        The guarantee has a delta, is about models of the data, or has a loss above 700; or dp-accounting is not
        installed (``pip install dp-accounting``).

    See Also
    --------
    ppdinf.privacy.compose, ppdinf.privacy.Ledger

    Examples
    --------
    >>> from fractions import Fraction
    >>> from ppdinf.privacy import Guarantee, to_event
    >>> to_event(Guarantee("zcdp", rho=Fraction(1, 2), metric="l2"), distance=2)
    ZCDpEvent(rho=2.0, xi=0.0)
    """
    try:
        import dp_accounting
    except ImportError:
        raise PrivacyError("events require the dp-accounting library: pip install dp-accounting") from None
    if guarantee.rho is not None:
        return dp_accounting.ZCDpEvent(float(guarantee.loss(distance)))
    if guarantee.variant == "pufferfish":
        raise PrivacyError("dp-accounting has no event for a guarantee that holds under models of the data")
    if whole_delta(guarantee):
        raise PrivacyError("dp-accounting has no event for a guarantee with a delta")
    loss = float(guarantee.loss(distance))
    if loss > LARGEST:
        raise PrivacyError(f"a loss of {loss:.6g} exceeds the range of dp-accounting, and protects nothing")
    return dp_accounting.RandomizedResponseDpEvent(2 / (1 + math.exp(loss)), 2)


def whole_delta(guarantee: Guarantee) -> Fraction:
    """Return delta with a Markov chain's contribution, such that `delta_at` covers all distances from the nearest."""
    if not isinstance(guarantee, ReleaseGuarantee) or not guarantee.sampler_distance or guarantee.nearest is None:
        return guarantee.delta
    unit, there = float(guarantee.loss(1)), float(guarantee.loss(guarantee.nearest))
    share = guarantee.sampler_distance * math.expm1(min(unit, 700.0)) * (1 + math.exp(-there)) / -math.expm1(-there)
    return guarantee.delta + min(Fraction(1), Fraction(share))
