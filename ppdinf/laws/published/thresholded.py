"""Numbers that are published only at or above a threshold; an absent number was below the threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.types import Json
from ppdinf.errors import PrivacyError
from ppdinf.laws.published.censored import Censored

ABSENT = -(2**62)
"""Marks a number that was not published. PyMC treats the smallest integer as a missing value."""


@dataclass(frozen=True)
class Thresholded(Censored):
    """Numbers of another law; a number is published if it reaches the threshold, and absent otherwise.

    An absent number (nan, None, or a label that is missing) is censored. It is not zero. The weight of a count x is
    then the probability that the number given x is below the threshold. With `Rounded` or `RandomRounding` as the
    other law, counts are rounded first and suppressed afterwards.

    Parameters
    ----------
    law : IntegerLaw, LawArray, or a law of independent published numbers
        `Interval` is not included: its rule for other counts is unknown. With a `LawArray`, the result is one law for
        each entry.
    threshold : int
        Smallest number that is published. An array states one threshold per entry.

    Raises
    ------
    PrivacyError
        `law` is another object, or the threshold is not an integer.

    See Also
    --------
    ppdinf.laws.Clipped, ppdinf.laws.Interval

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.laws import Thresholded
    >>> import ppdinf as ppd
    >>> cut = Thresholded(ppd.laws.DoubleGeometric(1), threshold=5)
    >>> np.exp(cut.log_weight(np.full(3, cut.absent), np.array([0, 4, 8]))).round(3)
    array([0.995, 0.731, 0.013])
    >>> rounded = Thresholded(ppd.laws.Rounded(5), threshold=10)
    >>> rounded.support_bounds(np.array([rounded.absent, 10]), 0.0)
    (array([-inf,   8.]), array([ 7., 12.]))
    """

    name: ClassVar[str] = "thresholded"
    absent: ClassVar[int] = ABSENT
    law: Any
    threshold: int

    def __post_init__(self) -> None:
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, int | np.integer):
            raise PrivacyError(f"threshold must be an integer, found {self.threshold!r}")
        _ = self._law

    def to_dict(self) -> Json:
        """Return the name, the threshold, and the other law."""
        return super().to_dict() | {"threshold": str(self.threshold)}

    @classmethod
    def _of_texts(cls, data: Json) -> Thresholded:
        return cls(cls._other_law(data, "threshold"), int(data["threshold"]))

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        """Type of published numbers, that of the other law."""
        return self._law.dtype

    @property
    def limit(self) -> int:
        """The threshold."""
        return self.threshold

    @property
    def mark(self) -> int:
        """`ABSENT`."""
        return ABSENT

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return f"which is published from {self.threshold} on"

    def written(self, y: NDArray[Any]) -> NDArray[np.object_]:
        """Return published numbers, and an empty text for absent numbers."""
        values = np.full(y.shape, "", dtype=object)
        values[y != ABSENT] = self._law.written(y[y != ABSENT])
        return values
