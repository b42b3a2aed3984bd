"""The guarantee of a differentially private release conditioned on public information.

J. Seeman, M. Reimherr, A. Slavkovic, "Formal privacy for partially private data", Lemma 8, after R. Gong and X.-L.
Meng, "Congenial differential privacy under mandated disclosure", Theorem 2.1. Lemma 8 is stated for all models
conditioned on the public information. It holds if persons are independent given that information, which is true for
few public sets.
"""

from __future__ import annotations

from ppdinf.errors import PrivacyError
from ppdinf.privacy.guarantees.guarantee import Guarantee


def condition_output(guarantee: Guarantee, known: str) -> Guarantee:
    """Return the guarantee of a pure mechanism whose output is conditioned on public information.

    Let a mechanism with loss epsilon run until its output Y lies in a public set X*, the same for every
    table. Its loss is at most doubled: ``P(Y in B | Y in X*)`` is a ratio whose numerator and denominator both change
    by a factor of at most exp(epsilon).

    Parameters
    ----------
    guarantee : Guarantee
        Pure differential privacy between neighbours.
    known : str
        Description of the public information about the table, which the output must satisfy.

    Returns
    -------
    Guarantee
        Pufferfish with loss 2 epsilon, for all models in which persons are independent given the public information,
        for example if it concerns each person separately. A public sum makes persons dependent; this result does not
        apply then.

    Raises
    ------
    PrivacyError
        The guarantee is not pure, or the public information is empty.

    See Also
    --------
    ppdinf.privacy.condition_pairs, ppdinf.privacy.conditioning_cost

    Examples
    --------
    >>> from ppdinf.privacy import Guarantee, condition_output
    >>> from fractions import Fraction
    >>> pure = Guarantee("pure", Fraction(1, 4), neighbours="whether a person is in the table")
    >>> conditioned = condition_output(pure, "no count is negative")
    >>> conditioned.variant, conditioned.loss()
    ('pufferfish', Fraction(1, 2))
    """
    if guarantee.variant != "pure" or guarantee.epsilon is None or guarantee.delta:
        raise PrivacyError(f"only pure differential privacy doubles when conditioned, found {guarantee.variant!r}")
    if not isinstance(known, str) or not known.strip():
        raise PrivacyError("known must describe the public information, for example 'no count is negative'")
    return Guarantee(
        "pufferfish",
        2 * guarantee.epsilon,
        neighbours=guarantee.neighbours,
        unprotected=guarantee.unprotected,
        known=(*guarantee.known, known),
        unit=guarantee.unit,
        contributions=guarantee.contributions,
        assumed=guarantee.assumed,
        steps=guarantee.steps,
    )
