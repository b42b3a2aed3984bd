"""What a differentially private release promises once it is conditioned on public information.

J. Seeman, M. Reimherr, A. Slavkovic, "Formal privacy for partially private data", Lemma 8, after R. Gong and X.-L.
Meng, "Congenial differential privacy under mandated disclosure", Theorem 2.1. Lemma 8 is stated for all models
conditioned on what is public; it holds where persons are independent given that, as only some public sets leave them.
"""

from __future__ import annotations

from ppdinf.errors import PrivacyError
from ppdinf.privacy.guarantees.guarantee import Guarantee

__all__ = ["condition_output"]


def condition_output(guarantee: Guarantee, known: str) -> Guarantee:
    """Return the promise of a pure mechanism whose output is conditioned on what is public.

    A mechanism with loss epsilon that is run until its output Y lies in a public set X*, the same for every
    table, has at most twice the loss: ``P(Y in B | Y in X*)`` is a ratio, and either part of it moves by a factor
    of at most exp(epsilon).

    Parameters
    ----------
    guarantee : Guarantee
        Pure differential privacy between neighbours.
    known : str
        What is public of the table and demanded of the output, as a phrase.

    Returns
    -------
    Guarantee
        Pufferfish with loss 2 epsilon, under all models in which persons are independent given what is public: as where
        that is said of each of them by itself. A public sum ties them to each other; no loss follows then.

    Raises
    ------
    PrivacyError
        The guarantee is not pure, or nothing is said to be public.

    Examples
    --------
    >>> from fractions import Fraction
    >>> pure = Guarantee("pure", Fraction(1, 4), neighbours="whether a person is in the table")
    >>> promise = condition_output(pure, "no count is negative")
    >>> promise.variant, promise.loss()
    ('pufferfish', Fraction(1, 2))
    """
    if guarantee.variant != "pure" or guarantee.epsilon is None or guarantee.delta:
        raise PrivacyError(f"only pure differential privacy doubles when conditioned, found {guarantee.variant!r}")
    if not isinstance(known, str) or not known.strip():
        raise PrivacyError("say what is public, for example 'no count is negative'")
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
