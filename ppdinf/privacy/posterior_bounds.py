"""What a privacy loss permits a reader to learn: bounds on posterior probabilities, and between two posteriors.

References
----------
R. Gong, X.-L. Meng, "Congenial differential privacy under mandated disclosure", FODS 2020, Theorem 1.3.
"""

from __future__ import annotations

import math
from typing import SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from ppdinf._internal.values import Reals, numbers
from ppdinf.errors import PrivacyError


def posterior_range(prior: ArrayLike, loss: SupportsFloat) -> tuple[Reals, Reals]:
    """Bound the posterior probability of a statement about one person after a release.

    Parameters
    ----------
    prior : float or array of float
        Probability of a statement about one person, given all public information.
    loss : float or Fraction
        Privacy loss between the tables for which the statement is true and false.

    Returns
    -------
    lower, upper : ndarray of float64
        Odds change by a factor of at most ``exp(loss)``; these bounds are at least as tight as the factor ``exp(loss)``
        on the probability in their Theorem 1.3.

    Raises
    ------
    PrivacyError
        A prior is not a number in [0, 1], or the loss is not a number from 0 to infinity.

    See Also
    --------
    ppdinf.privacy.erosion, ppdinf.privacy.posterior_distance

    Examples
    --------
    >>> from ppdinf.privacy import posterior_range
    >>> lower, upper = posterior_range(0.1, 1)
    >>> round(float(lower), 3), round(float(upper), 3)
    (0.039, 0.232)
    """
    p, factor = numbers(prior, "prior"), math.exp(-_loss(loss))
    if not np.all((p >= 0) & (p <= 1)):
        raise PrivacyError("prior must be in [0, 1]")
    certain = p == 1  # no release changes what is certain; without this, an infinite loss would give 0 / 0
    lower = p * factor / np.where(certain, 1, 1 - p + p * factor)
    upper = p / np.where(p == 0, 1, p + (1 - p) * factor)
    return np.where(certain, 1.0, lower), upper


def posterior_distance(loss: SupportsFloat) -> float:
    """Bound the distance of two posteriors: of a release with a person's record, and with another record in its place.

    Both posteriors have the same prior of the table. The total variation distance is the largest difference of their
    probabilities of any statement.

    Parameters
    ----------
    loss : float or Fraction
        Privacy loss between the two tables, which both satisfy the public information.

    Returns
    -------
    float
        ``tanh(loss / 2)``, which some prior attains; the published bound is ``exp(loss) - 1``. The odds of a statement
        differ by a factor of at most ``exp(2 loss)``: if its probability is p in one posterior,
        ``posterior_range(p, 2 * loss)`` bounds its probability in the other.

    Raises
    ------
    PrivacyError
        The loss is not a number from 0 to infinity.

    See Also
    --------
    ppdinf.privacy.posterior_range

    Notes
    -----
    Given the release, the ratio of the two likelihoods of a table is between ``exp(-loss)`` and ``exp(loss)``.

    References
    ----------
    S. P. Kasiviswanathan, A. Smith, "On the semantics of differential privacy", J. Priv. Confid. 6 (2014). Seeman et
    al., equation (3). Gong and Meng, equation (5.1).

    Examples
    --------
    >>> from ppdinf.privacy import posterior_distance
    >>> round(posterior_distance(1), 3)
    0.462
    """
    return math.tanh(_loss(loss) / 2)


def _loss(loss: SupportsFloat) -> float:
    """Validate a privacy loss."""
    try:
        size = float(loss)
    except (TypeError, ValueError):
        raise PrivacyError(f"the loss must be a number, found {loss!r:.60}") from None
    if not size >= 0:
        raise PrivacyError("loss must not be negative")
    return size
